package control

import (
	"context"
	"time"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/schedules"
	"github.com/dts-sched/dts/internal/task"
)

// LedgerFilter narrows a ledger.
type LedgerFilter = schedules.LedgerFilter

// LedgerPage is a part of a ledger.
type LedgerPage = schedules.LedgerPage

// Ledger returns up to limit records of a schedule, newest ticks first, from a cursor on ("": from the start). A page can
// be shorter than limit and not be the last one. Errors: schedule.CodeNotFound, CodeInvalid for the cursor.
func (c *Control) Ledger(ctx context.Context, who Caller, id string, f LedgerFilter, limit int, cursor string) (LedgerPage, error) {
	if _, err := c.begin(ctx, who, "readLedger", who.Ref(id)); err != nil {
		return LedgerPage{}, err
	}
	return c.store.Schedules.Ledger(ctx, who.Ref(id), f, limit, cursor)
}

// AuditSchedule compares the ticks that the schedule's definitions name between two times, both included, with its
// ledger. The zero from means as far back as is known, the zero until means now. What cannot be read is a warning.
// Errors: schedule.CodeNotFound; CodeInvalid for a range that is empty or has too many ticks.
func (c *Control) AuditSchedule(ctx context.Context, who Caller, id string, from, until time.Time) (schedule.Report, error) {
	if _, err := c.begin(ctx, who, "auditSchedule", who.Ref(id)); err != nil {
		return schedule.Report{}, err
	}
	s, now, err := c.store.Schedules.Read(ctx, who.Ref(id))
	if err != nil {
		return schedule.Report{}, err
	}
	if until.IsZero() || until.After(now) {
		until = now
	}
	if from.After(until) {
		return schedule.Report{}, task.Invalid("from", "is after the end of the range, %s", until.Format(time.RFC3339))
	}
	evidence, err := c.evidence(ctx, s, from, until)
	if err != nil {
		return schedule.Report{}, err
	}
	evidence.Now = now
	report, more := schedule.Audit(evidence)
	if more {
		return report, task.Invalid("to", "there are more than %d ticks from %s on: ask for a shorter range", schedule.AuditLimit, evidence.From.Format(time.RFC3339))
	}
	if from.IsZero() && !evidence.ForgottenUntil.IsZero() { // the range was made to fit what is known: say so
		report.ForgottenUntil = evidence.ForgottenUntil
	}
	return report, nil
}

// evidence reads what an audit of a range needs, and narrows the range to what can be known.
func (c *Control) evidence(ctx context.Context, s schedule.Schedule, from, until time.Time) (schedule.Evidence, error) {
	ctx, left := redisx.LeavingOut(ctx)
	line, err := c.timeline(ctx, s)
	if err != nil {
		return schedule.Evidence{}, err
	}
	entries, err := c.store.Schedules.LedgerEntries(ctx, s.Ref, from, until)
	if err != nil {
		return schedule.Evidence{}, err
	}
	forgotten, err := c.forgottenUntil(ctx, s, line) // after the entries: some may have been forgotten in between
	if err != nil {
		return schedule.Evidence{}, err
	}
	losses, err := c.store.Losses(ctx, c.store.PartitionOf(s.Ref))
	if err != nil {
		return schedule.Evidence{}, err
	}
	start := from
	if from.Before(s.CreatedAt) {
		start = s.CreatedAt
	}
	if from.IsZero() && !forgotten.Before(start) {
		start = forgotten.Add(time.Millisecond)
	}
	return schedule.Evidence{
		Timeline: line, Entries: entries, From: start, Until: until, Cursor: s.Cursor, ForgottenUntil: forgotten, Paused: !s.PausedAt.IsZero(),
		Losses: losses, Unreadable: left.Texts(),
	}, nil
}

// forgottenUntil returns up to when the ledger or the history has forgotten what was.
func (c *Control) forgottenUntil(ctx context.Context, s schedule.Schedule, line schedule.Timeline) (time.Time, error) {
	forgotten, err := c.store.Schedules.ForgottenUntil(ctx, s.Ref)
	if err != nil {
		return time.Time{}, err
	}
	if first := line[0].From; first.After(s.CreatedAt) && first.After(forgotten) {
		forgotten = first
	}
	return forgotten, nil
}
