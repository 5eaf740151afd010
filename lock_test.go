package dts_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dts-sched/dts"
	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
)

// take takes a lock that nobody holds for long.
func take(t *testing.T, c *dts.Client, name string, ttl time.Duration, given ...dts.LockOption) *dts.Lock {
	t.Helper()
	l, err := c.Lock(t.Context(), name, ttl, given...)
	testkit.Must(t, err)
	return l
}

func unlock(t *testing.T, l *dts.Lock) {
	t.Helper()
	testkit.Must(t, l.Unlock(t.Context()))
}

// refused checks that somebody else holds the lock deploy.
func refused(t *testing.T, c *dts.Client) {
	t.Helper()
	if _, err := c.Lock(t.Context(), "deploy", time.Minute, dts.LockWait(0)); dts.CodeOf(err) != dts.CodeLockHeld {
		t.Errorf("taking the lock that another holds: %v", err)
	}
}

func TestLock_IsHeldUntilUnlock(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, c *dts.Client) {
		l := take(t, c, "deploy", time.Minute, dts.LockNote("v42"))
		refused(t, c)
		unlock(t, take(t, c, "other", time.Minute))
		held := collect(t, c.ListLocks(t.Context()))
		if len(held) != 1 || held[0].Name != "deploy" || held[0].Fence != l.Fence() || held[0].Note != "v42" || held[0].TTL != time.Minute ||
			held[0].Holder == "" || held[0].ExpiresAt.Sub(held[0].Since) < time.Minute {
			t.Errorf("listed %+v", held)
		}
		unlock(t, l)
		if cause := testkit.Cause(t, l.Context(), "the end"); !errors.Is(cause, context.Canceled) {
			t.Errorf("the context ended because of %v", cause)
		}
		unlock(t, l)
		next := take(t, c, "deploy", time.Minute, dts.LockWait(0))
		defer unlock(t, next)
		if next.Fence() <= l.Fence() {
			t.Errorf("fence %d after %d", next.Fence(), l.Fence())
		}
	})
}

func TestLock_IsRenewedWhetherItsContextEndsOrNot(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	overBoth(t, func(t *testing.T, c *dts.Client) {
		ctx, cancel := context.WithCancel(t.Context())
		const ttl = 15 * time.Second // so long that a busy machine answers and renews in time
		l, err := c.Lock(ctx, "deploy", ttl)
		testkit.Must(t, err)
		cancel()
		if cause := testkit.Cause(t, l.Context(), "the end with its parent"); !errors.Is(cause, context.Canceled) {
			t.Errorf("the context ended because of %v", cause)
		}
		first := collect(t, c.ListLocks(t.Context()))[0]
		testkit.Eventually(t, "it is renewed", func() bool {
			now := collect(t, c.ListLocks(t.Context()))
			return len(now) == 1 && now[0].Fence == l.Fence() && now[0].ExpiresAt.Sub(first.ExpiresAt) > ttl/6
		})
		testkit.Must(t, l.Unlock(ctx)) // which has ended
		unlock(t, take(t, c, "deploy", time.Second, dts.LockWait(0)))
	})
}

func TestLock_IsReentrantForItsHolder(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, c *dts.Client) {
		outer := take(t, c, "deploy", time.Minute)
		inner, err := c.Lock(context.WithoutCancel(outer.Context()), "deploy", time.Minute, dts.LockWait(0))
		testkit.Must(t, err)
		if inner.Fence() != outer.Fence() {
			t.Errorf("fences %d and %d", outer.Fence(), inner.Fence())
		}
		elsewhere, err := c.In("elsewhere").Lock(inner.Context(), "deploy", time.Minute, dts.LockWait(0))
		testkit.Must(t, err)
		if held := collect(t, c.In("elsewhere").ListLocks(t.Context())); len(held) != 1 || held[0].Fence != elsewhere.Fence() {
			t.Errorf("the other namespace has the locks %+v", held)
		}
		unlock(t, elsewhere)
		unlock(t, inner)
		unlock(t, inner) // counts once
		if outer.Context().Err() != nil {
			t.Error("the inner Unlock ended the outer lock")
		}
		refused(t, c)
		last, err := c.Lock(outer.Context(), "deploy", time.Minute, dts.LockWait(0))
		testkit.Must(t, err)
		unlock(t, outer)
		refused(t, c) // last is still there
		unlock(t, last)
		again, err := c.Lock(context.WithoutCancel(outer.Context()), "deploy", time.Minute, dts.LockWait(0))
		testkit.Must(t, err)
		if again.Fence() <= outer.Fence() {
			t.Errorf("a new lock has fence %d, the one before %d", again.Fence(), outer.Fence())
		}
		unlock(t, again)
	})
}

func TestLock_WaitsForTheRelease(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, c *dts.Client) {
		first := take(t, c, "deploy", time.Minute)
		if _, err := c.Lock(t.Context(), "deploy", time.Minute, dts.LockWait(30*time.Millisecond)); dts.CodeOf(err) != dts.CodeLockHeld {
			t.Errorf("after the wait: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := c.Lock(ctx, "deploy", time.Minute); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after the end of the context: %v", err)
		}
		type taken struct {
			*dts.Lock
			err error
		}
		got := make(chan taken, 1)
		go func() {
			l, err := c.Lock(t.Context(), "deploy", time.Minute)
			got <- taken{l, err}
		}()
		_ = clock.Sleep(t.Context(), 100*time.Millisecond) // most likely it waits by then; it holds in any case
		unlock(t, first)
		second := testkit.Receive(t, got, "the lock, long before it would expire")
		testkit.Must(t, second.err)
		unlock(t, second.Lock)
	})
}

