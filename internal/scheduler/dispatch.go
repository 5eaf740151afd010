package scheduler

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/task"
)

const (
	claimLimit     = 256 // tasks taken off the wheel at once
	enqueueLimit   = 16  // deliveries enqueued at the same time
	dispatchBudget = 5 * time.Second
)

// dispatch takes due tasks off the wheel and hands them to asynq, until ctx ends or the lease is over.
//
// What was claimed is in flight until it is confirmed. A leader that dies in between leaves it so, and its
// successor begins with repeating it: the delivery's id makes that harmless.
func (t *seat) dispatch(ctx context.Context) error {
	repair := true // what may be in flight has to be repeated
	for ctx.Err() == nil {
		if repair {
			if err := t.repeatInFlight(ctx); errors.Is(err, store.ErrFenced) {
				return err
			} else if err != nil {
				t.failed(ctx, "cannot repeat what is in flight", err)
				continue
			}
		}
		claimed, err := t.leader.Claim(ctx, claimLimit)
		switch {
		case errors.Is(err, store.ErrFenced):
			return err
		case err != nil:
			repair = true // the reply may have been lost, and the claim not
			t.failed(ctx, "cannot claim", err)
			continue
		}
		got := clock.Now()
		if err := t.deliver(ctx, claimed, got); errors.Is(err, store.ErrFenced) {
			return err
		} else if err != nil {
			repair = true
			t.failed(ctx, "cannot hand over to asynq", err)
			continue
		}
		// The client may have repeated the claim by itself after its answer was lost.
		repair = claimed.InFlight > len(claimed.Deliveries)
		if len(claimed.Deliveries) < claimLimit && !repair {
			t.sleep(ctx, claimed.Next, claimed.Now, got, t.s.wakes)
		}
	}
	return nil
}

func (t *seat) failed(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		t.s.o.Log.Warn(what, "partition", t.partition, "error", err)
	}
	t.pause(ctx)
}

// deliver enqueues what was claimed and confirms it. Deliveries that cannot be enqueued stay in flight.
func (t *seat) deliver(ctx context.Context, c store.Claimed, got time.Time) error {
	if len(c.Deliveries) == 0 {
		return nil
	}
	t.s.o.Metrics.Claimed.Add(float64(len(c.Deliveries)))
	return t.enqueue(ctx, c.Deliveries, func(d task.Delivery) {
		t.s.o.Metrics.DispatchLateness.Observe((c.Now.Sub(d.DueAt) + clock.Since(got)).Seconds())
	})
}

// repeatInFlight enqueues what was claimed by whoever led before, or in a call whose reply was lost.
func (t *seat) repeatInFlight(ctx context.Context) error {
	repeat, settled, err := t.leader.InFlight(ctx)
	if err != nil {
		return err
	}
	if err := t.leader.Confirm(ctx, settled); err != nil {
		return err
	}
	return t.enqueue(ctx, repeat, func(task.Delivery) {})
}

// enqueue hands deliveries to asynq, several at a time, and confirms those that are there. What was begun is
// brought to its end even if the node is told to stop meanwhile.
func (t *seat) enqueue(ctx context.Context, deliveries []task.Delivery, done func(task.Delivery)) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dispatchBudget)
	defer cancel()
	var g errgroup.Group
	g.SetLimit(enqueueLimit)
	there := make([]bool, len(deliveries))
	for i, d := range deliveries {
		g.Go(func() error {
			if err := t.s.o.Queues.Enqueue(ctx, d); err != nil {
				return err
			}
			there[i] = true
			done(d)
			return nil
		})
	}
	failure := g.Wait()
	var names []string
	for i, d := range deliveries {
		if there[i] {
			names = append(names, d.String())
		}
	}
	if err := t.leader.Confirm(ctx, names); err != nil {
		return err
	}
	return failure
}
