package lease_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/lease"
	"github.com/dts-sched/dts/internal/lease/leasetest"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/redisx/embedded"
	"github.com/dts-sched/dts/internal/testkit"
)

// It has its Redis and its clock to itself: a machine that stops for a moment cannot end the lease.
func TestHeld_IsRenewedForSeveralLifetimes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, err := embedded.StartHidden()
		testkit.Must(t, err)
		db, err := redisx.Open(t.Context(), redisx.Options{URL: server.URL(), Dial: server.Dial, PingAfter: time.Hour})
		testkit.Must(t, err)
		held, err := leaseFor(db, "a", short).Acquire(t.Context())
		testkit.Must(t, err)
		other := leaseFor(db, "b", short)
		for passed := time.Duration(0); passed < 4*short; passed += short / 10 {
			if _, err := other.Acquire(t.Context()); !errors.Is(err, lease.ErrHeld) {
				t.Fatalf("after %s somebody else asked: %v", passed, err)
			}
			testkit.Must(t, clock.Sleep(t.Context(), short/10))
		}
		if held.Context().Err() != nil {
			t.Errorf("the context ended: %v", context.Cause(held.Context()))
		}
		release(t, held)
		testkit.Must(t, db.Close())
		server.Close()
		testkit.Must(t, clock.Sleep(t.Context(), time.Minute)) // what the client of Redis still does by itself ends
	})
}

func TestHeld_ContextEndsBeforeTheLeaseWhenRedisIsUnreachable(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	for name, breakIt := range map[string]func(*redistest.Proxy){
		"connections are cut": (*redistest.Proxy).Cut,
		"nothing arrives":     (*redistest.Proxy).Hold,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			direct, proxy := srv.DB(t), redistest.NewProxy(t, srv.Addr())
			held, err := leaseFor(redistest.Open(t, proxy.URL()), "a", 2*short).Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			breakIt(proxy)
			testkit.Eventually(t, "the lease expired", func() bool { return holder(t, direct) == "" })
			if held.Context().Err() == nil {
				t.Error("the lease ran out before the context")
			}
			if cause := context.Cause(held.Context()); !errors.Is(cause, lease.ErrLost) {
				t.Errorf("the context ended with %v", cause)
			}
			proxy.Cut() // so that an attempt under way need not wait for its timeout
			proxy.Release()
			proxy.Mend()
			release(t, held)
		})
	}
}

func TestHeld_LateRenewalDoesNotReviveALease(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	direct, proxy := srv.DB(t), redistest.NewProxy(t, srv.Addr())
	held := acquire(t, leaseFor(redistest.Open(t, proxy.URL()), "a", short))
	proxy.Hold()
	testkit.Eventually(t, "a renewal is on its way", func() bool { return len(proxy.Held()) > 0 })
	testkit.Eventually(t, "the lease expired", func() bool { return holder(t, direct) == "" })
	before := redistest.Dump(t, direct)
	proxy.Release()
	_ = testkit.Cause(t, held.Context(), "the end of the lease")
	release(t, held)
	same(t, before, redistest.Dump(t, direct))
}

func TestHeld_RefusedRenewalEndsTheContextAtOnce(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	held := acquire(t, leaseFor(db, "a", short))
	leasetest.Grant(t, db, key, "2:b", time.Hour)
	cause := testkit.Cause(t, held.Context(), "the end of the lease")
	var refusal *redisx.Refusal
	if !errors.Is(cause, lease.ErrLost) || !errors.As(cause, &refusal) || refusal.Detail != "2:b" {
		t.Errorf("the context ended with %v", cause)
	}
}

func TestHeld_ContextEndsWithItsParent(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	held, err := leaseFor(db, "a", short).Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	cancel(enough)
	if cause := testkit.Cause(t, held.Context(), "the end of the lease"); !errors.Is(cause, enough) {
		t.Errorf("the context ended with %v", cause)
	}
	testkit.Eventually(t, "the lease expired by itself", func() bool { return holder(t, db) == "" })
}

func TestHeld_ContextCarriesTheValuesOfItsParent(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	type name struct{}
	held, err := leaseFor(db, "a", long).Acquire(context.WithValue(t.Context(), name{}, "seven"))
	if err != nil {
		t.Fatal(err)
	}
	defer release(t, held)
	if held.Context().Value(name{}) != "seven" {
		t.Error("the value is gone")
	}
}

func TestHeld_ReleaseEndsTheContext(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	held := acquire(t, leaseFor(db, "a", long))
	release(t, held)
	if cause := testkit.Cause(t, held.Context(), "the end of the lease"); !errors.Is(cause, lease.ErrReleased) {
		t.Errorf("the context ended with %v", cause)
	}
	if got := holder(t, db); got != "" {
		t.Errorf("%q still holds it", got)
	}
}

func TestHeld_SurvivesAShortOutage(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	srv := redistest.Start(t, redistest.AOF())
	held := acquire(t, leaseFor(srv.DB(t), "a", 6*short))
	srv.Kill()
	srv.Restart()
	direct := srv.DB(t)
	left := leasetest.Left(t, direct, key, held.Fence())
	testkit.Eventually(t, "it was renewed after the outage", func() bool {
		before := left
		left = leasetest.Left(t, direct, key, held.Fence())
		return left > before
	})
	if held.Context().Err() != nil {
		t.Errorf("the context ended: %v", context.Cause(held.Context()))
	}
}
