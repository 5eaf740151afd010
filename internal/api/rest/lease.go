package rest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/clock"
)

// ErrLockLost is the cause of a Lease's context if the lock could not be renewed in time.
var ErrLockLost = errors.New("the lock was not renewed in time")

// errUnlocked is the cause of a Lease's context after Release.
var errUnlocked = fmt.Errorf("the lock was released: %w", context.Canceled)

// Lease is a lock that is held. A goroutine renews it until it is released or lost.
//
// It is trusted from the moment at which the request began that was answered, and for a little less than its time to live: so its
// context ends before anybody else can have the lock, unless the process stands still.
type Lease struct {
	client *Client
	lock   wire.Lock
	ttl    time.Duration

	trusted  context.Context // ends when the lease is released, or can no longer be trusted
	end      context.CancelCauseFunc
	deadline *time.Timer        // ends trusted
	life     context.Context    // of the renewing goroutine
	stop     context.CancelFunc // ends life
	ended    chan struct{}      // closed when the goroutine has returned

	release sync.Mutex // serialises Release
	done    bool       // it is released
}

// hold keeps a lock that is trusted from a moment on.
func hold(c *Client, lock wire.Lock, ttl time.Duration, from time.Time) *Lease {
	l := &Lease{client: c, lock: lock, ttl: ttl, ended: make(chan struct{})}
	l.life, l.stop = context.WithCancel(context.Background())
	l.trusted, l.end = context.WithCancelCause(context.Background())
	l.deadline = time.AfterFunc(trust(l.ttl)-clock.Since(from), func() { l.end(ErrLockLost) })
	go l.keep(from)
	return l
}

// trust is how long a request for a lock counts from its start, if it was answered. It is less than the lock's time to live, because the
// clocks of two machines do not run equally fast.
func trust(ttl time.Duration) time.Duration { return ttl - ttl/20 }

// Fence is the fencing token. It is higher than that of every earlier holder.
func (l *Lease) Fence() int64 { return l.lock.Fence }

// Context ends when the lease is over. Its cause is or wraps ErrLockLost, or is context.Canceled after Release.
func (l *Lease) Context() context.Context { return l.trusted }

// keep renews the lease until it is released or lost: a third of its time to live after the start of the last success, and a tenth of
// it after a renewal that failed.
func (l *Lease) keep(from time.Time) {
	defer close(l.ended)
	defer l.deadline.Stop()
	wait := l.ttl/3 - clock.Since(from)
	for l.pause(wait) {
		start := clock.Now()
		err := l.renew()
		refusal := RefusalIn(err)
		switch {
		case refusal != nil && refusal.Code == wire.LockLost:
			l.end(fmt.Errorf("%w: %w", ErrLockLost, err))
			return
		case l.trusted.Err() != nil:
			return
		case err == nil:
			l.deadline.Reset(trust(l.ttl) - clock.Since(start))
		}
		wait = l.ttl/3 - clock.Since(start)
		if err != nil {
			wait = l.ttl / 10
		}
	}
}

// pause returns true after d, and false when the lease is over.
func (l *Lease) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return l.life.Err() == nil
	case <-l.trusted.Done():
	case <-l.life.Done():
	}
	return false
}

// renew makes one renewal. Its timeout of a quarter of the time to live leaves time for another one.
func (l *Lease) renew() error {
	ctx, cancel := context.WithTimeout(l.life, l.ttl/4)
	defer cancel()
	body := wire.LockRenewal{Holder: l.lock.Holder, Fence: l.lock.Fence}
	params := &client.RenewLockParams{Namespace: &l.lock.Namespace}
	_, err := Read[wire.LockExtension](l.client.RenewLockWithResponse(ctx, l.lock.Name, params, body))
	return err
}

// Release ends the context, waits until the renewing goroutine has returned, and gives the lock back. Releasing a lost or released
// lease is not an error. Errors: those of Read, and that of ctx; the lock then expires, and Release may be called again.
func (l *Lease) Release(ctx context.Context) error {
	l.end(errUnlocked)
	l.stop()
	<-l.ended
	l.release.Lock()
	defer l.release.Unlock()
	if l.done {
		return nil
	}
	named := *l.client
	named.Namespace = &l.lock.Namespace
	if err := named.releaseLock(ctx, l.lock.Name, wire.LockRelease{Holder: l.lock.Holder, Fence: &l.lock.Fence}); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return err
	}
	l.done = true
	return nil
}
