package control

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/calls"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/store/limits"
	"github.com/dts-sched/dts/internal/task"
)

// QueueCapacityMost is the highest capacity of a queue.
const QueueCapacityMost = limits.Most

// QueueNames is what ListQueues leaves out things about, by redisx.LeaveOutAbout, that are no names of queues.
const QueueNames = "names of queues"

// QueueInfo is what is known of a queue.
type QueueInfo struct {
	queue.Info
	Oldest  time.Duration // for how long the first of the tasks that wait, in DTS or in asynq, has been due
	Pace    Pace          // what it did lately
	Foreign int           // slots of asynq's own servers that serve it; 0 also if these are not known
}

// IsAsynqs reports whether nothing of DTS waits in the queue, and what is taken next is of another asynq client; or,
// if nothing waits, something else that it holds.
func (q QueueInfo) IsAsynqs() bool { return q.OfAsynq && q.Waiting == 0 && q.Capacity == 0 }

// ListQueues returns every queue, by name: those of asynq, and those for which tasks wait, or that have a capacity,
// and that asynq has not seen yet. Under redisx.LeavingOut, what cannot be read is left out.
func (c *Control) ListQueues(ctx context.Context, who Caller) ([]QueueInfo, error) {
	if _, err := c.begin(ctx, who, "listQueues"); err != nil {
		return nil, err
	}
	found, err := c.findQueues(ctx, "", func() ([]queue.Info, error) { return c.queues.List(ctx) })
	if err != nil {
		return nil, err
	}
	queues := slices.Collect(maps.Values(found))
	queues = slices.DeleteFunc(queues, func(q QueueInfo) bool {
		return task.ValidateQueue(q.Name) != nil && redisx.LeaveOutAbout(ctx, QueueNames,
			"the queue %q is left out, as that is no name", q.Name)
	})
	slices.SortFunc(queues, func(a, b QueueInfo) int { return cmp.Compare(a.Name, b.Name) })
	return queues, nil
}

// GetQueue returns a queue as ListQueues has it. Of other queues it reads no more than capacities, paces and who serves
// them. known is false if it is not on that list. Errors: CodeInvalid for the name, CodeUnavailable.
func (c *Control) GetQueue(ctx context.Context, who Caller, name string) (_ QueueInfo, known bool, _ error) {
	if _, err := c.begin(ctx, who, "listQueues"); err != nil {
		return QueueInfo{}, false, err
	}
	if err := task.ValidateQueue(name); err != nil {
		return QueueInfo{}, false, err
	}
	found, err := c.findQueues(ctx, name, func() ([]queue.Info, error) { return c.queues.Get(ctx, name) })
	q, known := found[name]
	q.Name = name
	return q, known, err
}

// findQueues reads what DTS has of queues beside what asynq has of them, which read returns; of one queue, or of all if
// name is "". The result has them by their names, and may have others. Error: CodeUnavailable.
func (c *Control) findQueues(
	ctx context.Context, name string, read func() ([]queue.Info, error),
) (map[string]QueueInfo, error) {
	var infos []queue.Info
	var sets []layout.ReadySet
	var now time.Time
	var capacities, foreign map[string]int
	var paces map[string]Pace
	err := calls.Try(
		func() (err error) { infos, err = read(); return err },
		func() (err error) { sets, err = c.store.ReadyOf(ctx, name); return err },
		func() (err error) { now, err = c.anyNow(ctx); return err },
		func() (err error) { capacities, err = c.limits.All(ctx); return err },
		func() (err error) { paces, err = c.paces(ctx); return err },
		func() error { foreign = c.foreignSlots(ctx); return nil },
	)
	if err != nil {
		return nil, err
	}
	found := make(map[string]QueueInfo)
	for _, info := range infos {
		found[info.Name] = QueueInfo{Info: info, Oldest: info.Latency}
	}
	for name, w := range byQueue(sets) {
		q := found[name]
		q.Waiting, q.Oldest = w.number, max(q.Oldest, w.age(now))
		found[name] = q
	}
	for name, capacity := range capacities {
		q := found[name]
		q.Capacity = capacity
		found[name] = q
	}
	for name, q := range found {
		q.Name, q.Pace, q.Foreign = name, paces[name], foreign[name]
		found[name] = q
	}
	return found, nil
}

// PauseQueue keeps workers from taking deliveries from a queue; note says why. What they have taken
// may still begin. A paused one may be paused again, which changes nothing. Errors: CodeInvalid, CodeQueueNotFound.
func (c *Control) PauseQueue(ctx context.Context, who Caller, name, note string) error {
	if _, err := c.begin(ctx, who, "pauseQueue"); err != nil {
		return err
	}
	if err := checkNote(note); err != nil {
		return err
	}
	return c.onQueue(ctx, name, func(ctx context.Context, name string) error {
		return c.queues.Pause(ctx, name, who.By(), note)
	})
}

// ResumeQueue lets workers take deliveries from a queue again. Errors: as for PauseQueue.
func (c *Control) ResumeQueue(ctx context.Context, who Caller, name string) error {
	if _, err := c.begin(ctx, who, "resumeQueue"); err != nil {
		return err
	}
	return c.onQueue(ctx, name, func(ctx context.Context, name string) error {
		return c.queues.Resume(ctx, name, who.By())
	})
}

// SwitchQueue pauses or resumes a queue by the name that asynq has for it, as asynq's web UI asks for. known is
// false if that is no queue of this installation; then nothing has changed. Errors: as for PauseQueue.
func (c *Control) SwitchQueue(ctx context.Context, who Caller, asynqName string, pause bool) (known bool, err error) {
	if _, err := c.begin(ctx, who, "monitor"); err != nil {
		return false, err
	}
	name, ours := c.queues.NameOf(asynqName)
	switch {
	case !ours:
		return false, nil
	case pause:
		return true, c.PauseQueue(ctx, who, name, "")
	}
	return true, c.ResumeQueue(ctx, who, name)
}

// onQueue does something to a queue. If asynq has not seen the queue, but tasks wait for it, it is listed in asynq
// first.
func (c *Control) onQueue(ctx context.Context, name string, do func(context.Context, string) error) error {
	defer c.paused.forget(name)
	err := do(ctx, name)
	if task.CodeOf(err) != queue.CodeNotFound {
		return err
	}
	waiting, failed := c.store.Backlog(ctx)
	if failed != nil || waiting[name] == 0 {
		return errors.Join(failed, err)
	}
	if err := c.queues.Add(ctx, name); err != nil {
		return err
	}
	return do(ctx, name)
}
