package api

import (
	"strconv"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/definition"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
)

// matchOf reads an If-Match of which the document has checked the form: the revision, 0 for none in particular. exists
// says that there must be a revision, whichever it is.
func matchOf(tag wire.IfMatch) (revision int, exists bool) {
	revision, _ = strconv.Atoi(strings.Trim(strings.TrimPrefix(tag, "W/"), `"`))
	return revision, tag == "*"
}

// labelsOf reads selectors of the form name=value.
func labelsOf(selectors []wire.LabelSelector) (map[string]string, error) {
	if len(selectors) == 0 {
		return nil, nil
	}
	labels := make(map[string]string, len(selectors))
	for _, selector := range selectors {
		name, value, _ := strings.Cut(selector, "=")
		if before, given := labels[name]; given && before != value {
			return nil, task.Invalid("label", "%q cannot be %q and %q", name, before, value)
		}
		labels[name] = value
	}
	return labels, nil
}

// scheduleOf is a schedule as the API shows it: what was said, without the defaults, so that it can be edited and
// sent again.
func scheduleOf(s schedule.Schedule) wire.Schedule {
	d := definition.WireSchedule(s.Definition)
	next, _ := s.NextTick() // zero, and so left out, if there is none
	return wire.Schedule{
		ID:             s.ID,
		Namespace:      s.Namespace,
		Cron:           d.Cron,
		Every:          d.Every,
		Specs:          d.Specs,
		Exclude:        d.Exclude,
		Timezone:       d.Timezone,
		StartAt:        d.StartAt,
		EndAt:          d.EndAt,
		MaxRuns:        d.MaxRuns,
		Jitter:         d.Jitter,
		Misfire:        d.Misfire,
		Overlap:        d.Overlap,
		PauseOnFailure: d.PauseOnFailure,
		Owner:          d.Owner,
		Description:    d.Description,
		Labels:         d.Labels,
		Task:           d.Task,
		Revision:       s.Revision,
		CreatedAt:      wire.At(s.CreatedAt),
		UpdatedAt:      wire.At(s.UpdatedAt),
		UpdatedBy:      wire.Given(s.By),
		Cursor:         wire.At(s.Cursor),
		NextAt:         wire.AtIfAny(next),
		Paused:         !s.PausedAt.IsZero(),
		PausedAt:       wire.AtIfAny(s.PausedAt),
		PausedBy:       wire.Given(s.PausedBy),
		PauseNote:      wire.Given(s.PauseNote),
		AfterPause:     wire.Given(afterPause(s)),
		EndedAt:        wire.AtIfAny(s.EndedAt),
		Runs:           s.Runs,
		Failures:       s.Failures,
		Live:           s.Live,
		Waiting:        s.Waiting,
		Conditions:     each(s.Conditions, conditionOf),
		LastRun:        lastRunOf(s),
		LastMissed:     missedOf(s.LastMissed),
		Retry:          retryOf(s.Retry),
		LastSuccessAt:  wire.AtIfAny(s.Track.SucceededAt),
		Recent:         each(s.Recent, tickResultOf(s.ID)),
		Days:           each(s.Track.Days, dayOf),
	}
}

// lastRunOf is the run of a schedule that ended last; nil if none is known.
func lastRunOf(s schedule.Schedule) *wire.LastRun {
	e, ok := s.Track.LastEnd()
	if !ok {
		return nil
	}
	run := wire.LastRun{
		Task: s.ID + "@" + e.Name, Tick: wire.At(e.Tick), Outcome: wire.LastRunOutcome(e.State), Attempts: e.Attempts,
		StartedAt: wire.AtIfAny(e.StartedAt()), EndedAt: wire.At(e.At),
	}
	if e.Ran {
		run.DurationMs = new(e.Took.Milliseconds())
	}
	return &run
}

// missedOf is a tick that was missed; nil for none.
func missedOf(e schedule.Entry) *wire.MissedTick {
	if e.Tick.IsZero() {
		return nil
	}
	return &wire.MissedTick{Tick: wire.At(e.Tick), Reason: wire.Given(e.Reason), DecidedAt: wire.AtIfAny(e.DecidedAt)}
}

// retryOf is a task that is tried again; nil for none.
func retryOf(r schedule.Retry) *wire.ScheduleRetry {
	if r.Task == "" {
		return nil
	}
	return &wire.ScheduleRetry{
		Task: r.Task, Attempts: r.Attempts, EndedAt: wire.At(r.EndedAt), Error: r.Error, DueAt: wire.AtIfAny(r.DueAt),
	}
}

func tickResultOf(id string) func(schedule.TickResult) wire.TickResult {
	return func(r schedule.TickResult) wire.TickResult {
		out := wire.TickResult{Tick: wire.At(r.Tick), Result: wire.RunResult(r.Result), Attempts: wire.Given(r.Attempts)}
		if r.HasTask {
			out.Task = new(id + "@" + r.Name)
		}
		switch {
		case r.Manual:
			out.By = new(wire.TickResultByTrigger)
		case r.Backfill:
			out.By = new(wire.TickResultByBackfill)
		}
		if took, known := r.Took(); known {
			out.DurationMs = new(took.Milliseconds())
		}
		return out
	}
}

func conditionOf(c schedule.Condition) wire.ScheduleCondition { return wire.ScheduleCondition(c) }

func dayOf(d schedule.Day) wire.TickDay {
	return wire.TickDay{
		Date:      d.Date.Format(time.DateOnly),
		Succeeded: d.Counts[schedule.ResultSucceeded], Failed: d.Counts[schedule.ResultFailed],
		Cancelled: d.Counts[schedule.ResultCancelled], Missed: d.Counts[schedule.ResultMissed],
		SkippedOverlap: d.Counts[schedule.ResultSkipped], Excluded: d.Counts[schedule.ResultExcluded],
		Replaced: d.Counts[schedule.ResultReplaced],
	}
}

// afterPause says what becomes of the ticks of a pause; "" for a schedule that is not paused.
func afterPause(s schedule.Schedule) string {
	if s.PausedAt.IsZero() {
		return ""
	}
	return s.Misfire.AfterPause()
}
