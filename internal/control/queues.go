package control

import (
	"context"

	"github.com/dts-sched/dts/internal/queue"
)

// ListQueues returns every queue, by name.
func (c *Control) ListQueues(ctx context.Context, _ Caller) ([]queue.Info, error) {
	return c.queues.List(ctx)
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
