package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/store/rules"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
)

// linesLimit is the most log lines in one report.
const linesLimit = 200

// Report is what somebody says of an attempt that runs elsewhere. What is nil is left out.
type Report struct {
	Progress   *int // percent
	Note       string
	Checkpoint json.RawMessage
	// FirstLine is the number of the first line within the attempt, from 1, so that a repeat is harmless; 0 for the
	// next one.
	FirstLine int
	Lines     []LogLine

	Rebalance bool            // the attempt ends as moved when the rest is recorded
	Params    json.RawMessage // with Rebalance: the checkpoint
}

// LogLine is a line of a log.
type LogLine = tasks.Line

// ReportAttempt records a report on a running attempt, which whoever has its token may make. With Rebalance it then
// ends the attempt as moved, as FinishAttempt does. Errors: CodeInvalid, CodeStaleAttempt if the attempt has ended or
// another run has it, CodeUnavailable; a part of the report may have been recorded then.
func (c *Control) ReportAttempt(ctx context.Context, who Caller, id string, attempt int, token string, r Report) error {
	run, err := c.beginReport(ctx, who, "reportAttempt", id, attempt, token)
	if err != nil {
		return err
	}
	if err := r.validate(); err != nil {
		return err
	}
	if !r.Rebalance {
		return recordReport(ctx, run, r)
	}
	if r.Params != nil {
		r.Checkpoint = r.Params
	}
	err = recordReport(ctx, run, r)
	switch {
	case err == nil:
	case task.CodeOf(err) != task.CodeStaleAttempt: // this report may have ended it before
		return err
	case r.Checkpoint != nil && c.store.HasRoutes(): // if not, it was not stored
		return c.endedBefore(ctx, run, task.OutcomeMoved)
	}
	const reason = "moved: its worker gave it up for another one"
	return c.finishRun(ctx, run, AttemptEnding{Outcome: task.OutcomeMoved, Reason: reason})
}

// validate refuses what does not go together. Error: CodeInvalid.
func (r Report) validate() error {
	switch {
	case len(r.Lines) > linesLimit:
		return task.Invalid("lines", "has %d entries, at most %d are allowed", len(r.Lines), linesLimit)
	case r.Note != "" && r.Progress == nil:
		return task.Invalid("note", "needs progress beside it")
	case r.Params != nil && !r.Rebalance:
		return task.Invalid("params", "needs rebalance: true beside it; without that, say checkpoint")
	case r.Params != nil && r.Checkpoint != nil:
		return task.Invalid("params", "stands in place of checkpoint: leave one of them out")
	}
	return nil
}

// recordReport records the parts of a report. Errors: those of ReportAttempt.
func recordReport(ctx context.Context, run *tasks.Run, r Report) error {
	if r.Progress != nil {
		if err := run.Progress(ctx, *r.Progress, r.Note); err != nil {
			return reportError(run, err)
		}
	}
	if r.Checkpoint != nil {
		if err := run.Save(ctx, r.Checkpoint); err != nil {
			return reportError(run, err)
		}
	}
	if len(r.Lines) == 0 {
		return nil
	}
	for i := range r.Lines {
		r.Lines[i].Text = task.Cut(r.Lines[i].Text, task.LogLineLimit)
	}
	return reportError(run, run.Log(ctx, r.FirstLine, r.Lines))
}

// beginReport begins a use case about the run of a task's attempt whose token that is. Errors: those of begin;
// CodeInvalid.
func (c *Control) beginReport(
	ctx context.Context, who Caller, operation, id string, attempt int, token string,
) (*tasks.Run, error) {
	if _, err := c.begin(ctx, who, operation, who.Ref(id)); err != nil {
		return nil, err
	}
	return c.runWith(who.Ref(id), attempt, token)
}

const runsAtOnce = "a task that is %s runs again at once; for later, the outcome is snoozed"

