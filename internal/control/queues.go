package control

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
)

// QueueInfo is what is known of a queue.
type QueueInfo struct {
	queue.Info
	Oldest time.Duration // for how long the first of the tasks that wait, in DTS or in asynq, has been due
	Pace   Pace          // what it did lately
}

// ListQueues returns every queue, by name: those of asynq, and those for which tasks wait, or that have a limit,
// and that asynq has not seen yet. Under redisx.LeavingOut, what cannot be read is left out.
func (c *Control) ListQueues(ctx context.Context, who Caller) ([]QueueInfo, error) {
	if _, err := c.begin(ctx, who, "listQueues"); err != nil {
		return nil, err
	}
	known, err := c.queues.List(ctx)
	if err != nil {
		return nil, err
	}
	inDTS, err := c.readWaits(ctx, nil)
	if err != nil {
		return nil, err
	}
	waiting := byQueue(inDTS.sets)
	now, err := c.anyNow(ctx)
	if err != nil {
		return nil, err
	}
	limited, err := c.limits.All(ctx)
	if err != nil {
		return nil, err
	}
	for name := range limited {
		waiting[name] = waiting[name].plus(waitingTasks{}) // is listed
	}
	for _, q := range known {
		waiting[q.Name] = waiting[q.Name].plus(waitingTasks{})
	}
	paces, err := c.paces(ctx)
	if err != nil {
		return nil, err
	}
	byName := infosByName(known)
	queues := make([]QueueInfo, 0, len(waiting))
	for name, w := range waiting {
		q := QueueInfo{Info: byName[name], Pace: paces[name]}
		q.Name, q.Waiting, q.Limit, q.Oldest = name, w.number, limited[name], max(q.Latency, w.age(now))
		queues = append(queues, q)
	}
	queues = slices.DeleteFunc(queues, func(q QueueInfo) bool {
		return task.ValidateQueue(q.Name) != nil && redisx.LeaveOut(ctx,
			"the queue %q is left out, as that is no name", q.Name)
	})
	slices.SortFunc(queues, func(a, b QueueInfo) int { return cmp.Compare(a.Name, b.Name) })
	return queues, nil
}

// infosByName are what asynq knows of queues, by their names.
func infosByName(infos []queue.Info) map[string]queue.Info {
	byName := make(map[string]queue.Info, len(infos))
	for _, info := range infos {
		byName[info.Name] = info
	}
	return byName
}

// PauseQueue keeps workers from taking deliveries from a queue. A paused one may be paused again.
// Errors: CodeInvalid, CodeQueueNotFound.
func (c *Control) PauseQueue(ctx context.Context, who Caller, name string) error {
	if _, err := c.begin(ctx, who, "pauseQueue"); err != nil {
		return err
	}
	return c.onQueue(ctx, name, func(ctx context.Context, name string) error {
		return c.queues.Pause(ctx, name,
			who.By())
	})
}

// ResumeQueue lets workers take deliveries from a queue again. Errors: as for PauseQueue.
func (c *Control) ResumeQueue(ctx context.Context, who Caller, name string) error {
	if _, err := c.begin(ctx, who, "resumeQueue"); err != nil {
		return err
	}
	return c.onQueue(ctx, name, c.queues.Resume)
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
