package schedule

import (
	"fmt"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/printer"
)

// stripLength is how many results a strip shows.
const stripLength = 30

// stripOf returns the strip of the newest results.
func stripOf(recent []wire.TickResult) printer.Strip {
	var strip printer.Strip
	for _, r := range recent[max(0, len(recent)-stripLength):] {
		strip = append(strip, string(r.Result))
	}
	return strip
}

// lastOutcome, lastEnd and lastDuration are of the run that ended last; nil if none is known.
func lastOutcome(s wire.Schedule) any {
	if s.LastRun == nil {
		return nil
	}
	return printer.Status(s.LastRun.Outcome)
}

func lastEnd(s wire.Schedule) any {
	if s.LastRun == nil {
		return nil
	}
	return s.LastRun.EndedAt
}

func lastDuration(s wire.Schedule) any {
	if s.LastRun == nil || s.LastRun.DurationMs == nil {
		return nil
	}
	return time.Duration(*s.LastRun.DurationMs) * time.Millisecond
}

func conditionsOf(s wire.Schedule) any {
	var list printer.List
	for _, c := range s.Conditions {
		list = append(list, string(c))
	}
	return list
}

// retryTime and retryError are of the task that is tried again; nil if there is none.
func retryTime(s wire.Schedule) any {
	if s.Retry == nil {
		return nil
	}
	return s.Retry.DueAt
}

func retryError(s wire.Schedule) any {
	if s.Retry == nil {
		return nil
	}
	return s.Retry.Error
}

// retrySentence says for people when a task is tried again, and why; "" if there is none.
func retrySentence(p *printer.Printer, s wire.Schedule) string {
	r := s.Retry
	switch {
	case r == nil:
		return ""
	case r.DueAt == nil:
		return "tries again now: " + r.Error
	}
	return fmt.Sprintf("tries again %s: %s", p.Relative(r.DueAt.Time), r.Error)
}

// runDetails returns what became of the runs of a schedule. Only people get the legend of the strip.
func runDetails(s wire.Schedule, forPeople bool) []printer.Detail {
	strip := stripOf(s.Recent)
	all := []printer.Detail{
		{Name: "conditions", Value: conditionsOf(s)},
		{Name: "last_run.outcome", Value: lastOutcome(s)},
		{Name: "last_run.ended_at", Value: lastEnd(s)},
		{Name: "last_run.duration", Value: lastDuration(s)},
	}
	if s.LastRun != nil {
		all = append(all,
			printer.Detail{Name: "last_run.attempts", Value: s.LastRun.Attempts},
			printer.Detail{Name: "last_run.task", Value: s.LastRun.Task})
	}
	if r := s.Retry; r != nil {
		all = append(all,
			printer.Detail{Name: "retry.task", Value: r.Task},
			printer.Detail{Name: "retry.attempts", Value: r.Attempts},
			printer.Detail{Name: "retry.due_at", Value: r.DueAt},
			printer.Detail{Name: "retry.error", Value: r.Error})
	}
	all = append(all,
		printer.Detail{Name: "last_success_at", Value: s.LastSuccessAt},
		printer.Detail{Name: "recent", Value: strip})
	if forPeople {
		all = append(all, printer.Detail{Name: "legend", Value: strip.Legend()})
	}
	return all
}
