package control

import (
	"cmp"
	"context"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// CancelTask ends a task that waits, and asks a running one to stop; the state of the returned task tells which it was.
// note says why. A cancelled task may be cancelled again. Errors: CodeInvalid, CodeTaskNotFound, CodeFinished.
func (c *Control) CancelTask(ctx context.Context, who Caller, id, note string) (task.Task, error) {
	if _, err := c.begin(ctx, who, "cancelTask", who.Ref(id)); err != nil {
		return task.Task{}, err
	}
	by, err := cancelledBy(who, note)
	if err != nil {
		return task.Task{}, err
	}
	return c.cancel(ctx, by, who.Ref(id))
}

// cancelledBy says who cancels a task, and why, if there is a note. Error: CodeInvalid for the note.
func cancelledBy(who Caller, note string) (string, error) {
	by := who.By()
	if note != "" {
		by = cmp.Or(by, "somebody") + ": " + note
	}
	return by, checkNote(note)
}

// cancel is CancelTask for a use case that has begun; by is who asks for it.
func (c *Control) cancel(ctx context.Context, by string, ref task.Ref) (task.Task, error) {
	t, err := c.store.Tasks.Cancel(ctx, ref, by)
	if err == nil && t.State == task.Cancelled {
		c.forgetDelivery(ctx, t)
	}
	return t, err
}

// RetryTask runs a task that has ended again, due now, with all of its attempts allowed once more; attempts are counted
// on. A task with another end than the given one stays as it is, with CodeNotFinished: so a request that is sent twice
// runs nothing twice. The zero time stands for any end. Errors: CodeTaskNotFound, CodeNotFinished; CodeQueueFull;
// CodeUnavailable while Redis is nearly full; CodeOverloaded.
func (c *Control) RetryTask(ctx context.Context, who Caller, id string, ended time.Time) (task.Task, error) {
	return c.retry(ctx, who, id, 0, ended)
}

// retry is RetryTask for a task that is due after a delay.
func (c *Control) retry(
	ctx context.Context, who Caller, id string, delay time.Duration, ended time.Time,
) (task.Task, error) {
	p, err := c.begin(ctx, who, "retryTask", who.Ref(id))
	if err != nil {
		return task.Task{}, err
	}
	defer p.leave()
	if err := refuseStep(who.Ref(id), "run it again with its run (dtsctl flow rerun RUN)"); err != nil {
		return task.Task{}, err
	}
	if err := c.enterAgain(ctx, p.room, who.Ref(id)); err != nil {
		return task.Task{}, err
	}
	t, err := c.store.Tasks.RetryIn(ctx, who.Ref(id), delay, ended)
	if err == nil {
		p.room.takeAll()
		c.forgetDelivery(ctx, t)
	}
	return t, err
}

// enterAgain reserves a place for a task that has ended, if any queue has a capacity. Errors: CodeTaskNotFound,
// CodeQueueFull.
func (c *Control) enterAgain(ctx context.Context, room *queueRoom, ref task.Ref) error {
	if c.limits == nil || !c.limits.Any(ctx) {
		return nil
	}
	t, err := c.store.Tasks.Find(ctx, ref)
	if err != nil || !t.State.Final() { // who retries it is told so
		return err
	}
	return room.enter(ctx, task.Definition{Ref: ref, Queue: t.Queue})
}

// forgetDelivery deletes the delivery of a task's last attempt from asynq: it waits in a queue if the task was
// cancelled while it was queued, and in the archive if the task failed. A delivery that stays has no effect on the
// task: a worker of DTS cannot begin it, and what a server of asynq makes of it is not looked at. It only misleads
// whoever looks at the queue. So an error is logged and nothing more.
func (c *Control) forgetDelivery(ctx context.Context, t task.Task) {
	if t.Attempt == 0 || c.queues == nil { // attempt 0: there was no delivery yet
		return
	}
	d := task.Delivery{Ref: t.Ref, Attempt: t.Attempt, Queue: t.Queue, Node: t.Placed}
	if err := c.queues.Forget(d); err != nil {
		c.log.DebugContext(ctx, "delivery stays in asynq", "delivery", d.String(), "error", err)
	}
}
