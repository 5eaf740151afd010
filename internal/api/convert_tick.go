package api

import (
	"fmt"
	"time"

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
func ledgerOf(id string) func(schedule.Entry) LedgerEntry {
	return func(e schedule.Entry) LedgerEntry {
		return LedgerEntry{
			Tick: formatTime(e.Tick), Outcome: TickOutcome(e.Outcome), Reason: e.Reason, Task: e.TaskID(id),
			LateMs: e.Late.Milliseconds(), DecidedAt: formatTime(e.DecidedAt), Revision: e.Revision,
		}
	}
}

func reportOf(r schedule.Report, id string) AuditReport {
	outcomes := make(map[string]int, len(r.Outcomes))
	for outcome, n := range r.Outcomes {
		outcomes[string(outcome)] = n
	}
	return AuditReport{
		From: formatTime(r.From), To: formatTime(r.Until), Expected: r.Expected, Accounted: r.Accounted, Outcomes: outcomes,
		Gaps: each(r.Gaps, formatTime), Strays: each(r.Strays, ledgerOf(id)), Pending: r.Pending,
		ForgottenUntil: formatTime(r.ForgottenUntil), LostWrites: each(r.Losses, lostWrites), Proved: r.Proved,
		Warnings: r.Warnings,
	}
}

func lostWrites(l schedule.Loss) LostWrites {
	return LostWrites{From: formatTime(l.From), To: formatTime(l.Until)}
}

func revisionOf(r schedule.Revision) Revision {
	return Revision{Revision: r.Number, From: formatTime(r.From), Until: formatTime(r.Until), By: r.By, Definition: saidOf(r.Definition)}
}

func previewOf(p schedule.NextTicks) SchedulePreview {
	zone := p.Location
	if zone == nil {
		zone = time.UTC
	}
	out := SchedulePreview{Timezone: zone.String(), Ticks: each(p.Ticks, upcomingOf(zone))}
	if t := p.Transition; t != nil {
		out.Transition = &ClockChange{
			At: formatTime(t.At), Local: t.At.In(zone).Format(localLayout), Note: t.Note, Ticks: each(t.Ticks, upcomingOf(zone)),
			OffsetBefore: formatOffset(t.Before), OffsetAfter: formatOffset(t.After),
		}
	}
	return out
}

func upcomingOf(zone *time.Location) func(schedule.UpcomingTick) UpcomingTick {
	return func(u schedule.UpcomingTick) UpcomingTick {
		return UpcomingTick{Tick: formatTime(u.Tick), Local: u.Tick.In(zone).Format(localLayout), Excluded: u.Excluded, Note: u.Note}
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

func forecastOf(f schedule.Forecast) Forecast {
	return Forecast{
		From: formatTime(f.From), PerMinute: list(f.PerMinute), Schedules: f.Schedules, Total: f.Total, Hottest: each(f.Hottest, hotOf),
	}
}

func hotOf(h schedule.HotMinute) HotMinute {
	return HotMinute{Minute: formatTime(h.Minute), Fires: h.Fires, Schedules: each(h.Schedules, func(s schedule.HotSchedule) HotSchedule {
		return HotSchedule{ID: s.Ref.ID, Namespace: s.Ref.Namespace, Fires: s.Fires}
	})}
}
