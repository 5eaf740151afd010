package apply

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/manifest"
)

// putWorkflow sends the definition of a workflow and completes the result.
func (a *applier) putWorkflow(ctx context.Context, e *manifest.Entry, r *result) error {
	var before json.RawMessage // the definition in force
	if a.dryRun && !a.checking {
		params := &client.GetWorkflowParams{Namespace: &e.Namespace}
		answer, err := rest.Read[wire.Workflow](a.client.GetWorkflowWithResponse(ctx, e.ID, params))
		if err != nil && !isNotFound(err, wire.WorkflowNotFound) {
			return err
		}
		before = answer.Value.Definition
	}
	after, change, err := sendWorkflow(ctx, a.client, e, a.dryRun)
	if err != nil {
		return err
	}
	r.Outcome, r.Revision, r.Warnings = change, after.Revision, a.stillTrue(e.Namespace, after.Warnings)
	for _, text := range r.Warnings {
		a.warn([]string{"workflow " + e.ID + ": " + text})
	}
	if a.dryRun && change != outcomeUnchanged {
		a.pending[e.Ref()] = pending{e, change == outcomeCreated}
	}
	if !a.dryRun || a.checking {
		return nil
	}
	differences, err := manifest.WorkflowChanges(before, after.Definition)
	r.Changes = fieldChanges(differences)
	return err
}

// sendWorkflow sends the definition of a workflow, and returns the workflow and what came of it.
func sendWorkflow(
	ctx context.Context, c *rest.Client, e *manifest.Entry, dryRun bool,
) (after wire.Workflow, change outcome, _ error) {
	params := &client.PutWorkflowParams{Namespace: &e.Namespace}
	if dryRun {
		params.DryRun = &dryRun
	}
	response, err := c.PutWorkflowWithBodyWithResponse(ctx, e.ID, params, rest.JSONType, bytes.NewReader(e.Body))
	answer, err := rest.Read[wire.Workflow](response, err)
	if err != nil {
		return after, "", err
	}
	return answer.Value, outcome(response.HTTPResponse.Header.Get(changeHeader)), nil
}

// pending is a workflow that would be put before what runs it.
type pending struct {
	entry *manifest.Entry
	isNew bool // the server has none of this name
}

// pendingOf returns the workflow that an entry runs, if it is pending.
func (a *applier) pendingOf(e *manifest.Entry) (pending, bool) {
	name, _ := e.Runs()
	p, is := a.pending[name]
	return p, is
}

// sendBefore asks what the schedule of an entry would become if the workflow that it runs was put before. The server
// gets the parameters of the workflow in its place.
func (a *applier) sendBefore(
	ctx context.Context, c *rest.Client, e, workflow *manifest.Entry,
) (after rest.Answer[wire.Schedule], change outcome, _ error) {
	body, err := e.WithParamsOf(workflow)
	if err != nil {
		return after, "", err
	}
	if after, change, err = sendSchedule(ctx, c, e, body, true); err != nil {
		return after, "", err
	}
	after.Value.Task.Payload = e.RunPayload()
	after.Raw, err = wire.Encode(after.Value)
	return after, change, err
}
