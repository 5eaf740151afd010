package lease_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/lease"
	"github.com/dts-sched/dts/internal/lease/leasetest"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestLease_HasOneOwnerAtATime(t *testing.T) {
	t.Parallel()
	const owners, rounds = 12, 5
	db := redistest.Start(t).DB(t)
	var inside atomic.Int32
	var last atomic.Int64
	var all sync.WaitGroup
	for i := range owners {
		l := leaseFor(db, fmt.Sprint("owner ", i), long)
		all.Go(func() {
			for range rounds {
				held, err := l.Acquire(t.Context())
				for errors.Is(err, lease.ErrHeld) && clock.Sleep(t.Context(), time.Millisecond) == nil {
					held, err = l.Acquire(t.Context())
				}
				if err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d hold the lease at once", n)
				}
				if before := last.Swap(held.Token()); held.Token() <= before {
					t.Errorf("token %d was given out after %d", held.Token(), before)
				}
				inside.Add(-1)
				release(t, held)
			}
		})
	}
	all.Wait()
	if last.Load() != owners*rounds {
		t.Errorf("the last token is %d after %d leases", last.Load(), owners*rounds)
	}
}

func TestLease_IsGivenToOneOfManyWhoAskAtOnce(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	var won, refused atomic.Int32
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			held, err := leaseFor(db, fmt.Sprint("owner ", i), long).Acquire(t.Context())
			switch {
			case err == nil:
				won.Add(1)
				t.Cleanup(func() { release(t, held) })
			case errors.Is(err, lease.ErrHeld):
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	if won.Load() != 1 || refused.Load() != 49 {
		t.Errorf("%d got the lease and %d were refused", won.Load(), refused.Load())
	}
}

func TestLease_RefusalSaysHowLongTheLeaseHas(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	acquire(t, leaseFor(db, "a", time.Minute))

	_, err := leaseFor(db, "b", time.Second).Acquire(t.Context())

	var refused *lease.HeldError
	if !errors.As(err, &refused) || !errors.Is(err, lease.ErrHeld) {
		t.Fatalf("got %v", err)
	}
	if refused.Remaining <= 0 || refused.Remaining > time.Minute {
		t.Errorf("%s remain of a minute", refused.Remaining)
	}
}

func TestLease_TokenGrowsAfterRelease(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	first := acquire(t, leaseFor(db, "a", long))
	release(t, first)
	again := acquire(t, leaseFor(db, "a", long))
	release(t, again)
	other := acquire(t, leaseFor(db, "b", long))
	if first.Token() >= again.Token() || again.Token() >= other.Token() {
		t.Errorf("tokens %d, %d, %d", first.Token(), again.Token(), other.Token())
	}
}

func TestLease_TokenGrowsAfterExpiry(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	ctx, cancel := context.WithCancel(t.Context())
	first, err := leaseFor(db, "a", short).Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cancel() // nobody renews it, nobody releases it
	testkit.Eventually(t, "the lease expired", func() bool { return holder(t, db) == "" })

	if again := acquire(t, leaseFor(db, "a", long)); again.Token() <= first.Token() {
		t.Errorf("token %d after %d", again.Token(), first.Token())
	}
}

func TestLease_GivesItsOwnerTheSameTokenAndMoreTime(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	first := acquire(t, leaseFor(db, "a", time.Minute))
	again := acquire(t, leaseFor(db, "a", long))
	if first.Token() != again.Token() || first.Fence() != again.Fence() {
		t.Errorf("%s, then %s", first.Fence(), again.Fence())
	}
	if left := leasetest.Left(t, db, key, again.Fence()); left <= time.Minute {
		t.Errorf("the lease has %s left", left)
	}
}

func TestHeld_FenceNamesTheHolder(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	held := acquire(t, leaseFor(db, "host-1:x", long)) // an owner may have a colon
	if got := holder(t, db); got != string(held.Fence()) || got != "1:host-1:x" {
		t.Errorf("%q holds it, the fence is %q", got, held.Fence())
	}
	if again := acquire(t, leaseFor(db, "host-1:x", long)); again.Token() != held.Token() {
		t.Errorf("token %d, then %d for the same owner", held.Token(), again.Token())
	}
}

func TestHeld_ReleaseLeavesTheLeaseOfAnotherAlone(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	stale := acquire(t, leaseFor(db, "a", long))
	leasetest.End(t, db, key)
	current := acquire(t, leaseFor(db, "b", long))
	news := subscribe(t, db, "released")

	release(t, stale)

	if got := holder(t, db); got != string(current.Fence()) {
		t.Errorf("%q holds it, not %q", got, current.Fence())
	}
	if err := db.Publish(t.Context(), "released", "last").Err(); err != nil {
		t.Fatal(err)
	}
	if m := <-news; m != "last" {
		t.Errorf("a release was told: %q", m)
	}
}

func TestHeld_ReleaseIsPublishedOnce(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	news := subscribe(t, db, "released")
	lock := lease.New(lease.Options{DB: db, Key: key, Owner: "a", Channel: "released", Message: "7"})
	held := acquire(t, lock)

	release(t, held)
	again := acquire(t, lock)
	release(t, held) // has been released: it must not take away what was acquired since
	if got := holder(t, db); got != string(again.Fence()) {
		t.Errorf("%q holds it, not %q", got, again.Fence())
	}
	if err := db.Publish(t.Context(), "released", "last").Err(); err != nil {
		t.Fatal(err)
	}
	if first, second := <-news, <-news; first != "7" || second != "last" {
		t.Errorf("told: %q, %q", first, second)
	}
}

func TestHeld_ReleaseCanBeRepeatedAfterAnError(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	proxy := redistest.NewProxy(t, srv.Addr())
	held := acquire(t, leaseFor(redistest.Open(t, proxy.URL()), "a", long))
	proxy.Cut()
	if err := held.Release(t.Context()); err == nil {
		t.Error("released without Redis")
	}
	if cause := testkit.Cause(t, held.Context(), "the end of the lease"); !errors.Is(cause, lease.ErrReleased) {
		t.Errorf("the context ended with %v", cause)
	}
	proxy.Mend()
	release(t, held)
	if got := holder(t, srv.DB(t)); got != "" {
		t.Errorf("%q still holds it", got)
	}
}

func TestLease_HasADefaultTimeToLive(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	held := acquire(t, leaseFor(db, "a", 0))
	if left := leasetest.Left(t, db, key, held.Fence()); left <= 0 || left > lease.DefaultTTL {
		t.Errorf("the lease has %s left", left)
	}
}

func TestLease_UnreachableRedisIsNotARefusal(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	srv := redistest.Start(t)
	db := srv.DB(t)
	srv.Kill()
	_, err := leaseFor(db, "a", short).Acquire(t.Context())
	if err == nil || errors.Is(err, lease.ErrHeld) {
		t.Errorf("got %v", err)
	}
}

func TestLease_WorksOnAnEmbeddedRedis(t *testing.T) {
	t.Parallel()
	db := redistest.Open(t, "redis://"+miniredis.RunT(t).Addr())
	held := acquire(t, leaseFor(db, "a", short))
	if _, err := leaseFor(db, "b", short).Acquire(t.Context()); !errors.Is(err, lease.ErrHeld) {
		t.Fatalf("got %v", err)
	}
	release(t, held)
	if other := acquire(t, leaseFor(db, "b", short)); other.Token() != 2 {
		t.Errorf("token %d", other.Token())
	}
}

// subscribe returns once it listens.
func subscribe(t *testing.T, db *redisx.DB, channel string) <-chan string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	said, listens := make(chan string, 100), make(chan struct{})
	var once sync.Once
	var running sync.WaitGroup
	running.Go(func() {
		_ = db.Listen(ctx, redisx.Listener{
			Connected: func(string) { once.Do(func() { close(listens) }) },
			Message:   func(_, m string) { said <- m },
		}, channel)
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	<-listens
	return said
}

// The clock of Redis went back, and with it the time that is left of leases.
func TestAcquire_CutsALeaseThatWouldLastLongerThanItsHolderAskedFor(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, redistest.MovableClock(t))
	db := srv.DB(t)
	leasetest.Grant(t, db, key, "1:dead", 0)
	testkit.Must(t, db.Set(t.Context(), key+":1:dead", short.Milliseconds(), short).Err()) // as acquire_lease does
	srv.MoveClock(-time.Hour)
	other := leaseFor(db, "b", long)
	_, err := other.Acquire(t.Context())
	var taken *lease.HeldError
	if !errors.As(err, &taken) || taken.Remaining > short {
		t.Errorf("it got %v", err)
	}
	testkit.Eventually(t, "the lease is over", func() bool { return holder(t, db) == "" })
	acquire(t, other)
}

// What a holder wrote is what others cut to.
func TestAcquire_SaysForHowLongItAsked(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	held := acquire(t, leaseFor(db, "a", long))
	testkit.Must(t, db.PExpire(t.Context(), key+":"+string(held.Fence()), 2*long).Err())
	if _, err := leaseFor(db, "b", short).Acquire(t.Context()); !errors.Is(err, lease.ErrHeld) {
		t.Fatal(err)
	}
	if left := leasetest.Left(t, db, key, held.Fence()); left > long || left < long/2 {
		t.Errorf("%s are left, want what the holder asked for, %s", left, long)
	}
}
