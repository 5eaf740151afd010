package control

import (
	"context"
	"encoding/json"

	"github.com/dts-sched/dts/internal/task"
)

// parentPayload is a payload as a follow-up has it that gives none.
var parentPayload, _ = json.Marshal(task.Parent{Namespace: task.DefaultNamespace, ID: "any", State: task.Succeeded})

// checkOutbox checks that all nodes know what a task needs that begins later, or ends. Errors: as of checkFollowUps.
func (c *Control) checkOutbox(ctx context.Context, d task.Definition) error {
	if d.StartBy != 0 && !c.store.HasOutbox() {
		return task.Invalid("start_by", notYet)
	}
	if d.Once != nil && !c.store.HasOutbox() {
		return task.Invalid("once", notYet)
	}
	return c.checkFollowUps(ctx, d)
}

// notYet is why fields are refused that nodes of earlier releases do not know.
const notYet = "works as soon as no living node is of an earlier release: see dtsctl node list"

// checkFollowUps checks what follows a task: that all nodes know follow-ups, and that their executors can read the
// payloads that they have. Errors: CodeInvalid, and that of ctx.
func (c *Control) checkFollowUps(ctx context.Context, d task.Definition) error {
	if d.OnEnd == nil {
		return nil
	}
	if !c.store.HasOutbox() {
		return task.Invalid("on_end", notYet)
	}
	var errs []error
	field := "on_end.task"
	for _, next := range d.FollowUps() {
		switch {
		case next.Payload == nil && c.types.CheckPayload(ctx, next.Type, parentPayload) != nil:
			errs = append(errs, task.Invalid(field+".payload",
				"is missing: the type %s does not take how the task before ended", next.Type))
		case next.Payload != nil && task.ValidatePayload(next.Payload) == nil:
			errs = append(errs, task.Within(field, c.types.CheckPayload(ctx, next.Type, next.Payload)))
		}
		field += ".on_end.task"
	}
	return task.Join(errs...)
}
