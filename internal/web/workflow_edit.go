package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/manifest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/workflow"
	"github.com/dts-sched/dts/internal/workflow/text"
)

const newWorkflowPath = "/workflows/new"

// workflowEdit is what the page shows on which a workflow is written.
type workflowEdit struct {
	textEdit
	Graph []drawing // of a valid text

	before     workflow.Stored // that is in force; the zero value for a new one
	definition json.RawMessage // that the text has
	after      workflow.Definition
}

// firstWorkflow is what a new workflow begins with, given a namespace.
const firstWorkflow = `namespace: %s
workflows:
  - id: nightly-etl
    description: Loads what the shop has sold in a day
    params:
      day: {type: string, required: true, pattern: "[0-9]{4}-[0-9]{2}-[0-9]{2}"}
    steps:
      - id: orders
        task:
          type: http  # or shell, with a payload such as {command: [./orders], env: {DAY: "${{ params.day }}"}}
          payload:
            method: POST
            url: https://example.com/orders
            body: {day: "${{ params.day }}"}
      - id: customers
        task: {type: http, payload: {url: https://example.com/customers}}
      - id: load
        needs: [orders, customers]  # both must succeed first; without needs, a step runs at once
        task:
          type: http
          payload: {method: POST, url: https://example.com/load, body: "${{ steps.orders.output }}"}
    on_failure:
      - id: alarm
        task: {type: http, payload: {method: POST, url: https://example.com/alarm}}
`

// newWorkflowEdit is one whose text was not read yet.
func newWorkflowEdit() *workflowEdit {
	return &workflowEdit{textEdit: textEdit{Kind: manifest.KindWorkflow}}
}

func readWorkflowEdit(ctx context.Context, v *visit) (any, string, error) {
	e := newWorkflowEdit()
	if err := v.open(ctx, e); err != nil {
		return nil, "", err
	}
	return e, e.title(v), nil
}

// bareWorkflowEdit shows a form while Redis does not answer, unless it is to have a workflow that is there.
func bareWorkflowEdit(v *visit) (any, string) {
	e := newWorkflowEdit()
	if !v.bareEdit(e) {
		return nil, ""
	}
	return e, e.title(v)
}

// putWorkflow is the action of the form on which a workflow is written.
func putWorkflow(ctx context.Context, v *visit, _ url.Values) (result, error) {
	return v.putText(ctx, newWorkflowEdit())
}

func (e *workflowEdit) find(ctx context.Context, v *visit, id string) (task.Ref, int, error) {
	var err error
	e.before, err = v.site.Control.GetWorkflow(ctx, v.who, id)
	return e.before.Ref, e.before.Revision, err
}

func (e *workflowEdit) begin(v *visit) error {
	if e.Revision == 0 {
		e.Text = fmt.Sprintf(firstWorkflow, strconv.Quote(v.namespaceOfNew()))
		return nil
	}
	raw, err := text.Encode(e.before.Definition)
	if err != nil {
		return err
	}
	d, err := manifest.WorkflowDocument(e.Ref.Namespace, e.Ref.ID, json.RawMessage(raw))
	if err == nil {
		e.Text, err = d.Text()
	}
	return err
}

func (e *workflowEdit) check(ctx context.Context, v *visit) error {
	e.Text = v.text()
	return v.checkText(ctx, e)
}

func (e *workflowEdit) read(entry *manifest.Entry) error {
	e.definition = entry.Body
	return nil
}

func (e *workflowEdit) put(ctx context.Context, v *visit, o control.PutOptions) (outcome, error) {
	who := v.who
	who.Namespace = e.named.Namespace
	put, err := v.site.Control.PutWorkflow(ctx, who, e.named.ID, e.definition, o)
	e.after, e.Warnings = put.Workflow.Definition, put.Warnings
	out := outcome{Created: put.Created, Changed: put.Changed, Revision: put.Workflow.Revision, said: "put-before"}
	if put.Changed {
		out.said = "put"
	}
	return out, err
}

// tell says what a valid text changes, and draws it.
func (e *workflowEdit) tell(v *visit) (err error) {
	e.Graph = v.plannedGraph(e.after, "#text")
	if e.Revision > 0 {
		var changes []manifest.Change
		changes, err = workflowChanges(e.before.Definition, e.after)
		e.Changes, e.Cut, _ = cutChanges(changes, shownDefinition)
	}
	return err
}
