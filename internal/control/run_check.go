package control

import (
	"bytes"
	"context"
	"fmt"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/workflow"
	"github.com/dts-sched/dts/internal/workflow/text"
)

// checkContent checks what nodes do with a task: its payload, what follows it and, if it is a run of a workflow, its
// steps. idLength is how long its id is at most. Errors: CodeInvalid, and that of ctx.
func (c *Control) checkContent(ctx context.Context, d task.Definition, idLength int) error {
	errs := []error{c.types.CheckPayload(ctx, d.Type, d.Payload), c.checkOutbox(ctx, d, idLength)}
	if d.Type == task.WorkflowType {
		errs = append(errs, c.checkRun(ctx, d.Namespace, d.Payload, idLength))
	}
	return task.Join(errs...)
}

// checkRun checks the payload of a run of a workflow. Errors: CodeInvalid, and that of ctx.
func (c *Control) checkRun(ctx context.Context, namespace string, payload []byte, idLength int) error {
	if !c.store.HasRuns() {
		return task.Invalid("type", "workflow works as soon as no living node is of an earlier release: see dtsctl node list")
	}
	start, err := text.ParseStart(namespace, payload)
	if err != nil {
		return err
	}
	return c.checkStart(ctx, start, idLength)
}

// checkStart checks a workflow, the parameters that a run gives it, and that the ids of its steps are not too long.
// Errors: CodeInvalid, and that of ctx.
func (c *Control) checkStart(ctx context.Context, start text.Start, idLength int) error {
	const field = "payload.definition"
	d := start.Definition
	if _, err := workflow.Compile(d); err != nil {
		return task.Within(field, err)
	}
	_, wrong := d.Bind(start.Params)
	errs := []error{task.Within("payload", wrong)}
	for _, section := range []struct {
		name  string
		steps []workflow.Step
	}{{"steps", d.Steps}, {"on_failure", d.OnFailure}, {"finally", d.Finally}} {
		for i, s := range section.steps {
			in := fmt.Sprintf("%s.%s[%d]", field, section.name, i)
			errs = append(errs, task.Within(in, c.checkStep(ctx, s, idLength)))
		}
	}
	return task.Join(errs...)
}

// checkStep checks what Compile does not know of a step. A payload with expressions is known only when the step is
// released. Errors: CodeInvalid, and that of ctx.
func (c *Control) checkStep(ctx context.Context, s workflow.Step, idLength int) error {
	if long := idLength + task.StepRoom + len(s.ID) - task.IDLimit; long > 0 {
		return task.Invalid("id", "is %d characters too long: with the id of the run, the id of its task may have %d",
			long, task.IDLimit)
	}
	if s.Task == nil {
		return nil
	}
	if s.Task.Type == task.WorkflowType {
		return task.Invalid("task.type", "a step cannot be a workflow yet")
	}
	if bytes.Contains(s.Task.Payload, []byte("${{")) {
		return nil
	}
	payload := s.Task.Payload
	if payload == nil {
		payload = []byte("{}")
	}
	return task.Within("task", c.types.CheckPayload(ctx, s.Task.Type, payload))
}
