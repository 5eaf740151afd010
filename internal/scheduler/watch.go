package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/task"
)

// watchLimit is the most tasks of each kind that are looked after at once.
const watchLimit = 64

// watch looks after what was claimed: it ends runs whose lease is over, because their worker died or has lost them, and
// enqueues deliveries again that no worker has begun for a while. It looks when the first of these times comes, and sleeps
// while nothing is queued and nothing runs: everything that does has been claimed by this leader or found at its first look.
func (t *term) watch(ctx context.Context) error {
	for ctx.Err() == nil {
		w, err := t.leader.LookAfter(ctx, t.s.pace.lookAgain, watchLimit)
		got := clock.Now()
		if err == nil {
			err = t.recoverLost(ctx, w)
		}
		switch {
		case errors.Is(err, partition.ErrFenced):
			return err
		case err != nil:
			t.failed(ctx, "cannot look after queued and running tasks", err)
		case !w.More:
			t.sleepUntilLook(ctx, w, got)
		}
	}
	return nil
}

// sleepUntilLook waits until the time of the next look, but no longer than a claim's deliveries may wait once something is
// claimed. w was received at got.
func (t *term) sleepUntilLook(ctx context.Context, w partition.Watched, got time.Time) {
	var due <-chan time.Time
	timer := time.NewTimer(w.Next.Sub(w.Now) - clock.Since(got))
	defer timer.Stop()
	if !w.Next.IsZero() {
		due = timer.C
	}
	var claimed <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-due:
			return
		case <-claimed:
			return
		case <-t.claimed:
			if claimed == nil {
				first := time.NewTimer(t.s.pace.lookFirst)
				defer first.Stop()
				claimed = first.C
			}
		}
	}
}

// recoverLost ends lapsed runs and enqueues deliveries that wait. If it fails for one, it goes on with the others.
func (t *term) recoverLost(ctx context.Context, w partition.Watched) error {
	var failures []error
	for _, lapsed := range w.Lapsed {
		reason := fmt.Sprintf("node %s died or lost the attempt: the lease of its run is over", lapsed.Node)
		failures = append(failures, t.leader.Reap(ctx, lapsed, w.Now, w.Until, reason))
	}
	if n := len(w.Lapsed); n > 0 {
		t.s.o.Metrics.Reaped.Add(float64(n))
		t.s.o.Log.Info("recovered lost attempts", "partition", t.partition, "count", n)
		t.s.wake(t.partition)
	}
	t.s.o.Metrics.Restored.Add(float64(len(w.Waiting)))
	_, err := t.enqueue(ctx, w.Waiting, func(task.Delivery) {})
	return errors.Join(append(failures, err)...)
}