// validateEnding refuses what does not belong to an outcome. Error: CodeInvalid.
func validateEnding(e AttemptEnding) error {
	outcome := e.Outcome
	succeeded, snoozed := outcome == task.OutcomeSucceeded, outcome == task.OutcomeSnoozed
	atOnce := outcome == task.OutcomeInterrupted || outcome == task.OutcomeMoved
	failed := !succeeded && !snoozed && !atOnce && outcome != task.OutcomeCancelled
	for _, rule := range []struct {
		broken      bool
		field, says string
	}{
		{e.Result != "" && !succeeded, "result", "belongs to an attempt that succeeded; say why this one did not in error"},
		{e.Reason != "" && succeeded, "error", "belongs to an attempt that did not succeed"},
		{e.Final && !failed, "permanent", "belongs to an attempt that failed"},
		{e.Wait == 0 && snoozed, "retry_after", "say when a snoozed task is to run again, as 5m"},
		{e.Wait != 0 && atOnce, "retry_after", fmt.Sprintf(runsAtOnce, outcome)},
		{e.Wait != 0 && !failed && !snoozed, "retry_after", "belongs to an attempt that failed"},
		{!isPause(e.Pause), "pause_keys", "must be 1s to 1h"},
	} {
		if rule.broken {
			return task.Invalid(rule.field, "%s", rule.says)
		}
	}
	return nil
}

// isPause reports whether the keys of a task can be paused for that time, or 0 for no pause.
func isPause(d time.Duration) bool { return d == 0 || d >= rules.LeastPause && d <= rules.MostPause }

// AttemptEnding is how an attempt ended, as whoever ran it says.
type AttemptEnding = tasks.Ending

// FinishAttempt ends a running attempt, which whoever has its token may do, and decides what becomes of the task, as
// the node's own workers do. A repeat succeeds and changes nothing, also when the next attempt has begun. Errors:
// CodeInvalid, CodeTaskNotFound, CodeStaleAttempt if the attempt has ended otherwise or another run has it,
// CodeUnavailable.
func (c *Control) FinishAttempt(
	ctx context.Context, who Caller, id string, attempt int, token string, e AttemptEnding,
) error {
	run, err := c.beginReport(ctx, who, "finishAttempt", id, attempt, token)
	if err == nil {
		err = validateEnding(e)
	}
	if err != nil {
		return err
	}
	return c.finishRun(ctx, run, e)
}

// finishRun is FinishAttempt for a use case that has begun.
func (c *Control) finishRun(ctx context.Context, run *tasks.Run, e AttemptEnding) error {
	runs, err := c.completeRun(ctx, run)
	if err != nil {
		return err
	}
	now, err := c.store.Now(ctx, c.store.PartitionOf(run.Task.Ref))
	if err != nil {
		return err
	}
	e.Result, e.Reason = task.Cut(e.Result, task.ResultLimit), task.CutError(e.Reason, task.ErrorLimit)
	e.Timeout, e.Asked = c.types.Timeout(run.Task.Definition), c.wasAskedToMove(run)
	e.Wait = max(e.Wait, e.Pause)
	if runs { // before its end frees its slots
		c.pauseKeys(ctx, run, e)
	}
	end := run.End(e, now, rand.Float64())
	recorded, err := c.store.Tasks.FinishShared(ctx, end)
	for other, ok := e.After(err); ok; other, ok = e.After(err) {
		e, end = other, run.End(other, now, 0)
		recorded, err = c.store.Tasks.FinishShared(ctx, end)
	}
	switch {
	case errors.Is(err, tasks.ErrStale):
		return c.finishedBefore(ctx, run, e.Outcome)
	case err != nil:
		return reportError(run, err)
	case recorded:
		c.noteEnd(run, end, now)
	}
	c.settle(ctx, run, end)
	return nil
}

// wasAskedToMove reports whether somebody asked an attempt to move: its task, or its worker by HTTP with all that it
// runs.
func (c *Control) wasAskedToMove(run *tasks.Run) bool {
	return !run.Task.MoveRequested.IsZero() || c.workers != nil && c.workers.Drains(run.Node())
}

// pauseKeys pauses the limits of a task's keys, if its attempt asks for that. If it fails, the attempt ends as it would
// have.
func (c *Control) pauseKeys(ctx context.Context, run *tasks.Run, e AttemptEnding) {
	if err := c.store.Rules.PauseKeysOf(ctx, run.Task, e.Pause, e.Reason); err != nil {
		c.log.Warn("cannot pause the limit keys of a task",
			"task", run.Task.Ref.String(), "keys", run.Task.LimitKey, "error", err)
	}
}

// completeRun gives a run, of which only the token is known, its task. It returns whether Redis knows that it runs.
// Errors: CodeTaskNotFound, CodeUnavailable.
func (c *Control) completeRun(ctx context.Context, run *tasks.Run) (runs bool, _ error) {
	stored, err := c.store.Tasks.Find(ctx, run.Task.Ref)
	missing := task.CodeOf(err) == task.CodeTaskNotFound
	switch {
	case missing && run.Task.Type != "": // if Redis has lost it, it is restored
		stored = run.Task
	case missing && c.store.MayHaveLost(): // the node that knows it may restore it yet
		return false, &task.Error{Code: task.CodeUnavailable, Message: notRecorded, Err: err}
	case err != nil:
		return false, err
	}
	runs = stored.State == task.Running && stored.Run == run.Task.Run
	run.Task = asRun(stored, run.Task)
	return runs, nil
}

