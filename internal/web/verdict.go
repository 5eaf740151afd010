package web

import (
	"html/template"
	"strings"

	"github.com/dts-sched/dts/internal/task"
)

// verdict says in a sentence how a task is.
func (v *visit) verdict(t task.Task) template.HTML {
	switch {
	case t.Damage != "":
		return v.T("Cannot be read: %s", t.Damage)
	case t.State == task.Succeeded:
		return v.T("Succeeded in %s", v.Ran(t))
	case t.State == task.Failed && t.Error != "":
		return v.T("Failed: %s", v.Reason(t.Error))
	case t.State == task.Failed:
		return v.T("Failed")
	case t.Expired() && t.StartBy > 0:
		return v.T("Cancelled, as no worker had begun it within %s after it was due", v.Span(t.StartBy))
	case t.State == task.Cancelled:
		return v.cancelled(t)
	case t.State == task.Running && !t.CancelRequested.IsZero():
		return v.stopping(t)
	case t.State == task.Running:
		return v.T("Runs for %s, attempt %d", v.Ran(t), t.Attempt)
	case t.State == task.Queued:
		return v.T("Waits for a worker")
	}
	return v.waits(t)
}

// waits says in a sentence what a scheduled task waits for.
func (v *visit) waits(t task.Task) template.HTML {
	switch {
	case t.Attempt > 0 && t.Error == "":
		return v.T("Tries again in %s", v.Span(max(t.DueAt.Sub(v.now), 0)))
	case t.Attempt > 0:
		return v.T("Tries again in %s: %s", v.Span(max(t.DueAt.Sub(v.now), 0)), v.Reason(t.Error))
	case t.WaitsForAnother():
		return v.T("Waits until %s has ended", v.after(t))
	case t.DueAt.After(v.now):
		return v.T("Waits until it is due in %s", v.Span(t.DueAt.Sub(v.now)))
	}
	return v.T("Is due, and waits")
}

// Due is when a task is or was due.
func (v *visit) Due(t task.Task) template.HTML {
	if t.WaitsForAnother() {
		return v.T("when %s has ended", v.after(t))
	}
	return v.Time(t.DueAt)
}

// bounded adds to what is said of a task that waits by when a worker must begin it.
func (v *visit) bounded(verdict template.HTML, t task.Task) template.HTML {
	by := t.StartsBy()
	if by.IsZero() || !t.Waiting() {
		return verdict
	}
	return v.T("%s. If no worker begins it by %s, it is cancelled then.", verdict, v.Moment(by))
}

// cancelled says who has cancelled a task, and why, as far as that is kept.
func (v *visit) cancelled(t task.Task) template.HTML {
	reason := v.Reason(strings.TrimSuffix(t.Error, stopped))
	if by, known := askedBy(reason); known {
		if by, note, said := strings.Cut(by, ": "); said {
			return v.T("Cancelled by %s: %s", v.By(by), note)
		}
		return v.T("Cancelled by %s", v.By(by))
	}
	if reason == "" || reason == "cancelled" {
		return v.T("Cancelled")
	}
	return v.T("Cancelled: %s", reason)
}

const (
	cancelledBy = "cancelled by "     // begins the error of a task that was cancelled, before who did it, and why
	stopAskedBy = "asked to stop by " // begins the error of a task that is to stop, before who asks for it, and why
	stopped     = ": cancelled"       // ends it if the attempt was stopped, which everybody knows who reads "Cancelled"
)

// stopping says who has asked a task that runs to stop, and why, as far as that is kept.
func (v *visit) stopping(t task.Task) template.HTML {
	by, known := strings.CutPrefix(v.Reason(t.Error), stopAskedBy)
	if !known {
		return v.T("Runs, and is asked to stop")
	}
	if by, note, said := strings.Cut(by, ": "); said {
		return v.T("Runs, and is asked to stop by %s: %s", v.By(by), note)
	}
	return v.T("Runs, and is asked to stop by %s", v.By(by))
}

// By is who did something, as the API names them: those who gave no name are named in the reader's language.
func (v *visit) By(name string) template.HTML {
	if name == task.NewerSubmission {
		return v.T("a newer submission")
	}
	if address, unnamed := strings.CutPrefix(name, "somebody at "); unnamed {
		return v.T("somebody at %s", address)
	}
	if said, unverified := strings.CutSuffix(name, " (not verified)"); unverified {
		return v.T("%s (not verified)", said)
	}
	return escaped(name)
}

// Why is why a task did not succeed, as much as a row shows.
func (v *visit) Why(t task.Task) template.HTML {
	if t.State == task.Cancelled && t.Error != "" {
		return v.verdict(t)
	}
	return escaped(v.Reason(t.Error))
}

// askedBy is who has cancelled a task or asked it to stop, and their note, as the reason of its end has them. known is
// false if that is not kept.
func askedBy(reason string) (by string, known bool) {
	for _, asked := range []string{cancelledBy, stopAskedBy} {
		if by, known = strings.CutPrefix(reason, asked); known {
			return by, true
		}
	}
	return "", false
}