// resource is what a lock protects: it refuses a fence that is lower than one it has seen, and notices two at the same time.
type resource struct {
	inside atomic.Int32
	newest atomic.Int64
	writes int // guarded by the lock that is tested, so that the race detector sees who has none
}

func (r *resource) write(fence int64) error {
	if r.inside.Add(1) != 1 {
		return errors.New("two at the same time")
	}
	defer r.inside.Add(-1)
	if newest := r.newest.Swap(fence); newest >= fence {
		return fmt.Errorf("fence %d after %d", fence, newest)
	}
	r.writes++
	return nil
}

func TestLock_HasOneHolderUnderContention(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	const each, rounds = 6, 5
	var protected resource
	var contenders sync.WaitGroup
	for _, connect := range []func() (*dts.Client, error){
		func() (*dts.Client, error) { return dts.Dial(f.address) },
		func() (*dts.Client, error) { return dts.Open(f.redis) },
	} {
		c, err := connect()
		testkit.Must(t, err)
		defer func() { testkit.Must(t, c.Close()) }()
		for range each {
			contenders.Go(func() {
				for range rounds {
					l, err := c.Lock(t.Context(), "counter", 10*time.Second)
					if err != nil {
						t.Error(err)
						return
					}
					err = protected.write(l.Fence())
					if err = errors.Join(err, l.Unlock(t.Context())); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	contenders.Wait()
	if protected.writes != 2*each*rounds {
		t.Errorf("%d writes, want %d", protected.writes, 2*each*rounds)
	}
}

// cutOff is a client that reaches Redis through a proxy.
func cutOff(t *testing.T) (*redistest.Proxy, *dts.Client, *dts.Client) {
	t.Helper()
	f := newFleet(t)
	proxy := redistest.NewProxy(t, f.redis[len("redis://"):len(f.redis)-len("/0")])
	behind, err := dts.Open(proxy.URL())
	testkit.Must(t, err)
	free, err := dts.Open(f.redis)
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, errors.Join(behind.Close(), free.Close())) })
	return proxy, behind, free
}

func TestLock_IsLostBeforeAnotherCanHaveIt(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	proxy, behind, free := cutOff(t)
	l := take(t, behind, "deploy", time.Second)
	proxy.Hold() // nothing arrives any more: neither renewals nor their refusals
	lostAt := make(chan time.Time, 1)
	context.AfterFunc(l.Context(), func() { lostAt <- clock.Now() })
	next := take(t, free, "deploy", time.Minute)
	taken := clock.Now()
	if lost := testkit.Receive(t, lostAt, "the loss"); lost.After(taken) {
		t.Errorf("the context ended %s after another holder got the lock", lost.Sub(taken))
	}
	if code := dts.CodeOf(context.Cause(l.Context())); code != dts.CodeLockLost {
		t.Errorf("the context ended because of %v", context.Cause(l.Context()))
	}
	if _, err := behind.Lock(l.Context(), "deploy", time.Second); dts.CodeOf(err) != dts.CodeLockLost {
		t.Errorf("re-entering a lost lock: %v", err)
	}
	proxy.Release() // late renewals arrive
	if err := l.Unlock(t.Context()); dts.CodeOf(err) != dts.CodeLockLost {
		t.Errorf("unlocking a lost lock: %v", err)
	}
	refused(t, free)
	if held := collect(t, free.ListLocks(t.Context())); len(held) != 1 || held[0].Fence != next.Fence() || next.Fence() <= l.Fence() {
		t.Errorf("held are %+v, want fence %d", held, next.Fence())
	}
	unlock(t, next)
}

// A reply of Redis that is lost has the script run again; a holder that is cut off for less than its lease goes on.
func TestLock_OutlastsAnInterruption(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	proxy, behind, free := cutOff(t)
	l := take(t, behind, "deploy", 8*time.Second) // so that it outlasts a busy machine as well
	for range testkit.Amount(1, 3) {
		first := collect(t, free.ListLocks(t.Context()))[0].ExpiresAt
		proxy.Cut()
		proxy.Mend()
		testkit.Eventually(t, "a renewal", func() bool {
			held := collect(t, free.ListLocks(t.Context()))
			return len(held) == 1 && held[0].Fence == l.Fence() && held[0].ExpiresAt.After(first)
		})
	}
	if l.Context().Err() != nil {
		t.Errorf("lost: %v", context.Cause(l.Context()))
	}
	proxy.Cut()
	if err := l.Unlock(t.Context()); dts.CodeOf(err) != dts.CodeUnavailable && dts.CodeOf(err) != dts.CodeLockLost {
		t.Errorf("unlocking without Redis: %v", err)
	}
	proxy.Mend()
	testkit.Eventually(t, "unlocked", func() bool {
		return l.Unlock(t.Context()) == nil || dts.CodeOf(l.Unlock(t.Context())) == dts.CodeLockLost
	})
	unlock(t, take(t, free, "deploy", time.Second, dts.LockWait(0)))
}

func TestLock_OfAnAbandonedWaiterIsFree(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, c *dts.Client) {
		for range 5 {
			first := take(t, c, "deploy", time.Hour)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				l, err := c.Lock(ctx, "deploy", time.Hour)
				if err == nil {
					err = l.Unlock(t.Context())
				}
				ended <- err
			}()
			go cancel()
			unlock(t, first)
			if err := testkit.Receive(t, ended, "the end of the wait"); err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("ended with %v", err)
			}
			unlock(t, take(t, c, "deploy", time.Minute, dts.LockWait(5*time.Second)))
		}
	})
}
