package control

import (
	"context"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/task"
)

const (
	redisClockLifetime = 2 * time.Second // after which the clock of Redis is read again
	redisClockTimeout  = time.Second     // of reading it
)

// redisClock is the clock of Redis: a reading of it, and the time that has passed since.
type redisClock struct {
	first sync.Once // the first reading
	mu    sync.Mutex
	asked time.Time // when it was read last, with success or without
	at    time.Time // the last reading; zero before the first one
	seen  time.Time // when there was the last reading, by the clock of this process
}

// now returns the time. All callers wait for the first reading. One caller reads the clock again when the last reading is too old; those who call
// meanwhile do not wait for it. A reading that fails leaves the one before it; as long as there is none, the time is that of this process.
func (r *redisClock) now(ctx context.Context, read func(context.Context) (time.Time, error)) time.Time {
	r.first.Do(func() { r.refresh(ctx, read) })
	r.refresh(ctx, read)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at.IsZero() {
		return clock.Now()
	}
	return r.at.Add(clock.Since(r.seen))
}

// refresh reads the clock if it is the caller who has to.
func (r *redisClock) refresh(ctx context.Context, read func(context.Context) (time.Time, error)) {
	if !r.isOld() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, redisClockTimeout)
	defer cancel()
	if at, err := read(ctx); err == nil {
		r.set(at)
	}
}

// isOld reports whether the caller has to read the clock. It does so to one caller in redisClockLifetime.
func (r *redisClock) isOld() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.asked.IsZero() && clock.Since(r.asked) < redisClockLifetime {
		return false
	}
	r.asked = clock.Now()
	return true
}

func (r *redisClock) set(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at, r.seen = at, clock.Now()
}

// now is the time by Redis's clock, as far as this process can tell. Where no heartbeat tells it, the server of the partition of ref is asked, which
// the caller is about to call anyway.
func (c *Control) now(ctx context.Context, ref task.Ref) time.Time {
	if c.beatTime != nil {
		if now := c.beatTime(); !now.IsZero() {
			return now
		}
	}
	return c.clock.now(ctx, func(ctx context.Context) (time.Time, error) { return c.store.Now(ctx, c.store.PartitionOf(ref)) })
}