// noteEnd counts an end that this call has recorded, and makes the span of the attempt.
func (c *Control) noteEnd(run *tasks.Run, end tasks.End, now time.Time) {
	if c.workers != nil {
		c.workers.CountEnd(run.Task.Type, end.Outcome, now.Sub(run.Task.StartedAt))
	}
	if !run.Limit.IsZero() { // else a worker of a node makes the span
		c.tracer.Return(run.Task, end.Outcome, end.Reason, now)
	}
}

// writtenAs says how else an attempt may have ended, by how it was reported. Nodes of earlier releases do not know all
// outcomes, and an attempt that may not be put off or moved any more has failed.
var writtenAs = map[task.Outcome][]task.Outcome{
	task.OutcomeInterrupted: {task.OutcomeLost},
	task.OutcomeMoved:       {task.OutcomeInterrupted, task.OutcomeLost, task.OutcomeFailed},
	task.OutcomeSnoozed:     {task.OutcomeFailed},
}

// finishedBefore returns nil if an attempt that does not run has ended with that outcome because of an earlier report
// on the same run: the answer to that was lost. Errors: CodeStaleAttempt, CodeTaskNotFound, CodeUnavailable.
func (c *Control) finishedBefore(ctx context.Context, run *tasks.Run, o task.Outcome) error {
	return c.endedBefore(ctx, run, o, writtenAs[o]...)
}

// endedBefore is finishedBefore for an outcome that may have been written as others.
func (c *Control) endedBefore(ctx context.Context, run *tasks.Run, o task.Outcome, written ...task.Outcome) error {
	attempts, err := c.store.Tasks.Attempts(ctx, run.Task.Ref)
	if err != nil {
		return err
	}
	for _, a := range attempts {
		cancelled := a.Outcome == task.OutcomeCancelled && o != task.OutcomeSucceeded // of a task that was asked to stop
		same := slices.Contains(written, a.Outcome) || a.Outcome == o
		its := a.Number == run.Task.Attempt && a.Node == run.Node() && a.StartedAt.Equal(run.Task.StartedAt)
		if its && (same || cancelled) {
			return nil
		}
	}
	if c.workers != nil {
		c.workers.CountRefused()
	}
	return reportError(run, tasks.ErrStale)
}

// runWith returns the run of a task's attempt whose token that is. If a worker of this node has it, its task is known,
// too. Error: CodeInvalid if it is none of that attempt.
func (c *Control) runWith(ref task.Ref, attempt int, token string) (*tasks.Run, error) {
	run, err := c.store.Tasks.RunWith(ref, attempt, token)
	if err != nil || c.workers == nil {
		return run, err
	}
	if t, known := c.workers.TaskOf(run); known {
		run.Task = asRun(t, run.Task)
	}
	return run, nil
}

// asRun returns a task as it is for a run, of which run has what its token says.
func asRun(stored, run task.Task) task.Task {
	stored.Attempt, stored.Run, stored.QueuedAt, stored.StartedAt = run.Attempt, run.Run, run.QueuedAt, run.StartedAt
	return stored
}

// settle ends the delivery of a run that has ended. If a node's own worker holds it, that one is told.
func (c *Control) settle(ctx context.Context, run *tasks.Run, end tasks.End) {
	if run.Limit.IsZero() {
		c.store.Tasks.TellWorker(ctx, run)
		return
	}
	if c.workers == nil {
		return
	}
	var dead error
	if end.State == task.Failed {
		dead = fmt.Errorf("%w: %s", queue.ErrDeadLetter, end.Reason)
	}
	c.workers.Settle(run, dead)
}

const notRecorded = "the report may not have been recorded: try again"

// reportError is the public form of an error of a report.
func reportError(run *tasks.Run, err error) error {
	var public *task.Error
	switch {
	case err == nil || errors.As(err, &public):
		return err
	case errors.Is(err, tasks.ErrStale), errors.Is(err, tasks.ErrOver):
		const text = "attempt %d of task %q has ended, or another run has it: stop working on it"
		return task.Errorf(task.CodeStaleAttempt, text, run.Task.Attempt, run.Task.ID)
	}
	return &task.Error{Code: task.CodeUnavailable, Message: notRecorded, Err: err}
}
