package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/store/workflows"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/workflow"
	"github.com/dts-sched/dts/internal/workflow/text"
)

// tellAtOnce is how many runs at the head of a line are told at most that they may begin. Others find out themselves.
const tellAtOnce = 1000

// PutOfWorkflow is what came of the definition of a workflow or, after a dry run, what would come of it.
type PutOfWorkflow struct {
	Workflow workflow.Stored
	Created  bool
	Changed  bool     // it became a new revision; always so if the workflow was created
	Warnings []string // why tasks of its steps may not run, and which schedules give params that do not fit
}

// PutWorkflow creates a workflow in the caller's namespace, or replaces its definition, which is JSON as files have it.
// A definition that is equal to the present one changes nothing. Runs that have begun keep theirs. Errors: CodeInvalid,
// with fields such as "steps[2].needs"; workflow.CodeChanged, if a condition does not hold; CodeUnavailable while
// Redis is nearly full; CodeOverloaded.
func (c *Control) PutWorkflow(
	ctx context.Context, who Caller, id string, definition json.RawMessage, o PutOptions,
) (PutOfWorkflow, error) {
	ref := who.Ref(id)
	p, err := c.begin(ctx, who, "putWorkflow", ref)
	if err != nil {
		return PutOfWorkflow{}, err
	}
	defer p.leave()
	d, err := c.readDefinition(ctx, ref, definition)
	if err := task.Join(o.Faults, err); err != nil { // the first that names a field says it best
		return PutOfWorkflow{}, err
	}
	put, err := c.putWorkflow(ctx, who, d, o)
	if err != nil {
		return put, err
	}
	put.Warnings = append(c.stepWarnings(ctx, d), c.misfits(ctx, put)...)
	if !o.DryRun {
		c.noteNamespaces(ctx, ref.Namespace)
	}
	return put, nil
}

// stepWarnings says what keeps tasks of the steps of a workflow from running, as warnings and demandWarnings do: at
// most 10 of them. Each type and queue has one.
func (c *Control) stepWarnings(ctx context.Context, d workflow.Definition) (all []string) {
	const most = 10
	seen := make(map[[2]string]bool)
	for _, s := range slices.Concat(d.Steps, d.OnFailure, d.Finally) {
		if s.Task == nil || len(all) >= most {
			continue
		}
		kind, of := [2]string{s.Task.Type, cmp.Or(s.Task.Queue, task.DefaultQueue)}, *s.Task
		of.Namespace = d.Namespace
		warnings := c.demandWarnings(ctx, of)
		if !seen[kind] {
			seen[kind] = true
			warnings = append(c.warnings(ctx, kind[0], kind[1]), warnings...)
		}
		for _, warning := range warnings {
			all = append(all, "step "+s.ID+": "+warning)
		}
	}
	return all[:min(len(all), most)]
}

// readDefinition reads a definition, and checks it as a whole. Errors: CodeInvalid, and that of ctx.
func (c *Control) readDefinition(
	ctx context.Context, ref task.Ref, definition json.RawMessage,
) (workflow.Definition, error) {
	if !c.store.HasRuns() {
		return workflow.Definition{}, task.Invalid("id",
			"workflows work as soon as no living node is of an earlier release: see dtsctl node list")
	}
	if len(definition) > workflow.SizeLimit {
		return workflow.Definition{}, task.Invalid("definition", "is %d bytes long, at most %d are allowed",
			len(definition), workflow.SizeLimit)
	}
	d, err := text.Parse(ref.Namespace, string(definition))
	if err != nil && len(d.Steps) == 0 { // it may be no JSON
		return d, err
	}
	d.Ref = ref
	_, invalid := workflow.Compile(d)
	return d, task.Join(err, invalid, c.checkSteps(ctx, d))
}

