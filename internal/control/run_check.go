package control

import (
	"bytes"
	"context"
	"fmt"
	"maps"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/workflow"
	"github.com/dts-sched/dts/internal/workflow/text"
)

// checkContent checks what nodes do with a task: its payload, what follows it and, if it is a run of a workflow, its
// steps. idLength is how long its id is at most. Errors: CodeInvalid, and that of ctx.
func (c *Control) checkContent(ctx context.Context, d task.Definition, idLength int) error {
	errs := []error{c.types.CheckPayload(ctx, d.Type, d.Payload), c.types.CheckKey(d), c.checkOutbox(ctx, d, idLength)}
	if d.Type == task.WorkflowType {
		errs = append(errs, c.checkRun(ctx, d.Namespace, d.Payload, idLength))
	}
	return task.Join(errs...)
}

// WorkflowLabel is the label of runs of a workflow that was put, by which lists find them: its id.
const WorkflowLabel = "workflow"

// labelled returns a task with the label of its workflow, if it is a run of one that was put and has no such label.
func labelled(d task.Definition) task.Definition {
	workflow := text.WorkflowOf(d)
	if workflow == "" {
		return d
	}
	if _, has := d.Labels[WorkflowLabel]; has || len(d.Labels) >= task.LabelsLimit {
		return d
	}
	d.Labels = maps.Clone(d.Labels)
	if d.Labels == nil {
		d.Labels = make(map[string]string, 1)
	}
	d.Labels[WorkflowLabel] = workflow
	return d
}

// checkRun checks the payload of a run of a workflow. Errors: CodeInvalid, and that of ctx.
func (c *Control) checkRun(ctx context.Context, namespace string, payload []byte, idLength int) error {
	if !c.store.HasRuns() {
		return task.Invalid("type", "workflow works as soon as no living node is of an earlier release: see dtsctl node list")
	}
	start, err := text.ParseStart(namespace, payload)
	if err != nil && len(start.Definition.Steps) == 0 { // it may be no JSON
		return err
	}
	return task.Join(err, c.checkStart(ctx, namespace, start, idLength))
}

// checkStart checks a workflow, the parameters that a run gives it, and that the ids of its steps are not too long.
// Errors: CodeInvalid, CodeUnavailable, and that of ctx.
func (c *Control) checkStart(ctx context.Context, namespace string, start text.Start, idLength int) error {
	d := start.Definition
	if start.Workflow != "" {
		stored, err := c.store.Workflows.Get(ctx, task.Ref{Namespace: namespace, ID: start.Workflow})
		if task.CodeOf(err) == workflow.CodeNotFound {
			err = task.Invalid("payload.workflow", "%s: put it first", err)
		}
		if err != nil {
			return err
		}
		_, err = stored.Bind(start.Params)
		return task.Join(task.Within("payload", err), c.checkRoom(stored.Definition, idLength))
	}
	const field = "payload.definition"
	if d.MaxRuns > 0 {
		return task.Invalid(field+".max_runs", "is for workflows that are put: this one has one run")
	}
	_, invalid := workflow.Compile(d)
	if err := task.Within(field, task.Join(invalid, c.checkSteps(ctx, d))); err != nil {
		return err
	}
	_, wrong := d.Bind(start.Params)
	return task.Join(task.Within("payload", wrong), c.checkRoom(d, idLength))
}

// checkRoom checks that the ids of the tasks of steps are not too long. Error: CodeInvalid for the id of the run.
func (c *Control) checkRoom(d workflow.Definition, idLength int) error {
	longest := 0
	for _, list := range [][]workflow.Step{d.Steps, d.OnFailure, d.Finally} {
		for _, s := range list {
			longest = max(longest, len(s.ID))
		}
	}
	if long := idLength + task.StepRoom + longest - task.IDLimit; long > 0 {
		return task.Invalid("id", "is %d characters too long for the ids of its steps", long)
	}
	return nil
}

// checkSteps checks what Compile does not know of a workflow. Errors: CodeInvalid, and that of ctx.
func (c *Control) checkSteps(ctx context.Context, d workflow.Definition) error {
	var errs []error
	for _, section := range []struct {
		name  string
		steps []workflow.Step
	}{{"steps", d.Steps}, {"on_failure", d.OnFailure}, {"finally", d.Finally}} {
		for i, s := range section.steps {
			errs = append(errs, task.Within(fmt.Sprintf("%s[%d]", section.name, i), c.checkStep(ctx, s)))
		}
	}
	return task.Join(errs...)
}

// checkStep checks what Compile does not know of a step. A payload with expressions is known only when the step is
// released. Errors: CodeInvalid, and that of ctx.
func (c *Control) checkStep(ctx context.Context, s workflow.Step) error {
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
	errs := task.Join(c.types.CheckPayload(ctx, s.Task.Type, payload), c.types.CheckKey(*s.Task))
	return task.Within("task", errs)
}
