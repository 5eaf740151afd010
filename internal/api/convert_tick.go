package api

import (
	"fmt"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/definition"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
)

// localLayout is how times are answered beside UTC, as a zone's clock shows them.
const localLayout = "2006-01-02T15:04:05.000-07:00"

// creatorOf is the schedule that created a task; "" if none did.
func creatorOf(ref task.Ref) string {
	if id, _, ok := schedule.OfTask(ref); ok {
		return id
	}
	return ""
}

// ledgerOf converts the records of a schedule.
func ledgerOf(id string) func(schedule.Entry) wire.LedgerEntry {
	return func(e schedule.Entry) wire.LedgerEntry {
		return wire.LedgerEntry{
			Tick: wire.At(e.Tick), Outcome: wire.TickOutcome(e.Outcome), Reason: wire.Given(e.Reason),
			Task: wire.Given(e.TaskID(id)), LateMs: e.Late.Milliseconds(), DecidedAt: wire.At(e.DecidedAt), Revision: e.Revision,
		}
	}
}

// runOf converts a run by hand of a schedule.
func runOf(id string, run control.Triggered) wire.LedgerEntry {
	out := ledgerOf(id)(run.Entry)
	if r := run.Replaces; r.Tasks+r.Ticks > 0 {
		out.Replaces = &wire.Replaced{Tasks: r.Tasks, Ticks: r.Ticks, Examples: each(r.Examples, func(name string) string {
			return schedule.Entry{Name: name, HasTask: true}.TaskID(id)
		})}
	}
	return out
}

func backfillOf(id string, b control.Backfilled) wire.BackfillAnswer {
	left := each(b.Left, func(l control.LeftTick) wire.LeftTick {
		return wire.LeftTick{Tick: wire.At(l.Tick), Task: wire.Given(l.TaskID(id))}
	})
	return wire.BackfillAnswer{
		Entries: each(b.Entries, ledgerOf(id)), Left: len(left), LeftAlone: left, LastDueAt: wire.AtIfAny(b.LastDue),
	}
}

func deletionOf(d control.Deleted) wire.ScheduleDeletion {
	return wire.ScheduleDeletion{
		Cancelled: d.Cancelled, Stopping: d.Stopping, Left: d.Left, WaitingTicks: wire.Given(d.Waiting),
		Examples: each(d.Examples, func(t control.DeletedTask) wire.DeletedTask {
			return wire.DeletedTask{ID: t.ID, State: wire.State(t.State), Fate: wire.TaskFate(t.Fate)}
		}),
	}
}

func nextTickOf(t schedule.MergedTick) wire.NextTick {
	return wire.NextTick{
		Tick: wire.At(t.Tick), Local: t.Tick.In(t.Location).Format(localLayout),
		Namespace: t.Ref.Namespace, Schedule: t.Ref.ID, Queue: t.Queue, Type: t.Type, Note: wire.Given(t.Note),
	}
}

func reportOf(r schedule.Report, id string) wire.AuditReport {
	outcomes := make(map[string]int, len(r.Outcomes))
	for outcome, n := range r.Outcomes {
		outcomes[string(outcome)] = n
	}
	return wire.AuditReport{
		From: wire.At(r.From), To: wire.At(r.Until), Expected: r.Expected, Accounted: r.Accounted, Outcomes: outcomes,
		Gaps: each(r.Gaps, wire.At), Strays: each(r.Strays, ledgerOf(id)), Pending: r.Pending,
		ForgottenUntil: wire.AtIfAny(r.ForgottenUntil), LostWrites: each(r.Losses, lostWrites), Proved: r.Proved,
		Warnings: r.Warnings,
	}
}

func lostWrites(l schedule.Loss) wire.LostWrites {
	return wire.LostWrites{From: wire.At(l.From), To: wire.At(l.Until)}
}

func revisionOf(r schedule.Revision) wire.Revision {
	return wire.Revision{
		Revision: r.Number, From: wire.At(r.From), Until: wire.AtIfAny(r.Until), By: wire.Given(r.By),
		Definition: definition.WireSchedule(r.Definition),
	}
}

func previewOf(p schedule.NextTicks) wire.SchedulePreview {
	zone := p.Location
	if zone == nil {
		zone = time.UTC
	}
	out := wire.SchedulePreview{Timezone: zone.String(), Ticks: each(p.Ticks, upcomingOf(zone))}
	if t := p.Transition; t != nil {
		out.Transition = &wire.ClockChange{
			At: wire.At(t.At), Local: t.At.In(zone).Format(localLayout), Note: wire.Given(t.Note),
			Ticks: each(t.Ticks, upcomingOf(zone)), OffsetBefore: formatOffset(t.Before), OffsetAfter: formatOffset(t.After),
		}
	}
	return out
}

func upcomingOf(zone *time.Location) func(schedule.UpcomingTick) wire.UpcomingTick {
	return func(u schedule.UpcomingTick) wire.UpcomingTick {
		return wire.UpcomingTick{
			Tick: wire.At(u.Tick), Local: u.Tick.In(zone).Format(localLayout), Excluded: wire.Given(u.Excluded),
			Note: wire.Given(u.Note),
		}
	}
}

// formatOffset is how far a zone is ahead of UTC, as in +05:30; seconds are there where a zone has some, as most did
// before 1900.
func formatOffset(d time.Duration) string {
	sign := "+"
	if d < 0 {
		sign, d = "-", -d
	}
	hours, minutes, seconds := int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60
	if seconds == 0 {
		return fmt.Sprintf("%s%02d:%02d", sign, hours, minutes)
	}
	return fmt.Sprintf("%s%02d:%02d:%02d", sign, hours, minutes, seconds)
}

func forecastOf(f control.Forecast) wire.Forecast {
	return wire.Forecast{
		From: wire.At(f.From), PerMinute: list(f.PerMinute), Schedules: f.Schedules, Total: f.Total,
		Hottest: each(f.Hottest, hotOf), DelayedPerMinute: list(f.Delayed),
		Coming: each(f.Coming, comingOf), ComingLeftOut: wire.Given(f.LeftOut),
	}
}

func comingOf(c control.Coming) wire.Coming {
	out := wire.Coming{At: wire.At(c.At), Namespace: c.Ref.Namespace}
	if c.Ticks > 0 {
		out.Schedule, out.Ticks = new(c.Ref.ID), new(c.Ticks)
	} else {
		out.Task = new(c.Ref.ID)
	}
	return out
}

func hotOf(h schedule.HotMinute) wire.HotMinute {
	schedules := each(h.Schedules, func(s schedule.HotSchedule) wire.HotSchedule {
		return wire.HotSchedule{ID: s.Ref.ID, Namespace: s.Ref.Namespace, Fires: s.Fires}
	})
	return wire.HotMinute{Minute: wire.At(h.Minute), Fires: h.Fires, Schedules: schedules}
}
