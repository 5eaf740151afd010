package web

import (
	"html/template"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/status"
	"github.com/dts-sched/dts/internal/task"
)

// mark is how a state of a task is shown.
type mark struct{ Icon, Class string }

// stateMark is the icon and the colour of a state of a task.
func stateMark(t task.Task) mark {
	switch {
	case triesAgain(t):
		return mark{"retry", "t-warn"}
	case t.State == task.Queued:
		return mark{"queued", "t-wait"}
	case t.State == task.Running:
		return mark{"run", "t-run"}
	case t.State == task.Succeeded:
		return mark{"ok", "t-ok"}
	case t.State == task.Failed:
		return mark{"fail", "t-bad"}
	case t.State == task.Cancelled:
		return mark{"cancel", "t-off"}
	}
	return mark{"sched", ""}
}

// reasonMark is the icon and the colour of a reason why something needs somebody, or waits.
func reasonMark(reason any) mark {
	r, needsSomebody := reason.(status.Reason)
	switch {
	case !needsSomebody:
		return mark{"sched", "t-wait"}
	case r.Severity == status.Bad:
		return mark{"fail", "t-bad"}
	}
	return mark{"warn", "t-warn"}
}

// StateName is the state of a task in a word.
func (v *visit) StateName(t task.Task) string {
	switch {
	case triesAgain(t):
		return string(v.T("tries again"))
	case t.State == task.Scheduled && t.Outcome != "":
		return string(v.End(t.Outcome))
	}
	return v.stateName(t.State)
}

// triesAgain reports whether a task waits to be tried again. One that was put off by its handler, interrupted, or moved
// does not: no attempt of it failed just now.
func triesAgain(t task.Task) bool {
	putOff := []task.Outcome{task.OutcomeSnoozed, task.OutcomeInterrupted, task.OutcomeMoved}
	return t.State == task.Scheduled && t.Attempt > 0 && !slices.Contains(putOff, t.Outcome)
}

// stateName is a state in the reader's language.
func (v *visit) stateName(s task.State) string {
	switch s {
	case task.Scheduled:
		return string(v.T("scheduled"))
	case task.Queued:
		return string(v.T("queued"))
	case task.Running:
		return string(v.T("running"))
	case task.Succeeded:
		return string(v.T("succeeded"))
	case task.Failed:
		return string(v.T("failed"))
	case task.Cancelled:
		return string(v.T("cancelled"))
	}
	return string(s)
}

func isState(name string) bool {
	for _, s := range task.States {
		if string(s) == name {
			return true
		}
	}
	return false
}

// When is what happened to a task last, or will, and when.
func (v *visit) When(t task.Task) (w milestone) {
	switch {
	case t.State == task.Running:
		return milestone{string(v.T("began")), t.StartedAt}
	case t.State == task.Queued:
		return milestone{string(v.T("queued")), t.QueuedAt}
	case t.State.Final():
		return milestone{string(v.T("ended")), t.FinishedAt}
	}
	if t.WaitsForAnother() {
		return milestone{What: string(v.T("after another one"))}
	}
	return milestone{string(v.T("due")), t.DueAt}
}

// milestone is what happened to a task, or will, and when.
type milestone struct {
	What string
	At   time.Time // zero if nobody knows when
}

// Ran is how long the newest attempt of a task took, or has taken so far; "" if there was none.
func (v *visit) Ran(t task.Task) string {
	switch {
	case t.StartedAt.IsZero():
		return ""
	case t.State == task.Running:
		return v.Took(max(v.now.Sub(t.StartedAt), 0))
	case t.State.Final():
		return v.Took(max(t.FinishedAt.Sub(t.StartedAt), 0))
	}
	return ""
}

// End is how an attempt has ended, in a word; "running" if it has not.
func (v *visit) End(o task.Outcome) template.HTML {
	switch o {
	case "":
		return v.T("running")
	case task.OutcomeSucceeded:
		return v.T("succeeded")
	case task.OutcomeFailed:
		return v.T("failed")
	case task.OutcomeTimeout:
		return v.T("timeout")
	case task.OutcomeCancelled:
		return v.T("cancelled")
	case task.OutcomeLost:
		return v.T("lost")
	case task.OutcomeSnoozed:
		return v.T("snoozed")
	case task.OutcomeInterrupted:
		return v.T("interrupted")
	case task.OutcomeMoved:
		return v.T("moved")
	}
	return escaped(string(o))
}

// resultMark is the icon and the colour of what became of a tick.
func resultMark(r schedule.Result) mark {
	switch r {
	case schedule.ResultSucceeded:
		return mark{"ok", "t-ok"}
	case schedule.ResultFailed:
		return mark{"fail", "t-bad"}
	case schedule.ResultMissed:
		return mark{"missed", "t-bad"}
	case schedule.ResultSkipped:
		return mark{"skip", "t-warn"}
	case schedule.ResultRunning:
		return mark{"run", "t-run"}
	case schedule.ResultWaiting:
		return mark{"queued", "t-wait"}
	case schedule.ResultUnknown:
		return mark{"info", "t-off"}
	}
	return mark{"cancel", "t-off"}
}

// ResultName is what became of a tick, in a word.
func (v *visit) ResultName(r schedule.Result) string {
	switch r {
	case schedule.ResultSucceeded:
		return string(v.T("succeeded"))
	case schedule.ResultFailed:
		return string(v.T("failed"))
	case schedule.ResultCancelled:
		return string(v.T("cancelled"))
	case schedule.ResultMissed:
		return string(v.T("missed"))
	case schedule.ResultSkipped:
		return string(v.T("skipped (overlap)"))
	case schedule.ResultExcluded:
		return string(v.T("excluded"))
	case schedule.ResultReplaced:
		return string(v.T("replaced"))
	case schedule.ResultRunning:
		return string(v.T("running"))
	case schedule.ResultWaiting:
		return string(v.T("waiting"))
	}
	return string(v.T("not known"))
}

// OutcomeName is what the ledger says of a tick, in a word.
func (v *visit) OutcomeName(o schedule.Outcome) string {
	switch o {
	case schedule.Fired:
		return string(v.T("fired"))
	case schedule.Queued:
		return string(v.T("waits for its turn"))
	case schedule.Triggered:
		return string(v.T("triggered"))
	case schedule.Backfilled:
		return string(v.T("backfilled"))
	}
	return v.ResultName(schedule.Result(o))
}
