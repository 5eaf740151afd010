package app

import (
	"context"
	"log/slog"

	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/task"
)

// tasks is the store, and what becomes of deliveries in asynq when people change a task. A delivery that stays there is
// harmless, since its attempt cannot begin; it would only be in the way of whoever looks at the queue.
type tasks struct {
	*store.Store
	queues *queue.Queues
	log    *slog.Logger
}

// Cancel takes the delivery of a task that was queued out of its queue.
func (t tasks) Cancel(ctx context.Context, ref task.Ref) (task.Task, error) {
	got, err := t.Store.Cancel(ctx, ref)
	if err == nil && got.State == task.Cancelled {
		t.forget(got)
	}
	return got, err
}

// Rerun takes a dead letter out of the archive.
func (t tasks) Rerun(ctx context.Context, ref task.Ref) (task.Task, error) {
	got, err := t.Store.Rerun(ctx, ref)
	if err == nil {
		t.forget(got)
	}
	return got, err
}

func (t tasks) forget(of task.Task) {
	if of.Attempt == 0 {
		return // there was no delivery yet
	}
	d := task.Delivery{Ref: of.Ref, Attempt: of.Attempt, Queue: of.Queue}
	if err := t.queues.Forget(d); err != nil {
		t.log.Debug("a delivery stays in asynq", "delivery", d.String(), "error", err)
	}
}