// putWorkflow puts a valid definition, until the workflow does not change between reading and writing it.
func (c *Control) putWorkflow(
	ctx context.Context, who Caller, d workflow.Definition, o PutOptions,
) (PutOfWorkflow, error) {
	for range putTries {
		old, err := c.store.Workflows.Get(ctx, d.Ref)
		if err != nil && task.CodeOf(err) != workflow.CodeNotFound {
			return PutOfWorkflow{}, err
		}
		if err := o.allow("workflow", workflow.CodeChanged, d.Ref, old.Revision); err != nil {
			return PutOfWorkflow{}, err
		}
		put := PutOfWorkflow{Workflow: old, Created: old.Revision == 0, Changed: !sameDefinition(old.Definition, d)}
		if !put.Changed || o.DryRun {
			put.Workflow.Definition = d
			if put.Changed {
				put.Workflow.Revision++
			}
			return put, nil
		}
		put.Workflow, err = c.store.Workflows.Put(ctx, d, old.Revision, who.By())
		if !errors.Is(err, workflows.ErrMoved) {
			if err == nil && put.Workflow.MaxRuns != old.MaxRuns {
				c.tellLine(ctx, put.Workflow)
			}
			return put, err
		}
	}
	const message = "workflow %q changed during each of %d tries to replace it: try again"
	return PutOfWorkflow{}, task.Errorf(workflow.CodeChanged, message, d.ID, putTries)
}

// sameDefinition reports whether two definitions are equal as stored.
func sameDefinition(a, b workflow.Definition) bool {
	one, wrong := text.Encode(a)
	other, err := text.Encode(b)
	return wrong == nil && err == nil && one == other
}

// GetWorkflow returns a workflow. Errors: workflow.CodeNotFound, CodeUnreadable.
func (c *Control) GetWorkflow(ctx context.Context, who Caller, id string) (workflow.Stored, error) {
	if _, err := c.begin(ctx, who, "getWorkflow", who.Ref(id)); err != nil {
		return workflow.Stored{}, err
	}
	return c.findWorkflow(ctx, who.Ref(id))
}

func (c *Control) findWorkflow(ctx context.Context, ref task.Ref) (workflow.Stored, error) {
	if err := workflow.ValidateID(ref.ID); err != nil {
		return workflow.Stored{}, err
	}
	return c.store.Workflows.Get(ctx, ref)
}

// WorkflowPage is a part of a list of workflows.
type WorkflowPage struct {
	Workflows  []workflows.Read // of those that cannot be read, Err says so
	NextCursor string           // "" on the last page
}

// ListWorkflows returns up to limit workflows whose ids begin with a prefix, by name, from a cursor on ("": from the
// start). The caller's namespace may be EveryNamespace. Error: CodeInvalid for the cursor.
func (c *Control) ListWorkflows(
	ctx context.Context, who Caller, prefix string, limit int, cursor string,
) (page WorkflowPage, _ error) {
	if _, err := c.begin(ctx, who, "listWorkflows"); err != nil {
		return page, err
	}
	after, err := layout.ParseNameCursor(layout.WorkflowNames, cursor)
	if err != nil {
		return page, err
	}
	refs, err := c.store.Workflows.Names(ctx, who.Namespace, prefix, after, limit+1)
	if err != nil {
		return page, err
	}
	if len(refs) > limit {
		refs = refs[:limit]
		page.NextCursor = layout.NameCursor(layout.WorkflowNames, refs[limit-1].String())
	}
	found, err := c.store.Workflows.GetEach(ctx, refs)
	if err != nil {
		return WorkflowPage{}, err
	}
	for _, one := range found {
		if task.CodeOf(one.Err) == workflow.CodeNotFound { // deleted meanwhile
			continue
		}
		if who.Namespace == EveryNamespace && !strings.HasPrefix(one.ID, prefix) {
			continue
		}
		page.Workflows = append(page.Workflows, one)
	}
	return page, nil
}

// WorkflowUsers are schedules that run a workflow.
type WorkflowUsers struct {
	Schedules []string // the ids of the first ones, at most 10, by name
	More      bool     // there may be more: not all schedules were looked at, or some cannot be read
}

// usersLimit is how many schedules a WorkflowUsers names at most.
const usersLimit = 10

