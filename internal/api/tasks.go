package api

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/edge"
	"github.com/dts-sched/dts/internal/task"
)

const (
	defaultListLimit = 50
	defaultLogLimit  = 500
	defaultLogTicks  = 5
)

// changeHeader says what a request has changed, or would change.
const changeHeader = "Dts-Change"

// unquoted returns the value of the header Idempotency-Key without the quotation marks that it may have.
func unquoted(key string) string { return strings.Trim(key, `"`) }

// SubmitTask answers POST /v1/tasks.
func (e *endpoints) SubmitTask(c echo.Context, params SubmitTaskParams) error {
	var in wire.Submission
	if err := bind(c, &in); err != nil {
		return err
	}
	who, err := callerIn(c, wire.Value(in.Namespace))
	if err != nil {
		return err
	}
	in.ID = wire.Given(cmp.Or(wire.Value(in.ID), unquoted(params.IdempotencyKey)))
	submitted, err := e.submissions(params.DryRun).Submit(c.Request().Context(), who, in)
	if err != nil {
		return err
	}
	return e.answerSubmission(c, "/v1/tasks/", submitted, params.DryRun)
}

// answerSubmission answers what was submitted; all is the path of all of its kind.
func (e *endpoints) answerSubmission(c echo.Context, all string, submitted Submitted, dryRun bool) error {
	switch {
	case dryRun:
		c.Response().Header().Set(changeHeader, previewOfChange(submitted))
	case !submitted.Existed:
		ref := task.Ref{Namespace: submitted.Task.Namespace, ID: submitted.Task.ID}
		c.Response().Header().Set(echo.HeaderLocation, location(all, ref))
		return e.server.JSON(c, http.StatusCreated, submitted.Task)
	}
	return e.ok(c, submitted.Task)
}

func (e *endpoints) submissions(dryRun bool) Submissions {
	return Submissions{Control: e.Control, Types: e.Types, DryRun: dryRun}
}

// previewOfChange says what would come of a submission.
func previewOfChange(s Submitted) string {
	switch {
	case s.Task.Once != nil && wire.Value(s.Task.Once.Outcome) == wire.OnceReplaced:
		return "changed"
	case s.Existed:
		return "unchanged"
	}
	return "created"
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
	filter, err := taskFilterOf(params)
	if err != nil {
		return err
	}
	filter.Brief = len(params.Fields) > 0 && !slices.ContainsFunc(params.Fields, isLong)
	ctx, left := leavingOut(c)
	limit := cmp.Or(params.Limit, defaultListLimit)
	page, err := e.Control.ListTasks(ctx, callerOf(c), filter, limit, params.Cursor)
	if err != nil {
		return err
	}
	var counts []wire.StateCount
	missing := page.Missing
	if params.Counts {
		var uncounted string
		if counts, uncounted, err = e.countStates(ctx, callerOf(c), filter); err != nil {
			return err
		}
		missing = cmp.Or(missing, uncounted)
	}
	shown := func(t task.Task) wire.Task { return withFields(e.explained(c, t), params.Fields) }
	return e.ok(c, wire.TaskList{
		Counts: counts, Tasks: each(page.Tasks, shown), NextCursor: wire.Given(page.NextCursor),
		Incomplete: wire.Given(page.NextCursor != "" && len(page.Tasks) < limit),
		Warnings:   warningsOf(left.Texts(), missing),
	})
}

// isLong reports whether a member of a task can be long.
func isLong(f wire.TaskField) bool {
	return f == wire.TaskFieldPayload || f == wire.TaskFieldResult || f == wire.TaskFieldError
}

// withFields is the task with those optional members only; with all, if none is named.
func withFields(t wire.Task, fields []wire.TaskField) wire.Task {
	if len(fields) == 0 {
		return t
	}
	v := reflect.ValueOf(&t).Elem()
	for i := range v.NumField() {
		name, rest, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if rest != "" && !slices.Contains(fields, wire.TaskField(name)) { // it may be left out
			v.Field(i).SetZero()
		}
	}
	return t
}

// countStates are the counts of a list of tasks by state, in the order in which a task passes through the states.
// missing says what they may lack; "" for nothing.
func (e *endpoints) countStates(
	ctx context.Context, who control.Caller, f control.TaskFilter,
) (counts []wire.StateCount, missing string, _ error) {
	found, err := e.Control.CountTasks(ctx, who, f)
	if err != nil {
		return nil, "", err
	}
	for _, state := range task.States {
		if n, asked := found[state]; asked {
			counts = append(counts, wire.StateCount{State: wire.State(state), Count: n.Tasks, More: wire.Given(n.About)})
			missing = cmp.Or(missing, n.Missing)
		}
	}
	return counts, missing, nil
}

// warningsOf adds to warnings which tasks a list may lack.
func warningsOf(texts []string, missing string) []string {
	if missing == "" {
		return texts
	}
	return append(texts, "the list may lack "+missing)
}

