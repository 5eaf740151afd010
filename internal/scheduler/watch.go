package scheduler

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
)

// watchLimit is the most tasks of each kind that are looked after at once: as many as a claim takes. Tasks that are looked after
// together are handed over in order of their due time.
const watchLimit = claimLimit

// watch looks after what was claimed: it ends runs whose lease is over, because their worker died or has lost them, and
// enqueues deliveries again that no worker has begun for a while. It looks when the first of these times comes, and sleeps
// while nothing is queued and nothing runs: everything that does has been claimed by this leader or found at its first look. After an
// outage of Redis, or a jump of its clock, it gives the workers time to extend their runs (contact). Its first look, and that after a jump, cuts
// what seems to last too long.
func (t *term) watch(ctx context.Context) error {
	known := -1 // how often the clock had jumped at the last look
	for ctx.Err() == nil {
		jumps, _ := t.s.contact.jumps(t.partition)
		if missing := t.missing(); missing > 0 {
			_ = clock.Sleep(ctx, missing)
			continue
		}
		start := clock.Now()
		w, err := t.leader.LookAfter(ctx, t.s.pace.lookAgain, watchLimit, jumps != known)
		got := clock.Now()
		if err == nil {
			known = jumps
			t.s.contact.observe(t.partition, reading{w.Now, start, got})
			if t.missing() > 0 {
				continue
			}
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

// missing returns for how long no run may be taken for lost; 0 or less: any may.
func (t *term) missing() time.Duration {
	if t.s.o.Unhurried {
		return 0
	}
	return t.s.contact.missing(t.partition)
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
		case <-t.s.lookWakes[t.partition]:
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
	failures := []error{t.reapLapsed(ctx, w), t.parkUnrunnable(ctx, &w)}
	t.s.o.Metrics.Restored.Add(float64(len(w.Waiting)))
	handed := t.handOver(ctx, w.Waiting)
	failures = append(failures, handed.Failure())
	for i, end := range handed.Ended {
		failures = append(failures, t.endHandled(ctx, w.Queued[i], end, w.Now))
	}
	return errors.Join(failures...)
}

// reapLapsed ends lapsed runs, but not those that have ended or were extended since the look. Error: one for each that it could not end.
func (t *term) reapLapsed(ctx context.Context, w partition.Watched) error {
	var failures []error
	reaped := 0
	for _, lapsed := range w.Lapsed {
		reason := fmt.Sprintf("node %s died or lost the attempt: the lease of its run is over", lapsed.Node)
		switch err := t.leader.Reap(ctx, lapsed, w.Now, w.Until, reason); {
		case err == nil:
			reaped++
		case !errors.Is(err, tasks.ErrStale):
			failures = append(failures, err)
		}
	}
	if reaped > 0 {
		t.s.o.Metrics.Reaped.Add(float64(reaped))
		t.s.o.Log.Info("recovered lost attempts", "partition", t.partition, "count", reaped)
		t.s.wake(t.partition)
	}
	return errors.Join(failures...)
}

// foreignRun is the run of an attempt that one of asynq's own servers has made.
const foreignRun = "asynq#1"

// endHandled ends the attempt of a queued task as one of asynq's own servers has handled its delivery.
func (t *term) endHandled(ctx context.Context, queued task.Task, end queue.Ended, now time.Time) error {
	queued.Run = foreignRun
	run := t.s.o.Store.Tasks.RunOf(queued)
	run.Foreign = true
	var err error
	dead := false // the delivery stays in asynq as a dead letter
	if end.Succeeded {
		err = run.Finish(ctx, task.Succeeded, task.OutcomeSucceeded, end.Result, "")
	} else if due, again := queued.NextAttempt(task.OutcomeFailed, now, 0, rand.Float64()); again {
		err = run.Reattempt(ctx, due.Sub(now), task.OutcomeFailed, end.Error)
	} else {
		dead = true
		err = run.Finish(ctx, task.Failed, task.OutcomeFailed, "", end.Error)
	}
	if err != nil && !errors.Is(err, tasks.ErrStale) {
		return fmt.Errorf("ending what a server of asynq has handled: %w", err)
	}
	if dead {
		return nil
	}
	return t.s.o.Queues.Settle(ctx, task.Delivery{Ref: queued.Ref, Attempt: queued.Attempt, Queue: queued.Queue})
}
