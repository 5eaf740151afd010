package api

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/definition"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
)

const (
	takeOperation   = "takeAttempts" // waits: see limitTime
	defaultTakeWait = 30 * time.Second
)

// TakeAttempts answers POST /v1/workers/{worker}/take.
func (e *endpoints) TakeAttempts(c echo.Context, worker wire.WorkerID) error {
	var in wire.TakeRequest
	if err := bind(c, &in); err != nil {
		return err
	}
	var r reader
	request := control.TakeRequest{
		ID: wire.Value(in.Request), Limit: cmp.Or(wire.Value(in.Max), 1), Wait: defaultTakeWait,
		Machine: machineFrom(in.Machine),
	}
	if in.Wait != nil {
		request.Wait = r.duration("wait", *in.Wait)
	}
	offer := control.WorkerOffer{
		Types: in.Types, Queues: in.Queues, Capacity: cmp.Or(wire.Value(in.Capacity), request.Limit),
		Lease:  cmp.Or(r.span("lease", wire.Value(in.Lease)), control.DefaultWorkerLease),
		Labels: config.Labels(wire.Value(in.Labels)),
	}
	if len(offer.Queues) == 0 {
		offer.Queues = []string{task.DefaultQueue}
	}
	if r.err != nil {
		return r.err
	}
	leave, err := e.takes.Enter(c)
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := context.WithCancelCause(c.Request().Context())
	defer cancel(nil)
	defer context.AfterFunc(e.server.Stopping(), func() { cancel(control.ErrStopping) })()
	taken, err := e.Control.TakeAttempts(ctx, callerOf(c), worker, offer, request)
	if err != nil {
		return err
	}
	return e.ok(c, wire.TakenList{Attempts: each(taken, takenOf)})
}

func takenOf(t control.Taken) wire.TakenAttempt {
	out := wire.TakenAttempt{
		Namespace: t.Task.Namespace, Task: t.Task.ID, Attempt: t.Task.Attempt, Token: t.Token, Type: t.Task.Type, Queue: t.Task.Queue,
		Payload: t.Task.Payload, Checkpoint: t.Task.Checkpoint, Timeout: task.FormatDuration(t.Timeout), StartedAt: wire.At(t.Task.StartedAt),
		LeaseUntil: wire.At(t.LeaseUntil), IdempotencyKey: new(t.Task.Ref.String()),
		Traceparent: wire.Given(t.Traceparent), Parent: definition.Parent(t.Task.Parent),
	}
	if _, name, ok := schedule.OfTask(t.Task.Ref); ok {
		tick, _, _ := schedule.ParseTickName(name) // zero, and so left out, if it is none
		out.Tick = wire.AtIfAny(tick)
	}
	return out
}

// ExtendAttempts answers POST /v1/workers/{worker}/extend.
func (e *endpoints) ExtendAttempts(c echo.Context, worker wire.WorkerID) error {
	var in wire.ExtendRequest
	if err := bind(c, &in); err != nil {
		return err
	}
	var r reader
	lease := cmp.Or(r.span("lease", wire.Value(in.Lease)), control.DefaultWorkerLease)
	if r.err != nil {
		return r.err
	}
	extension := control.Extension{
		Attempts: each(in.Attempts, heldOf), Lease: lease, Machine: machineFrom(in.Machine),
	}
	extended, err := e.Control.ExtendAttempts(c.Request().Context(), callerOf(c), worker, extension)
	if err != nil {
		return err
	}
	out := wire.ExtendedList{Attempts: make([]wire.ExtendedAttempt, len(extended))}
	for i, a := range extended {
		h := in.Attempts[i]
		out.Attempts[i] = wire.ExtendedAttempt{
			Namespace: h.Namespace, Task: h.Task, Attempt: h.Attempt, Verdict: wire.ExtendedAttemptVerdict(a.Verdict),
			Move: wire.Given(a.Move),
		}
	}
	return e.ok(c, out)
}

func heldOf(h wire.HeldAttempt) control.Held {
	ref := task.Ref{Namespace: cmp.Or(wire.Value(h.Namespace), task.DefaultNamespace), ID: h.Task}
	return control.Held{ID: ref, Attempt: h.Attempt, Token: h.Token}
}

// LeaveWorker answers DELETE /v1/workers/{worker}.
func (e *endpoints) LeaveWorker(c echo.Context, worker wire.WorkerID) error {
	if err := e.Control.LeaveWorker(c.Request().Context(), callerOf(c), worker); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// ReportAttempt answers POST /v1/tasks/{id}/attempts/{number}/report.
func (e *endpoints) ReportAttempt(c echo.Context, id wire.TaskID, number wire.AttemptNumber, _ ReportAttemptParams) error {
	var in wire.AttemptReport
	if err := bind(c, &in); err != nil {
		return err
	}
	report := control.Report{
		Progress: in.Progress, Note: wire.Value(in.Note), Checkpoint: in.Checkpoint, FirstLine: wire.Value(in.FirstLine),
		Rebalance: wire.Value(in.Rebalance), Params: in.Params,
	}
	for _, l := range in.Lines {
		report.Lines = append(report.Lines, control.LogLine{Stream: string(cmp.Or(wire.Value(l.Stream), wire.LineStdout)), Text: l.Text})
	}
	if err := e.Control.ReportAttempt(c.Request().Context(), callerOf(c), id, number, in.Token, report); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// FinishAttempt answers POST /v1/tasks/{id}/attempts/{number}/finish.
func (e *endpoints) FinishAttempt(c echo.Context, id wire.TaskID, number wire.AttemptNumber, _ FinishAttemptParams) error {
	var in wire.AttemptEnd
	if err := bind(c, &in); err != nil {
		return err
	}
	var r reader
	ending := control.AttemptEnding{
		Outcome: task.Outcome(in.Outcome), Result: wire.Value(in.Result), Reason: wire.Value(in.Error), Final: wire.Value(in.Permanent),
		Wait: r.duration("retry_after", wire.Value(in.RetryAfter)), Pause: r.span("pause_keys", wire.Value(in.PauseKeys)),
	}
	if r.err != nil {
		return r.err
	}
	if err := e.Control.FinishAttempt(c.Request().Context(), callerOf(c), id, number, in.Token, ending); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}
