package redisx_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestSuccession_OnlyVitalClientsReachAnotherPrimaryAtOnce(t *testing.T) {
	t.Parallel()
	for name, takeOver := range map[string]func(*redistest.Pair){
		"failover": (*redistest.Pair).FailOver,
		"restart":  func(p *redistest.Pair) { p.Primary.Restart() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pair := redistest.StartPair(t)
			s := redisx.NewSuccession(time.Hour)
			open := func(vital bool) *redisx.DB {
				db, err := redisx.Open(t.Context(), redisx.Options{URL: pair.URL(), Succession: s, Vital: vital})
				testkit.Must(t, err)
				t.Cleanup(func() { _ = db.Close() })
				return db
			}
			vital, other := open(true), open(false)
			pair.Cut()
			pair.Mend()
			testkit.Must(t, other.Ping(t.Context()).Err())
			if s.Within(time.Hour) {
				t.Error("a new connection to the same primary counts as another one")
			}

			takeOver(pair)
			testkit.Must(t, vital.Ping(t.Context()).Err())
			testkit.Receive(t, s.Changed(), "another primary")
			if !s.Within(time.Hour) {
				t.Error("another primary has not taken over")
			}
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if err := other.Ping(ctx).Err(); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a client that is not vital: %v, want to wait", err)
			}
		})
	}
}

func TestSuccession_OthersReachThePrimaryWhenItIsSettled(t *testing.T) {
	t.Parallel()
	const settle = 200 * time.Millisecond
	pair := redistest.StartPair(t)
	db, err := redisx.Open(t.Context(), redisx.Options{URL: pair.URL(), Succession: redisx.NewSuccession(settle)})
	testkit.Must(t, err)
	defer func() { _ = db.Close() }()
	pair.FailOver()
	start := time.Now()
	testkit.Must(t, db.Ping(t.Context()).Err())
	if took := time.Since(start); took < settle {
		t.Errorf("answered after %s, want to wait for %s", took, settle)
	}
}

func TestReplicate_FailsUnlessReplicasHaveEverything(t *testing.T) {
	t.Parallel()
	pair := redistest.StartPair(t)
	db := redistest.Open(t, pair.URL())
	if n := db.AsyncReplicas(t.Context(), "a"); n != 1 {
		t.Errorf("%d replicas of which Redis needs none, want 1", n)
	}
	d := config.Durability{Replicas: 1, Timeout: 2 * time.Second}
	testkit.Must(t, db.Set(t.Context(), "before", "x", 0).Err())
	testkit.Must(t, errors.Join(db.Replicate(t.Context(), d, []string{"a", "b"})...))
	if got := get(t, pair.Replica.DB(t), "before"); got != "x" {
		t.Errorf("the replica has %q, want x", got)
	}
	pair.Detach()
	d.Timeout = 50 * time.Millisecond
	for _, err := range db.Replicate(t.Context(), d, []string{"a", "b"}) {
		if err == nil {
			t.Error("a replica that follows no longer has confirmed")
		}
	}
	testkit.Must(t, db.ConfigSet(t.Context(), "min-replicas-to-write", "1").Err())
	if n := db.AsyncReplicas(t.Context(), "a"); n != 0 {
		t.Errorf("%d replicas of which Redis needs none, want 0", n)
	}
}

func get(t *testing.T, db *redisx.DB, key string) string {
	t.Helper()
	value, err := db.Get(t.Context(), key).Result()
	testkit.Must(t, err)
	return value
}
