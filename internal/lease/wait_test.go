package lease_test

import (
	"context"
	"errors"
	"testing"

	"github.com/dts-sched/dts/internal/lease"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/testkit"
)

// waiting starts a Wait that cannot succeed yet.
func waiting(ctx context.Context, o lease.Options) <-chan outcome {
	got := make(chan outcome, 1)
	go func() {
		held, err := lease.New(o).Wait(ctx)
		got <- outcome{held, err}
	}()
	return got
}

type outcome struct {
	held *lease.Held
	err  error
}

func TestWait_HearsOfARelease(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	o := lease.Options{DB: db, Key: key, TTL: long, Channel: "released", Message: "7"}
	held := acquire(t, lease.New(o))
	got := waiting(t.Context(), o)
	testkit.Eventually(t, "it listens", func() bool { return db.PubSubNumSub(t.Context(), "released").Val()["released"] == 1 })

	release(t, held)

	next := <-got
	if next.err != nil {
		t.Fatal(next.err)
	}
	release(t, next.held)
	if next.held.Token() != 2 {
		t.Errorf("token %d", next.held.Token())
	}
}

func TestWait_TriesWhenWoken(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	held := acquire(t, lockFor(db, "a", long))
	wake := make(chan struct{}, 1)
	got := waiting(t.Context(), lease.Options{DB: db, Key: key, TTL: long, Wake: wake})
	wake <- struct{}{}
	testkit.Eventually(t, "it heard, too early to get anything", func() bool { return len(wake) == 0 })
	release(t, held)
	wake <- struct{}{}
	next := <-got
	if next.err != nil {
		t.Fatal(next.err)
	}
	release(t, next.held)
}

func TestWait_TakesWhatExpires(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := lockFor(db, "a", short).Acquire(ctx); err != nil {
		t.Fatal(err)
	}
	cancel()
	next, err := lockFor(db, "b", short).Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	release(t, next)
}

func TestWait_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	acquire(t, lockFor(db, "a", long))
	ctx, cancel := context.WithCancelCause(t.Context())
	wake := make(chan struct{})
	got := waiting(ctx, lease.Options{DB: db, Key: key, Wake: wake})
	wake <- struct{}{} // it waits now
	enough := errors.New("enough")
	cancel(enough)
	if next := <-got; next.held != nil || !errors.Is(next.err, enough) {
		t.Errorf("got %v", next)
	}
}

func TestWait_ReportsAnUnreachableRedis(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	db := redistest.Open(t, srv.URL())
	srv.Kill()
	_, err := lockFor(db, "a", long).Wait(t.Context())
	if err == nil || redisx.RefusedWith(err, "HELD") {
		t.Errorf("got %v", err)
	}
}
