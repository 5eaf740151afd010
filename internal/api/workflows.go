package api

import (
	"cmp"
	"encoding/json"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/workflow"
	"github.com/dts-sched/dts/internal/workflow/text"
)

const workflowsPath = "/v1/workflows/"

// PutWorkflow answers PUT /v1/workflows/{id}.
func (e *endpoints) PutWorkflow(c echo.Context, id wire.WorkflowID, params PutWorkflowParams) error {
	var in json.RawMessage
	if err := bind(c, &in); err != nil {
		return err
	}
	o, err := putOptionsOf(params.IfMatch, params.IfNoneMatch, params.DryRun)
	if err != nil {
		return err
	}
	o.Faults = faultsOf(c)
	put, err := e.Control.PutWorkflow(c.Request().Context(), callerOf(c), id, in, o)
	if err != nil {
		return err
	}
	return e.answerPut(c, put, params.DryRun)
}

// answerPut answers what came of the definition of a workflow.
func (e *endpoints) answerPut(c echo.Context, put control.PutOfWorkflow, dry bool) error {
	out, err := workflowOf(put.Workflow)
	if err != nil {
		return err
	}
	out.Warnings = put.Warnings
	c.Response().Header().Set(changeHeader, changeBy(put.Created, put.Changed))
	tagRevision(c, put.Workflow.Revision)
	if !put.Created || dry {
		return e.ok(c, out)
	}
	c.Response().Header().Set(echo.HeaderLocation, location(workflowsPath, put.Workflow.Ref))
	return e.server.JSON(c, http.StatusCreated, out)
}

// GetWorkflow answers GET /v1/workflows/{id}.
func (e *endpoints) GetWorkflow(c echo.Context, id wire.WorkflowID, _ GetWorkflowParams) error {
	s, err := e.Control.GetWorkflow(c.Request().Context(), callerOf(c), id)
	return e.answerWorkflow(c, s, err)
}

// ListWorkflows answers GET /v1/workflows.
func (e *endpoints) ListWorkflows(c echo.Context, params ListWorkflowsParams) error {
	limit := cmp.Or(params.Limit, defaultListLimit)
	page, err := e.Control.ListWorkflows(c.Request().Context(), callerOf(c), params.Prefix, limit, params.Cursor)
	if err != nil {
		return err
	}
	out := wire.WorkflowList{Workflows: []wire.Workflow{}, NextCursor: wire.Given(page.NextCursor)}
	for _, one := range page.Workflows {
		if one.Err != nil {
			out.Warnings = append(out.Warnings, one.Err.Error())
			continue
		}
		w, err := workflowOf(one.Stored)
		if err != nil {
			return err
		}
		out.Workflows = append(out.Workflows, w)
	}
	return e.ok(c, out)
}

// DeleteWorkflow answers DELETE /v1/workflows/{id}.
func (e *endpoints) DeleteWorkflow(c echo.Context, id wire.WorkflowID, params DeleteWorkflowParams) error {
	revision, _ := matchOf(params.IfMatch)
	remove := e.Control.DeleteWorkflow
	if params.DryRun {
		remove = e.Control.PreviewDeleteWorkflow
	}
	users, err := remove(c.Request().Context(), callerOf(c), id, revision)
	if err != nil {
		return err
	}
	return e.ok(c, wire.WorkflowDeletion{Schedules: list(users.Schedules), More: wire.Given(users.More)})
}

// PauseWorkflow answers POST /v1/workflows/{id}/pause.
func (e *endpoints) PauseWorkflow(c echo.Context, id wire.WorkflowID, _ PauseWorkflowParams) error {
	var in wire.SchedulePause
	if err := bind(c, &in); err != nil {
		return err
	}
	s, err := e.Control.PauseWorkflow(c.Request().Context(), callerOf(c), id, wire.Value(in.Note))
	return e.answerWorkflow(c, s, err)
}

// ResumeWorkflow answers POST /v1/workflows/{id}/resume.
func (e *endpoints) ResumeWorkflow(c echo.Context, id wire.WorkflowID, _ ResumeWorkflowParams) error {
	s, err := e.Control.ResumeWorkflow(c.Request().Context(), callerOf(c), id)
	return e.answerWorkflow(c, s, err)
}

// ListWorkflowRevisions answers GET /v1/workflows/{id}/revisions.
func (e *endpoints) ListWorkflowRevisions(
	c echo.Context, id wire.WorkflowID, _ ListWorkflowRevisionsParams,
) error {
	revisions, err := e.Control.ListWorkflowRevisions(c.Request().Context(), callerOf(c), id)
	if err != nil {
		return err
	}
	out := wire.WorkflowRevisions{Revisions: []wire.WorkflowRevision{}}
	for _, r := range revisions {
		definition, err := text.Encode(r.Definition)
		if err != nil {
			return err
		}
		out.Revisions = append(out.Revisions, wire.WorkflowRevision{
			Revision: r.Number, From: wire.At(r.From), By: wire.Given(r.By), Definition: json.RawMessage(definition),
		})
	}
	return e.ok(c, out)
}

// RollbackWorkflow answers POST /v1/workflows/{id}/rollback.
func (e *endpoints) RollbackWorkflow(c echo.Context, id wire.WorkflowID, params RollbackWorkflowParams) error {
	var in wire.Rollback
	if err := bind(c, &in); err != nil {
		return err
	}
	ifMatch, _ := matchOf(params.IfMatch)
	o := control.PutOptions{IfMatch: ifMatch, DryRun: params.DryRun}
	put, err := e.Control.RollbackWorkflow(c.Request().Context(), callerOf(c), id, in.Revision, o)
	if err != nil {
		return err
	}
	return e.answerPut(c, put, params.DryRun)
}

// answerWorkflow answers one workflow, with its revision as the ETag.
func (e *endpoints) answerWorkflow(c echo.Context, s workflow.Stored, err error) error {
	if err != nil {
		return err
	}
	out, err := workflowOf(s)
	if err != nil {
		return err
	}
	tagRevision(c, s.Revision)
	return e.ok(c, out)
}

// workflowOf is a workflow as the API shows it.
func workflowOf(s workflow.Stored) (wire.Workflow, error) {
	definition, err := text.Encode(s.Definition)
	return wire.Workflow{
		Namespace: s.Namespace, ID: s.ID, Revision: s.Revision, Definition: json.RawMessage(definition),
		CreatedAt: wire.At(s.CreatedAt), UpdatedAt: wire.At(s.UpdatedAt), UpdatedBy: wire.Given(s.By),
		PausedAt: wire.AtIfAny(s.PausedAt), PausedBy: wire.Given(s.PausedBy), PauseNote: wire.Given(s.PauseNote),
	}, err
}
