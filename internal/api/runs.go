package api

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/definition"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/workflow"
	"github.com/dts-sched/dts/internal/workflow/graph"
	"github.com/dts-sched/dts/internal/workflow/text"
)

// runsPath is the path of all runs.
const runsPath = "/v1/runs/"

// payloadField is the field of a task that a run has no counterpart of: its parts are fields of the run.
const payloadField = "payload"

// SubmitRun answers POST /v1/runs.
func (e *endpoints) SubmitRun(c echo.Context, params SubmitRunParams) error {
	var in wire.RunSubmission
	if err := bind(c, &in); err != nil {
		return err
	}
	who, err := callerIn(c, wire.Value(in.Namespace))
	if err != nil {
		return err
	}
	in.ID = wire.Given(cmp.Or(wire.Value(in.ID), unquoted(params.IdempotencyKey)))
	d, err := runTask(in)
	if err != nil {
		return task.Join(faultsOf(c), err)
	}
	faults := faultsOf(c)
	submitted, err := e.Control.SubmitRun(c.Request().Context(), who, d, params.DryRun || faults != nil)
	if faults != nil {
		return task.Join(faults, unlessWhole(outsidePayload(err)))
	}
	if err != nil {
		return outsidePayload(err)
	}
	return e.answerSubmission(c, runsPath, e.submissions(params.DryRun).answer(submitted), params.DryRun)
}

// runTask is the task that a run is. Error: CodeInvalid, with the fields.
func runTask(in wire.RunSubmission) (task.Definition, error) {
	payload, err := wire.Encode(struct {
		Workflow   string                     `json:"workflow,omitempty"`
		Definition json.RawMessage            `json:"definition,omitempty"`
		Params     map[string]json.RawMessage `json:"params,omitempty"`
	}{wire.Value(in.Workflow), in.Definition, in.Params})
	if err != nil {
		return task.Definition{}, err
	}
	return definition.Task(wire.Submission{
		ID: in.ID, Type: task.WorkflowType, Payload: payload, RunAt: in.RunAt, Delay: in.Delay, Retention: in.Retention,
		Owner: in.Owner, Labels: in.Labels, OnEnd: in.OnEnd,
	})
}

// outsidePayload names the fields of an error as those of a run, instead of parts of the payload of its task.
func outsidePayload(err error) error {
	var invalid *task.Error
	if !errors.As(err, &invalid) {
		return err
	}
	moved := *invalid
	moved.Field, moved.Others = fieldOfRun(invalid.Field), slices.Clone(invalid.Others)
	for i, other := range moved.Others {
		o := *other
		o.Field = fieldOfRun(other.Field)
		moved.Others[i] = &o
	}
	return &moved
}

// unlessWhole returns an error unless it says that a definition as a whole cannot be read: what does not fit in it is
// known already.
func unlessWhole(err error) error {
	var invalid *task.Error
	if errors.As(err, &invalid) && invalid.Field == "definition" && len(invalid.Others) == 0 {
		return nil
	}
	return err
}

func fieldOfRun(field string) string {
	if field == payloadField { // it is too large, or there is none
		return "definition"
	}
	return strings.TrimPrefix(field, payloadField+".")
}

// ListRuns answers GET /v1/runs.
func (e *endpoints) ListRuns(c echo.Context, params ListRunsParams) error {
	filter, err := taskFilterOf(ListTasksParams{
		State: params.State, Owner: params.Owner, Label: params.Label, Since: params.Since, Until: params.Until,
		Time: params.Time, Sort: params.Sort, Order: params.Order,
	})
	if err != nil {
		return err
	}
	ctx, left := leavingOut(c)
	limit := cmp.Or(params.Limit, defaultListLimit)
	page, err := e.Control.ListRuns(ctx, callerOf(c), filter, limit, params.Cursor)
	if err != nil {
		return err
	}
	shown := func(t task.Task) wire.Task {
		out := e.explained(c, t)
		out.Payload = nil
		if p, begun := page.Progress[t.Ref]; begun {
			out.Run = &wire.RunProgress{Phase: wire.RunPhase(p.Phase), Paused: p.Paused, Steps: p.Steps, Ended: p.Ended()}
		}
		return out
	}
	return e.ok(c, wire.TaskList{
		Tasks: each(page.Tasks, shown), NextCursor: wire.Given(page.NextCursor),
		Incomplete: wire.Given(page.NextCursor != "" && len(page.Tasks) < limit),
		Warnings:   warningsOf(left.Texts(), page.Missing),
	})
}

