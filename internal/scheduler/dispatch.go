package scheduler

import (
	"context"
	"errors"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/task"
)

const (
	claimLimit     = 256 // tasks claimed at once
	dispatchBudget = 5 * time.Second
)

// dispatch claims due tasks and enqueues their deliveries in asynq, until ctx ends or the lease is over. If a leader dies in
// between, or cannot enqueue, watch enqueues them later: the delivery's id makes that harmless.
func (t *term) dispatch(ctx context.Context) error {
	for ctx.Err() == nil {
		claimed, err := t.leader.Claim(ctx, claimLimit, t.s.pace.lookFirst)
		got := clock.Now()
		if err != nil || len(claimed.Deliveries) > 0 || claimed.Queued > 0 { // a lost reply may have claimed some
			signal(t.claimed)
		}
		if err == nil {
			err = t.deliver(ctx, claimed, got)
		}
		switch {
		case errors.Is(err, partition.ErrFenced):
			return err
		case err != nil:
			t.failed(ctx, "cannot dispatch due tasks", err)
		case len(claimed.Deliveries) < claimLimit:
			t.sleep(ctx, claimed.Next, claimed.Now, got, t.s.wakes)
		}
	}
	return nil
}

// deliver enqueues what was claimed, at the time got.
func (t *term) deliver(ctx context.Context, c partition.Claimed, got time.Time) error {
	if len(c.Deliveries) == 0 {
		return nil
	}
	t.s.o.Metrics.Claimed.Add(float64(len(c.Deliveries)))
	return t.enqueue(ctx, c.Deliveries, func(d task.Delivery) {
		t.s.o.Metrics.DispatchLateness.Observe((c.Now.Sub(d.DueAt) + clock.Since(got)).Seconds())
	})
}

// enqueue enqueues deliveries in asynq. It finishes even if ctx ends meanwhile, within dispatchBudget. done is called for
// each delivery that was enqueued.
func (t *term) enqueue(ctx context.Context, deliveries []task.Delivery, done func(task.Delivery)) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dispatchBudget)
	defer cancel()
	var failure error
	for i, err := range t.s.o.Queues.EnqueueEach(ctx, deliveries) {
		if err != nil {
			failure = err // one of them is enough to log
			continue
		}
		done(deliveries[i])
	}
	return failure
}