// DeleteWorkflow deletes a workflow with its history. Runs that have begun go on; those that have not begun fail, and
// so do those that schedules start. It returns which schedules do. ifMatch is the revision that is deleted; 0: any.
// Errors: workflow.CodeNotFound, workflow.CodeChanged.
func (c *Control) DeleteWorkflow(ctx context.Context, who Caller, id string, ifMatch int) (WorkflowUsers, error) {
	users, err := c.PreviewDeleteWorkflow(ctx, who, id, ifMatch)
	if err != nil && task.CodeOf(err) != task.CodeUnreadable {
		return users, err
	}
	err = c.store.Workflows.Delete(ctx, who.Ref(id), ifMatch, who.By())
	if errors.Is(err, workflows.ErrMoved) {
		err = workflowMoved(id, ifMatch)
	}
	return users, err
}

// PreviewDeleteWorkflow returns what DeleteWorkflow would return, and changes nothing. Errors: those of DeleteWorkflow;
// CodeUnreadable.
func (c *Control) PreviewDeleteWorkflow(
	ctx context.Context, who Caller, id string, ifMatch int,
) (users WorkflowUsers, _ error) {
	if _, err := c.begin(ctx, who, "deleteWorkflow", who.Ref(id)); err != nil {
		return users, err
	}
	s, unreadable := c.findWorkflow(ctx, who.Ref(id))
	switch {
	case unreadable != nil && task.CodeOf(unreadable) != task.CodeUnreadable:
		return users, unreadable
	case unreadable == nil && ifMatch > 0 && s.Revision != ifMatch:
		return users, workflowMoved(id, ifMatch)
	}
	return c.usersOf(ctx, who.Ref(id)), unreadable
}

// usersOf looks for the schedules that run a workflow, for a limited time.
func (c *Control) usersOf(ctx context.Context, ref task.Ref) (users WorkflowUsers) {
	found, more := c.schedulesOf(ctx, ref, usersLimit)
	users.More = more
	for _, s := range found {
		users.Schedules = append(users.Schedules, s.ID)
	}
	return users
}

// schedulesOf returns up to limit schedules that run a workflow, and whether there may be more. It looks for a limited
// time, and leaves out what cannot be read.
func (c *Control) schedulesOf(ctx context.Context, ref task.Ref, limit int) (found []schedule.Schedule, more bool) {
	reading, left := redisx.LeavingOut(ctx)
	filter := ScheduleFilter{Namespace: ref.Namespace, Workflow: ref.ID}
	page, err := c.store.Schedules.List(reading, filter, limit, "")
	return page.Schedules, err != nil || page.NextCursor != "" || left.Texts() != nil
}

// misfits says which schedules give params that do not fit a new revision of a workflow: at most 10 of them. It reads
// nothing if the definition stays as it is.
func (c *Control) misfits(ctx context.Context, put PutOfWorkflow) (all []string) {
	const checked = 100
	if !put.Changed {
		return nil
	}
	found, more := c.schedulesOf(ctx, put.Workflow.Ref, checked)
	for _, s := range found {
		err := checkParams(put.Workflow.Definition, s.Task)
		if err == nil {
			continue
		}
		if more = more || len(all) == usersLimit; len(all) == usersLimit {
			break
		}
		all = append(all, fmt.Sprintf("schedule %s: its runs will fail: %s", s.ID, err))
	}
	if more {
		all = append(all, "there may be more schedules whose params do not fit: not all were checked")
	}
	return all
}

// checkParams checks what the task of a run gives the params of its workflow. Error: CodeInvalid.
func checkParams(d workflow.Definition, run task.Definition) error {
	start, err := text.ParseStart(d.Namespace, run.Payload)
	if err == nil {
		_, err = d.Bind(start.Params)
	}
	return err
}

// workflowMoved is the error for a workflow that has another revision than the one that is to be deleted.
func workflowMoved(id string, revision int) error {
	return task.Errorf(workflow.CodeChanged, "workflow %q is not at revision %d: read it and try again", id, revision)
}

// ListWorkflowRevisions returns the revisions of a workflow that are kept, newest first; the first one is in force.
// Error: workflow.CodeNotFound.
func (c *Control) ListWorkflowRevisions(ctx context.Context, who Caller, id string) ([]workflow.Revision, error) {
	if _, err := c.begin(ctx, who, "listWorkflowRevisions", who.Ref(id)); err != nil {
		return nil, err
	}
	return c.workflowHistory(ctx, who.Ref(id))
}

