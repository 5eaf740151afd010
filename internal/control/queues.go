package control

import (
	"cmp"
	"context"
	"slices"

	"github.com/dts-sched/dts/internal/queue"
)

// ListQueues returns every queue, by name: those of asynq, and those for which tasks wait that asynq has not seen yet.
func (c *Control) ListQueues(ctx context.Context, _ Caller) ([]queue.Info, error) {
	queues, err := c.queues.List(ctx)
	if err != nil {
		return nil, err
	}
	waiting, err := c.store.Backlog(ctx)
	if err != nil {
		return nil, err
	}
	for i, q := range queues {
		queues[i].Waiting = waiting[q.Name]
		delete(waiting, q.Name)
	}
	for name, n := range waiting {
		queues = append(queues, queue.Info{Name: name, Waiting: n})
	}
	slices.SortFunc(queues, func(a, b queue.Info) int { return cmp.Compare(a.Name, b.Name) })
	return queues, nil
}

// PauseQueue keeps workers from taking deliveries from a queue. A paused one may be paused again.
// Errors: CodeInvalid for the name, CodeQueueNotFound.
func (c *Control) PauseQueue(ctx context.Context, _ Caller, name string) error {
	return c.queues.Pause(ctx, name)
}

// ResumeQueue lets workers take deliveries from a queue again. Errors: CodeInvalid for the name, CodeQueueNotFound.
func (c *Control) ResumeQueue(ctx context.Context, _ Caller, name string) error {
	return c.queues.Resume(ctx, name)
}
