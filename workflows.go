package dts

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/workflow"
	"github.com/dts-sched/dts/internal/workflow/text"
)

// NamedWorkflow is a workflow that was put under a name, and its state. Times that have not come are zero.
type NamedWorkflow struct {
	ID         string
	Namespace  string
	Definition Workflow // values in it, as payloads and defaults, are json.RawMessage; Set is nil
	Revision   int      // counts the changes of the definition, from 1; after a dry run, the one that there would be
	CreatedAt  time.Time
	UpdatedAt  time.Time // when this revision was put
	UpdatedBy  string    // who put it; "" if nobody knows
	Paused     bool
	PausedAt   time.Time
	PausedBy   string
	PauseNote  string
}

// WorkflowRevision is a definition that was put at From.
type WorkflowRevision struct {
	Revision   int
	From       time.Time
	Definition Workflow
	By         string // who put it; "" if nobody knows
}

// Params are values of parameters by their names, for [Client.StartWorkflow], [RunOf] and [Client.Run].
type Params map[string]any

// RunOf returns the payload of a run of a workflow that was put, with parameters: a struct or a map whose JSON is an
// object, or nil. It is for what [Client.StartWorkflow] has no words for, as an ID or a delay, and for the Task of a
// [ScheduleDefinition] or [FollowUp]:
//
//	client.PutSchedule(ctx, "nightly", dts.ScheduleDefinition{Cron: "0 2 * * *", Task: dts.TaskTemplate{
//		Type: dts.TypeWorkflow, Payload: dts.RunOf("etl", dts.Params{"shop": "north"}),
//	}})
func RunOf(workflow string, params any) any {
	return start{named: true, name: workflow, params: params}
}

// StartWorkflow starts a run of a workflow that was put, with parameters: a struct or a map whose JSON is an object, or
// nil. The run has the revision that is in force when it begins, and the label "workflow". What is said of [Client.Run]
// holds here, too. Errors: as of [Client.Submit]; CodeInvalid, for "workflow" if there is none of that id, and for
// fields such as "params.day".
func (c *Client) StartWorkflow(ctx context.Context, id string, params any) (*Task, error) {
	if err := c.checkWorkflow(id); err != nil {
		return nil, err
	}
	return c.Submit(ctx, Submission{Type: TypeWorkflow, Payload: RunOf(id, params)})
}

// PutWorkflow creates a workflow, or replaces its definition as a whole. An equal definition changes nothing. Runs that
// have begun keep theirs. The options are IfRevision, IfAbsent and DryRun. Errors: CodeInvalid, with fields such as
// "workflow.steps.load.timeout"; CodeWorkflowChanged, if a condition does not hold; CodeUnavailable.
func (c *Client) PutWorkflow(ctx context.Context, id string, w Workflow, options ...PutOption) (*NamedWorkflow, error) {
	var p put
	for _, option := range options {
		option(&p)
	}
	if p.paused != nil {
		return nil, errorOfUseCase(task.Invalid("paused", "is for schedules: use PauseWorkflow or ResumeWorkflow"))
	}
	definition, err := c.wireWorkflow(id, w)
	if err != nil {
		return nil, err
	}
	body, err := rest.Body(definition)
	if err != nil {
		return nil, err
	}
	params := client.PutWorkflowParams{
		Namespace: c.api.Namespace, IfMatch: p.ifMatch, IfNoneMatch: p.ifNoneMatch, DryRun: p.dryRun,
	}
	named, err := workflowOf(c.api.PutWorkflowWithBodyWithResponse(ctx, id, &params, rest.JSONType, body))
	return named, w.inGo(err)
}

// GetWorkflow returns a workflow. Error: CodeWorkflowNotFound.
func (c *Client) GetWorkflow(ctx context.Context, id string) (*NamedWorkflow, error) {
	if err := c.checkWorkflow(id); err != nil {
		return nil, err
	}
	return workflowOf(c.api.GetWorkflowWithResponse(ctx, id, &client.GetWorkflowParams{Namespace: c.api.Namespace}))
}

// WorkflowFilter narrows a list of workflows. Zero fields match all.
type WorkflowFilter struct {
	Prefix string // of the id
}

// ListWorkflows yields the workflows of the namespace, by id. Errors: CodeInvalid for the filter; CodeDataUnreadable,
// after the others, if some cannot be read.
func (c *Client) ListWorkflows(ctx context.Context, f WorkflowFilter) iter.Seq2[*NamedWorkflow, error] {
	if err := c.checkNamespace(); err != nil {
		return failing[*NamedWorkflow](err)
	}
	params := client.ListWorkflowsParams{
		Namespace: c.api.Namespace, Prefix: wire.Given(f.Prefix), Limit: new(pageLimit),
	}
	return pages(func(cursor *string) (p page[*NamedWorkflow], _ error) {
		params.Cursor = cursor
		list, err := call[wire.WorkflowList](c.api.ListWorkflowsWithResponse(ctx, &params))
		p.next, p.warnings = list.NextCursor, list.Warnings
		for _, w := range list.Workflows {
			named, wrong := workflowFrom(w)
			p.rows, err = append(p.rows, named), errors.Join(err, wrong)
		}
		return p, err
	})
}