func (c *Control) workflowHistory(ctx context.Context, ref task.Ref) ([]workflow.Revision, error) {
	s, err := c.findWorkflow(ctx, ref)
	if err != nil {
		return nil, err
	}
	earlier, err := c.store.Workflows.History(ctx, ref)
	present := workflow.Revision{Number: s.Revision, From: s.UpdatedAt, Definition: s.Definition, By: s.By}
	return append([]workflow.Revision{present}, earlier...), err
}

// RollbackWorkflow puts the definition of an earlier revision again; it becomes a new revision. Errors:
// workflow.CodeNotFound, workflow.CodeRevisionNotFound, workflow.CodeChanged, CodeInvalid.
func (c *Control) RollbackWorkflow(
	ctx context.Context, who Caller, id string, revision int, o PutOptions,
) (PutOfWorkflow, error) {
	p, err := c.begin(ctx, who, "rollbackWorkflow", who.Ref(id))
	if err != nil {
		return PutOfWorkflow{}, err
	}
	defer p.leave()
	history, err := c.workflowHistory(ctx, who.Ref(id))
	if err != nil {
		return PutOfWorkflow{}, err
	}
	for _, r := range history {
		if r.Number != revision {
			continue
		}
		if o.IfMatch == 0 {
			o.IfMatch = history[0].Number
		}
		if _, err := workflow.Compile(r.Definition); err != nil {
			return PutOfWorkflow{}, err
		}
		put, err := c.putWorkflow(ctx, who, r.Definition, o)
		if err == nil {
			put.Warnings = append(c.stepWarnings(ctx, r.Definition), c.misfits(ctx, put)...)
		}
		return put, err
	}
	const message = "revision %d of workflow %q is not kept: revisions %d to %d are"
	return PutOfWorkflow{}, task.Errorf(workflow.CodeRevisionNotFound, message, revision, id,
		history[len(history)-1].Number, history[0].Number)
}

// PauseWorkflow keeps further runs of a workflow from beginning; note says why, and an empty one leaves the note as it
// is. Runs that have begun go on. Errors: workflow.CodeNotFound, CodeInvalid for the note.
func (c *Control) PauseWorkflow(ctx context.Context, who Caller, id, note string) (workflow.Stored, error) {
	if _, err := c.begin(ctx, who, "pauseWorkflow", who.Ref(id)); err != nil {
		return workflow.Stored{}, err
	}
	if err := checkNote(note); err != nil {
		return workflow.Stored{}, err
	}
	return c.store.Workflows.Pause(ctx, who.Ref(id), note, who.By())
}

// ResumeWorkflow lets runs of a paused workflow begin again, those that wait first. Error: workflow.CodeNotFound.
func (c *Control) ResumeWorkflow(ctx context.Context, who Caller, id string) (workflow.Stored, error) {
	if _, err := c.begin(ctx, who, "resumeWorkflow", who.Ref(id)); err != nil {
		return workflow.Stored{}, err
	}
	s, err := c.store.Workflows.Resume(ctx, who.Ref(id), who.By())
	if err == nil {
		c.tellLine(ctx, s)
	}
	return s, err
}

// tellLine tells runs that wait in the line of a workflow that they may begin. If that fails, they find out themselves.
func (c *Control) tellLine(ctx context.Context, s workflow.Stored) {
	most := tellAtOnce
	if s.MaxRuns > 0 {
		most = min(most, s.MaxRuns)
	}
	places, err := c.store.Workflows.Line(ctx, s.Ref, 0, most)
	for _, place := range places {
		if asked := c.store.Tasks.AskRun(ctx, place.Run, workflow.NoAsk); task.CodeOf(asked) == task.CodeUnavailable {
			err = asked
		}
	}
	if err != nil {
		c.log.WarnContext(ctx, "runs that may begin were not told so", "workflow", s.Ref.String(), "error", err)
	}
}
