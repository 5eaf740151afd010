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

// dispatch claims due tasks and enqueues their deliveries in asynq, until ctx ends or the lease is over.
//
// A claimed delivery is in flight until it is confirmed. If a leader dies in between, its successor first repeats
// everything in flight: the delivery's id makes that harmless.
func (t *term) dispatch(ctx context.Context) error {
	repair := true // repeat what is in flight before the next claim
	for ctx.Err() == nil {
		if repair {
			if err := t.repeatInFlight(ctx); errors.Is(err, partition.ErrFenced) {
				return err
			} else if err != nil {
				t.failed(ctx, "cannot repeat deliveries in flight", err)
				continue
			}
		}
		claimed, err := t.leader.Claim(ctx, claimLimit)
		switch {
		case errors.Is(err, partition.ErrFenced):
			return err
		case err != nil:
			repair = true // the claim may have succeeded and only its reply been lost
			t.failed(ctx, "cannot claim due tasks", err)
			continue
		}
		got := clock.Now()
		if err := t.deliver(ctx, claimed, got); errors.Is(err, partition.ErrFenced) {
			return err
		} else if err != nil {
			repair = true
			t.failed(ctx, "cannot enqueue deliveries in asynq", err)
			continue
		}
		// The client repeats a claim by itself if its reply was lost; then more is in flight than this reply says.
		repair = claimed.InFlight > len(claimed.Deliveries)
		if len(claimed.Deliveries) < claimLimit && !repair {
			t.sleep(ctx, claimed.Next, claimed.Now, got, t.s.wakes)
		}
	}
	return nil
}

// deliver enqueues and confirms what was claimed. Deliveries that cannot be enqueued stay in flight.
func (t *term) deliver(ctx context.Context, c partition.Claimed, got time.Time) error {
	if len(c.Deliveries) == 0 {
		return nil
	}
	t.s.o.Metrics.Claimed.Add(float64(len(c.Deliveries)))
	return t.enqueue(ctx, c.Deliveries, func(d task.Delivery) {
		t.s.o.Metrics.DispatchLateness.Observe((c.Now.Sub(d.DueAt) + clock.Since(got)).Seconds())
	})
}

// repeatInFlight enqueues what an earlier leader claimed, or a claim whose reply was lost.
func (t *term) repeatInFlight(ctx context.Context) error {
	repeat, settled, err := t.leader.InFlight(ctx)
	if err != nil {
		return err
	}
	if err := t.leader.Confirm(ctx, settled); err != nil {
		return err
	}
	return t.enqueue(ctx, repeat, func(task.Delivery) {})
}

// enqueue enqueues deliveries in asynq and confirms those that are there. It finishes even if ctx ends meanwhile, within
// dispatchBudget. done is called for each delivery that was enqueued.
func (t *term) enqueue(ctx context.Context, deliveries []task.Delivery, done func(task.Delivery)) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dispatchBudget)
	defer cancel()
	var names []string
	var failure error
	for i, err := range t.s.o.Queues.EnqueueEach(ctx, deliveries) {
		if err != nil {
			failure = err // one of them is enough to log
			continue
		}
		done(deliveries[i])
		names = append(names, deliveries[i].String())
	}
	if err := t.leader.Confirm(ctx, names); err != nil {
		return err
	}
	return failure
}