// DeleteWorkflow deletes a workflow with its earlier revisions. Runs that have begun go on, and those that have not
// begun fail when their turn comes. Error: CodeWorkflowNotFound.
func (c *Client) DeleteWorkflow(ctx context.Context, id string) error {
	if err := c.checkWorkflow(id); err != nil {
		return err
	}
	params := client.DeleteWorkflowParams{Namespace: c.api.Namespace}
	_, err := call[wire.WorkflowDeletion](c.api.DeleteWorkflowWithResponse(ctx, id, &params))
	return err
}

// PauseWorkflow keeps further runs of a workflow from beginning; note says who and why, "" leaves the note as it is.
// Runs that have begun go on. Errors: CodeWorkflowNotFound, CodeInvalid for a note of more than 500 bytes.
func (c *Client) PauseWorkflow(ctx context.Context, id, note string) (*NamedWorkflow, error) {
	if err := c.checkWorkflow(id); err != nil {
		return nil, err
	}
	if err := task.ValidateText("note", note, schedule.NoteLimit); err != nil {
		return nil, errorOfUseCase(err)
	}
	params := client.PauseWorkflowParams{Namespace: c.api.Namespace}
	return workflowOf(c.api.PauseWorkflowWithResponse(ctx, id, &params, wire.SchedulePause{Note: wire.Given(note)}))
}

// ResumeWorkflow lets runs of a paused workflow begin again, those that wait first. Error: CodeWorkflowNotFound.
func (c *Client) ResumeWorkflow(ctx context.Context, id string) (*NamedWorkflow, error) {
	if err := c.checkWorkflow(id); err != nil {
		return nil, err
	}
	params := client.ResumeWorkflowParams{Namespace: c.api.Namespace}
	return workflowOf(c.api.ResumeWorkflowWithResponse(ctx, id, &params))
}

// WorkflowRevisions returns the definitions of a workflow that are kept, the newest first, which is in force.
// Error: CodeWorkflowNotFound.
func (c *Client) WorkflowRevisions(ctx context.Context, id string) ([]WorkflowRevision, error) {
	if err := c.checkWorkflow(id); err != nil {
		return nil, err
	}
	params := client.ListWorkflowRevisionsParams{Namespace: c.api.Namespace}
	list, err := call[wire.WorkflowRevisions](c.api.ListWorkflowRevisionsWithResponse(ctx, id, &params))
	if err != nil {
		return nil, err
	}
	var all []WorkflowRevision
	for _, r := range list.Revisions {
		definition, err := definitionRead(r.Definition)
		if err != nil {
			return nil, err
		}
		all = append(all, WorkflowRevision{
			Revision: r.Revision, From: r.From.Time, Definition: definition, By: wire.Value(r.By),
		})
	}
	return all, nil
}

// RollbackWorkflow puts an earlier definition in force again, as a new revision. Runs that have begun keep theirs.
// Errors: CodeWorkflowNotFound, CodeWorkflowRevisionNotFound.
func (c *Client) RollbackWorkflow(ctx context.Context, id string, revision int) (*NamedWorkflow, error) {
	if err := c.checkWorkflow(id); err != nil {
		return nil, err
	}
	params := client.RollbackWorkflowParams{Namespace: c.api.Namespace}
	return workflowOf(c.api.RollbackWorkflowWithResponse(ctx, id, &params, wire.Rollback{Revision: revision}))
}

// checkWorkflow checks the id of a workflow. Error: CodeInvalid.
func (c *Client) checkWorkflow(id string) error {
	if err := c.checkNamespace(); err != nil {
		return err
	}
	return errorOfUseCase(workflow.ValidateID(id))
}

// wireWorkflow returns a definition as the API takes it, after all checks that need no node. Error: CodeInvalid, in the
// words of Go.
func (c *Client) wireWorkflow(id string, w Workflow) (wire.WorkflowDefinition, error) {
	if err := c.checkWorkflow(id); err != nil {
		return nil, err
	}
	d, err := w.definition()
	if err == nil {
		d.Ref = c.caller().Ref(id)
		_, err = workflow.Compile(d)
	}
	if err != nil {
		return nil, errorOfUseCase(w.inGo(err))
	}
	written, err := text.Encode(d)
	return wire.PlainSigns([]byte(written)), err
}

// workflowOf returns the workflow of an answer.
func workflowOf(r rest.Reply, err error) (*NamedWorkflow, error) {
	w, err := call[wire.Workflow](r, err)
	if err != nil {
		return nil, err
	}
	return workflowFrom(w)
}

func workflowFrom(w wire.Workflow) (*NamedWorkflow, error) {
	definition, err := definitionRead(w.Definition)
	return &NamedWorkflow{
		ID: w.ID, Namespace: w.Namespace, Definition: definition, Revision: w.Revision, CreatedAt: w.CreatedAt.Time,
		UpdatedAt: w.UpdatedAt.Time, UpdatedBy: wire.Value(w.UpdatedBy), Paused: w.PausedAt != nil,
		PausedAt: wire.Value(w.PausedAt).Time, PausedBy: wire.Value(w.PausedBy), PauseNote: wire.Value(w.PauseNote),
	}, err
}
