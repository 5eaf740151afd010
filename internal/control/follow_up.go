package control

import (
	"context"
	"encoding/json"

	"github.com/dts-sched/dts/internal/route"
	"github.com/dts-sched/dts/internal/task"
)

// parentPayload is a payload as a follow-up has it that gives none.
var parentPayload, _ = json.Marshal(task.Parent{
	Namespace: task.DefaultNamespace, ID: "any", State: task.Succeeded,
})

// checkOutbox checks the fields of a task that nodes of earlier releases do not know, and what follows it: the
// executors of follow-ups must be able to read the payloads that they have. Errors: CodeInvalid, and that of ctx.
func (c *Control) checkOutbox(ctx context.Context, d task.Definition, idLength int) error {
	if added := c.unknownField(d); added != "" {
		return olderNodes(added)
	}
	var errs []error
	field := "on_end.task"
	for _, next := range d.FollowUps() {
		idLength += task.FollowUpRoom
		if added := c.unknownField(next); added != "" {
			return task.Within(field, olderNodes(added))
		}
		switch {
		case next.Type == task.WorkflowType && next.Payload == nil:
			errs = append(errs, task.Invalid(field+".payload", "is missing: a run of a workflow has one"))
		case next.Type == task.WorkflowType:
			errs = append(errs, task.Within(field, c.checkRun(ctx, d.Namespace, next.Payload, idLength)))
		case next.Payload == nil && c.types.CheckPayload(ctx, next.Type, parentPayload) != nil:
			errs = append(errs, task.Invalid(field+".payload",
				"is missing: the type %s does not take how the task before ended", next.Type))
		case next.Payload != nil && task.ValidatePayload(next.Payload) == nil:
			wrong := task.Join(c.types.CheckPayload(ctx, next.Type, next.Payload), c.types.CheckKey(next))
			errs = append(errs, task.Within(field, wrong))
		}
		field += ".on_end.task"
	}
	return task.Join(errs...)
}

// olderNodes is the error for a field that nodes of earlier releases do not know.
func olderNodes(field string) error {
	return task.Invalid(field, "works as soon as no living node is of an earlier release: see dtsctl node list")
}

// unknownField returns the first field of a task that a living node does not know; "" if all know all fields that it
// has.
func (c *Control) unknownField(d task.Definition) string {
	added := addedField(d)
	switch {
	case added != "" && !c.store.HasOutbox():
		return added
	case d.LimitKey != "" && !c.store.HasLimits():
		return "limit_key"
	case d.Reach != "" && !c.store.HasRoutes():
		return reachField(d.Reach)
	case d.Cost != 0 && !c.store.HasRoutes():
		return "cost"
	}
	return ""
}

// reachField returns the first field of a task that says where it may run and on how many slots.
func reachField(word string) string {
	reach, err := route.ParseReach(word)
	switch {
	case err != nil || !reach.Select.IsZero():
		return "select"
	case len(reach.Prefer) > 0:
		return "prefer"
	case reach.Route.By != "":
		return "route"
	}
	return "slots"
}

// addedField returns the first field of a task that nodes of earlier releases do not know; "" if it has none.
func addedField(d task.Definition) string {
	switch {
	case d.StartBy != 0:
		return "start_by"
	case d.Once != nil:
		return "once"
	case d.OnEnd != nil:
		return "on_end"
	case d.Priority != 0:
		return "priority"
	case d.FairKey != "":
		return "fair_key"
	}
	return ""
}