// GetRun answers GET /v1/runs/{id}.
func (e *endpoints) GetRun(c echo.Context, id wire.RunID, _ GetRunParams) error {
	run, err := e.Control.GetRun(c.Request().Context(), callerOf(c), id)
	return e.answerRun(c, run, err)
}

// PauseRun answers POST /v1/runs/{id}/pause.
func (e *endpoints) PauseRun(c echo.Context, id wire.RunID, _ PauseRunParams) error {
	run, err := e.Control.PauseRun(c.Request().Context(), callerOf(c), id)
	return e.answerRun(c, run, err)
}

// ResumeRun answers POST /v1/runs/{id}/resume.
func (e *endpoints) ResumeRun(c echo.Context, id wire.RunID, _ ResumeRunParams) error {
	run, err := e.Control.ResumeRun(c.Request().Context(), callerOf(c), id)
	return e.answerRun(c, run, err)
}

// CancelRun answers POST /v1/runs/{id}/cancel.
func (e *endpoints) CancelRun(c echo.Context, id wire.RunID, params CancelRunParams) error {
	run, err := e.Control.CancelRun(c.Request().Context(), callerOf(c), id, params.Note)
	return e.answerRun(c, run, err)
}

// SignalRun answers POST /v1/runs/{id}/signals/{name}.
func (e *endpoints) SignalRun(c echo.Context, id wire.RunID, name string, _ SignalRunParams) error {
	var in wire.SignalData
	if err := bind(c, &in); err != nil {
		return err
	}
	run, err := e.Control.SignalRun(c.Request().Context(), callerOf(c), id, name, in.Data)
	return e.answerRun(c, run, err)
}

// ApproveStep answers POST /v1/runs/{id}/steps/{step}/approve.
func (e *endpoints) ApproveStep(c echo.Context, id wire.RunID, step wire.StepID, _ ApproveStepParams) error {
	var in wire.Approval
	if err := bind(c, &in); err != nil {
		return err
	}
	reply := control.Reply{Note: wire.Value(in.Note), Data: in.Data}
	run, err := e.Control.ApproveStep(c.Request().Context(), callerOf(c), id, step, reply)
	return e.answerRun(c, run, err)
}

// RejectStep answers POST /v1/runs/{id}/steps/{step}/reject.
func (e *endpoints) RejectStep(c echo.Context, id wire.RunID, step wire.StepID, _ RejectStepParams) error {
	var in wire.Rejection
	if err := bind(c, &in); err != nil {
		return err
	}
	run, err := e.Control.RejectStep(c.Request().Context(), callerOf(c), id, step, wire.Value(in.Note))
	return e.answerRun(c, run, err)
}

// RerunRun answers POST /v1/runs/{id}/rerun.
func (e *endpoints) RerunRun(c echo.Context, id wire.RunID, _ RerunRunParams) error {
	var in wire.RunAgain
	if err := bind(c, &in); err != nil {
		return err
	}
	run, err := e.Control.RerunRun(c.Request().Context(), callerOf(c), id, in.From, time.Time{})
	return e.answerRun(c, run, err)
}

// AuditRun answers GET /v1/runs/{id}/audit.
func (e *endpoints) AuditRun(c echo.Context, id wire.RunID, _ AuditRunParams) error {
	run, findings, err := e.Control.AuditRun(c.Request().Context(), callerOf(c), id)
	if err != nil {
		return err
	}
	return e.ok(c, wire.RunAudit{
		ID: run.Task.ID, State: wire.State(run.Task.State), Steps: len(run.Steps), Sound: len(findings) == 0,
		Findings: list(findings),
	})
}

// RunGraph answers GET /v1/runs/{id}/graph.
func (e *endpoints) RunGraph(c echo.Context, id wire.RunID, params RunGraphParams) error {
	sections, err := e.Control.RunGraph(c.Request().Context(), callerOf(c), id)
	if err != nil {
		return err
	}
	send := func(drawing string) error {
		header := http.Header{echo.HeaderContentType: {echo.MIMETextPlainCharsetUTF8}}
		return e.server.Send(c, http.StatusOK, header, []byte(drawing))
	}
	switch params.Format {
	case wire.GraphText:
		return send(graph.Text(sections, graph.Options{}))
	case wire.GraphDot:
		return send(graph.DOT(id, sections))
	}
	return e.ok(c, graphOf(sections))
}

