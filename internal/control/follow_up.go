package control

import (
	"context"

	"github.com/dts-sched/dts/internal/task"
)

// checkFollowUps checks what follows a task: that all nodes know follow-ups, and that their executors can read the
// payloads that they have. Errors: CodeInvalid, and that of ctx.
func (c *Control) checkFollowUps(ctx context.Context, d task.Definition) error {
	if d.OnEnd == nil {
		return nil
	}
	if !c.store.HasFollowUps() {
		return task.Invalid("on_end", "works as soon as no living node is of an earlier release: see dtsctl node list")
	}
	var errs []error
	field := "on_end.task"
	for _, next := range d.FollowUps() {
		if next.Payload != nil && task.ValidatePayload(next.Payload) == nil {
			errs = append(errs, task.Within(field, c.types.CheckPayload(ctx, next.Type, next.Payload)))
		}
		field += ".on_end.task"
	}
	return task.Join(errs...)
}
