package api

import (
	"cmp"
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/task"
)

const (
	defaultListLimit = 50
	defaultLogLimit  = 500
)

func refOf(namespace, id string) task.Ref {
	return task.Ref{Namespace: cmp.Or(namespace, task.DefaultNamespace), ID: id}
}

// SubmitTask answers POST /v1/tasks.
func (e *endpoints) SubmitTask(c echo.Context, params SubmitTaskParams) error {
	ctx := c.Request().Context()
	if err := e.Admit(ctx); err != nil {
		return err
	}
	var s Submission
	if err := bind(c, &s); err != nil {
		return err
	}
	d, err := definitionOf(s, params.Namespace)
	if err != nil {
		return err
	}
	created := e.Tasks.Create(ctx, []task.Definition{d})[0]
	switch {
	case created.Err != nil:
		return created.Err
	case created.Existed:
		return ok(c, e.taskOf(created.Task))
	}
	c.Response().Header().Set(echo.HeaderLocation, location("/v1/tasks/", created.Task.Ref))
	return reply(c, http.StatusCreated, jsonType, e.taskOf(created.Task))
}

// location is where what was created can be found; all is the path of all of its kind.
func location(all string, ref task.Ref) string {
	at := all + url.PathEscape(ref.ID)
	if ref.Namespace != task.DefaultNamespace {
		at += "?namespace=" + url.QueryEscape(ref.Namespace)
	}
	return at
}

// ListTasks answers GET /v1/tasks.
func (e *endpoints) ListTasks(c echo.Context, params ListTasksParams) error {
	filter := store.Filter{
		Namespace: cmp.Or(params.Namespace, task.DefaultNamespace), States: statesOf(params.State),
		Queue: params.Queue, Type: params.Type, Owner: params.Owner, Node: params.Node, Schedule: params.Schedule,
	}
	page, err := e.Tasks.List(c.Request().Context(), filter, cmp.Or(params.Limit, defaultListLimit), params.Cursor)
	if err != nil {
		return err
	}
	return ok(c, TaskList{Tasks: each(page.Tasks, e.taskOf), NextCursor: page.NextCursor})
}

// GetTask answers GET /v1/tasks/{id}.
func (e *endpoints) GetTask(c echo.Context, id TaskID, params GetTaskParams) error {
	t, err := e.Tasks.Get(c.Request().Context(), refOf(params.Namespace, id))
	return e.answerTask(c, t, err)
}

// ChangeTask answers PATCH /v1/tasks/{id}.
func (e *endpoints) ChangeTask(c echo.Context, id TaskID, params ChangeTaskParams) error {
	var in TaskChange
	if err := bind(c, &in); err != nil {
		return err
	}
	change, err := changeOf(in)
	if err != nil {
		return err
	}
	t, err := e.Tasks.Update(c.Request().Context(), refOf(params.Namespace, id), change)
	return e.answerTask(c, t, err)
}

// CancelTask answers DELETE /v1/tasks/{id}.
func (e *endpoints) CancelTask(c echo.Context, id TaskID, params CancelTaskParams) error {
	t, err := e.Tasks.Cancel(c.Request().Context(), refOf(params.Namespace, id))
	return e.answerTask(c, t, err)
}

// RetryTask answers POST /v1/tasks/{id}/retry.
func (e *endpoints) RetryTask(c echo.Context, id TaskID, params RetryTaskParams) error {
	t, err := e.Tasks.Rerun(c.Request().Context(), refOf(params.Namespace, id))
	return e.answerTask(c, t, err)
}

func (e *endpoints) answerTask(c echo.Context, t task.Task, err error) error {
	if err != nil {
		return err
	}
	return ok(c, e.taskOf(t))
}

// ListAttempts answers GET /v1/tasks/{id}/attempts.
func (e *endpoints) ListAttempts(c echo.Context, id TaskID, params ListAttemptsParams) error {
	attempts, err := e.Tasks.Attempts(c.Request().Context(), refOf(params.Namespace, id))
	if err != nil {
		return err
	}
	return ok(c, AttemptList{Attempts: each(attempts, attemptOf)})
}

// ReportProgress answers POST /v1/tasks/{id}/progress.
func (e *endpoints) ReportProgress(c echo.Context, id TaskID, params ReportProgressParams) error {
	var in ProgressReport
	if err := bind(c, &in); err != nil {
		return err
	}
	if err := e.Tasks.ReportProgress(c.Request().Context(), refOf(params.Namespace, id), in.Attempt, in.Progress); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}