func graphOf(sections []graph.Section) wire.RunGraph {
	out := wire.RunGraph{Steps: []wire.GraphStep{}}
	for _, section := range sections {
		for i, place := range graph.Layout(section.Steps) {
			s := section.Steps[i]
			out.Steps = append(out.Steps, wire.GraphStep{
				ID: s.ID, Section: wire.RunSection(section.Name), State: wire.RunStepState(s.State), Needs: s.Needs,
				Layer: place.Layer, Row: place.Row,
			})
		}
	}
	return out
}

func (e *endpoints) answerRun(c echo.Context, run control.Run, err error) error {
	if err != nil {
		return err
	}
	out, err := wireRun(run)
	if err != nil {
		return err
	}
	return e.ok(c, out)
}

// wireRun is a run as the API shows it.
func wireRun(r control.Run) (wire.Run, error) {
	t := r.Task
	out := wire.Run{
		ID: t.ID, Namespace: t.Namespace, State: wire.State(t.State), Attempt: t.Attempt,
		Workflow: wire.Given(r.Workflow), Revision: wire.Given(r.Revision), Waits: wire.Given(r.Waits), Asked: askedOf(r),
		Phase: wire.Given(wire.RunPhase(r.Run.Phase)), Paused: r.Run.Paused, Params: r.Params,
		RunAt: wire.At(t.DueAt), CreatedAt: wire.At(t.CreatedAt), StartedAt: wire.AtIfAny(t.StartedAt),
		FinishedAt: wire.AtIfAny(t.FinishedAt), CancelRequestedAt: wire.AtIfAny(t.CancelRequested),
		Result: wire.Given(t.Result), Error: wire.Given(t.Error), Owner: wire.Given(t.Owner),
		Labels: wire.LabelsOf(t.Labels), Signals: each(r.Run.Signals, signalOf),
	}
	if t.State == task.Running && !r.Run.Begun.IsZero() {
		out.Deadline = new(wire.At(r.Run.Begun.Add(r.Flow.EffectiveDeadline())))
	}
	out.Steps = make([]wire.RunStep, len(r.Steps))
	for i, s := range r.Steps {
		out.Steps[i] = stepOf(s)
		if err := addWait(&out.Steps[i], s); err != nil {
			return out, err
		}
	}
	return out, nil
}

func signalOf(s workflow.Signal) wire.RunSignal {
	return wire.RunSignal{Name: s.Name, Data: s.Data, By: wire.Given(s.By), At: wire.At(s.At)}
}

// addWait says what a step waits for, or has waited for.
func addWait(out *wire.RunStep, s control.RunStep) (err error) {
	if out.Wait, err = text.EncodeWait(s.Wait); err != nil {
		return err
	}
	if s.State == workflow.Waiting {
		out.WaitingSince, out.WaitsUntil = wire.AtIfAny(s.Since), wire.AtIfAny(s.Until)
	}
	if s.Output == "" {
		return nil
	}
	out.Answer = &wire.StepAnswer{}
	return json.Unmarshal([]byte(s.Output), out.Answer)
}

// askedOf returns what was asked of a run that has not ended, and is not done yet.
func askedOf(r control.Run) (asked []string) {
	if r.Task.State.Final() {
		return nil
	}
	for _, line := range r.Asked {
		what, _, _ := strings.Cut(line, " ")
		asked = append(asked, what)
	}
	return asked
}

// stepOf is a step as the API shows it. Its task counts if it was released since the run has begun.
func stepOf(s control.RunStep) wire.RunStep {
	out := wire.RunStep{
		ID: s.ID, Section: wire.RunSection(s.Section), State: wire.RunStepState(s.State), Needs: s.Needs,
		Generation: wire.Given(s.Generation), Reason: wire.Given(s.Why),
		FailureAllowed: wire.Given(s.FailureAllowed()),
	}
	if len(s.Needs) > 0 {
		out.Rule = new(string(s.EffectiveRule()))
	}
	switch t := s.Task; {
	case s.Released > 0 && t != nil:
		out.Task, out.TaskState, out.Attempt = &t.ID, new(wire.State(t.State)), wire.Given(t.Attempt)
		out.StartedAt, out.FinishedAt = wire.AtIfAny(t.StartedAt), wire.AtIfAny(t.FinishedAt)
		out.Error = wire.Given(t.Error)
	case s.State.Final():
		out.FinishedAt = wire.AtIfAny(s.At)
	}
	return out
}
