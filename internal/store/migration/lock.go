package migration

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
)

const (
	lockTTL     = 30 * time.Second
	extendAfter = lockTTL / 4

	releaseLimit = 2 * time.Second
)

// errTakenOver is returned after the lock has expired. Another node may convert now, which does no harm, as whatever one of
// them has converted is done for the other one.
var errTakenOver = errors.New("the lock of the conversion has expired")

// lock is the key that keeps other nodes from converting at the same time.
type lock struct {
	m        *migration
	extended time.Time
}

// acquire takes the lock. holder is the node that has it, if it is another one.
func (m *migration) acquire(ctx context.Context) (_ *lock, holder string, _ error) {
	now := clock.Now()
	key := string(m.Keys.Conversion())
	if err := m.DB.SetNX(ctx, key, m.id, lockTTL).Err(); err != nil {
		return nil, "", err
	}
	holder, err := m.DB.Get(ctx, key).Result() // the client may have sent SET again, which would then say that the key exists
	if errors.Is(err, redis.Nil) {
		return nil, "", errTakenOver
	}
	if err != nil {
		return nil, "", err
	}
	if holder != m.id {
		return nil, holder, nil
	}
	return &lock{m: m, extended: now}, "", nil
}

// keep extends the lock if a part of its time has passed. Error: errTakenOver, or an error of Redis.
func (l *lock) keep(ctx context.Context) error {
	now := clock.Now()
	if now.Sub(l.extended) < extendAfter {
		return nil
	}
	err := l.ifHeld(ctx, func(pipe redis.Pipeliner, key string) { pipe.PExpire(ctx, key, lockTTL) })
	if err == nil {
		l.extended = now
	}
	return err
}

// release deletes the lock, even if ctx has ended. If that fails, the next node waits until the lock expires.
func (l *lock) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseLimit)
	defer cancel()
	err := l.ifHeld(ctx, func(pipe redis.Pipeliner, key string) { pipe.Del(ctx, key) })
	if err != nil && !errors.Is(err, errTakenOver) {
		l.m.Log.WarnContext(ctx, "cannot release the lock of the conversion", "error", err)
	}
}

// ifHeld runs a command on the key if it holds the id of this node still. Error: errTakenOver if not.
func (l *lock) ifHeld(ctx context.Context, command func(pipe redis.Pipeliner, key string)) error {
	key := string(l.m.Keys.Conversion())
	err := l.m.DB.Watch(ctx, func(tx *redis.Tx) error {
		holder, err := tx.Get(ctx, key).Result()
		if errors.Is(err, redis.Nil) || err == nil && holder != l.m.id {
			return errTakenOver
		}
		if err != nil {
			return err
		}
		_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error { command(pipe, key); return nil })
		return err
	}, key)
	if errors.Is(err, redis.TxFailedErr) {
		return errTakenOver
	}
	return err
}