// taskFilterOf is the filter of a list of tasks. Errors: CodeInvalid for a parameter.
func taskFilterOf(params ListTasksParams) (control.TaskFilter, error) {
	labels, err := labelsOf(params.Label)
	if err != nil {
		return control.TaskFilter{}, err
	}
	f := control.TaskFilter{
		States: statesOf(params.State), Queue: params.Queue, Type: params.Type, Owner: params.Owner, Node: params.Node,
		Schedule: params.Schedule, Labels: labels, Error: params.Error,
	}
	var r reader
	span := control.TaskSpan{Since: r.time("since", params.Since), Until: r.time("until", params.Until)}
	if r.err != nil {
		return f, r.err
	}
	f.Limit(string(params.Time), span)
	f.Sort, err = control.TaskOrder(string(params.Sort), params.Order == "asc")
	return f, err
}

// GetTask answers GET /v1/tasks/{id}.
func (e *endpoints) GetTask(c echo.Context, id wire.TaskID, _ GetTaskParams) error {
	if err := e.awaitEnd(c.Request().Context(), c, id); err != nil {
		return err
	}
	ctx, left := leavingOut(c)
	t, err := e.Control.GetTask(ctx, callerOf(c), id)
	if texts := left.Texts(); len(texts) > 0 {
		if err != nil { // what would say whether it exists cannot be read
			return task.Errorf(task.CodeUnreadable, "%s", texts[0])
		}
		t.Damage = cmp.Or(t.Damage, texts[0])
	}
	return e.answerTask(c, t, err)
}

// ChangeTask answers PATCH /v1/tasks/{id}.
func (e *endpoints) ChangeTask(c echo.Context, id wire.TaskID, _ ChangeTaskParams) error {
	var in wire.TaskChange
	if err := bind(c, &in); err != nil {
		return err
	}
	change, err := changeOf(in)
	if err != nil {
		return err
	}
	t, err := e.Control.ChangeTask(c.Request().Context(), callerOf(c), id, change)
	return e.answerTask(c, t, err)
}

// CancelTask answers DELETE /v1/tasks/{id}.
func (e *endpoints) CancelTask(c echo.Context, id wire.TaskID, params CancelTaskParams) error {
	if err := e.guardLarge(c, id); err != nil {
		return err
	}
	t, err := e.Control.CancelTask(c.Request().Context(), callerOf(c), id, params.Note)
	return e.answerTask(c, t, err)
}

// MoveTask answers POST /v1/tasks/{id}/move.
func (e *endpoints) MoveTask(c echo.Context, id wire.TaskID, _ MoveTaskParams) error {
	var in wire.TaskMove
	if err := bind(c, &in); err != nil {
		return err
	}
	if err := e.guardLarge(c, id); err != nil {
		return err
	}
	t, err := e.Control.MoveTask(c.Request().Context(), callerOf(c), id, wire.Value(in.To))
	return e.answerTask(c, t, err)
}

// guardLarge refuses a large task as an answer to an address that exceeds its share: see guardShare. Errors:
// CodeOverloaded, those of GetTask.
func (e *endpoints) guardLarge(c echo.Context, id string) error {
	refusal := e.server.CheckShare(c)
	if refusal == nil {
		return nil
	}
	t, err := e.Control.GetTask(c.Request().Context(), callerOf(c), id)
	if err != nil {
		return err
	}
	text, err := json.Marshal(TaskOf(t, e.Types))
	if err == nil && len(text) > edge.SmallAnswer {
		return refusal
	}
	return err
}

// RetryTask answers POST /v1/tasks/{id}/retry.
func (e *endpoints) RetryTask(c echo.Context, id wire.TaskID, _ RetryTaskParams) error {
	t, err := e.Control.RetryTask(c.Request().Context(), callerOf(c), id, time.Time{})
	return e.answerTask(c, t, err)
}

func (e *endpoints) answerTask(c echo.Context, t task.Task, err error) error {
	if err != nil {
		return err
	}
	return e.ok(c, e.explained(c, t))
}

// explained is a task, with the reasons why it waits.
func (e *endpoints) explained(c echo.Context, t task.Task) wire.Task {
	out := TaskOf(t, e.Types)
	out.Warnings = e.Control.WhyWaiting(c.Request().Context(), t)
	return out
}

// ListAttempts answers GET /v1/tasks/{id}/attempts.
func (e *endpoints) ListAttempts(c echo.Context, id wire.TaskID, _ ListAttemptsParams) error {
	ctx, left := leavingOut(c)
	attempts, err := e.Control.Attempts(ctx, callerOf(c), id)
	if err != nil {
		return err
	}
	return e.ok(c, wire.AttemptList{Attempts: each(attempts, attemptOf), Warnings: left.Texts()})
}

// ReportProgress answers POST /v1/tasks/{id}/progress.
func (e *endpoints) ReportProgress(c echo.Context, id wire.TaskID, _ ReportProgressParams) error {
	var in wire.ProgressReport
	if err := bind(c, &in); err != nil {
		return err
	}
	ctx, note := c.Request().Context(), wire.Value(in.Note)
	if err := e.Control.ReportProgress(ctx, callerOf(c), id, in.Attempt, in.Progress, note); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}
