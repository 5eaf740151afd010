package control

import (
	"context"
	"time"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/schedules"
	"github.com/dts-sched/dts/internal/task"
)

// BackfillRange is the past ticks to run, and how fast.
type BackfillRange struct {
	From, Until time.Time     // ticks at these times and between them
	Pace        time.Duration // between the due times of two tasks
}

// Backfilled is the answer to a backfill.
type Backfilled = schedules.Backfilled

// LeftTick is a tick that a backfill leaves alone.
type LeftTick = schedules.LeftTick

// BackfillSchedule runs the ticks of a range that have no task: those that were missed or skipped, and those from before
// the schedule existed. It never runs a tick again. Errors: schedule.CodeNotFound; CodeInvalid for a range that has too
// many ticks, reaches beyond what is decided, or reaches back to what is forgotten; CodeQueueFull; CodeUnavailable while Redis is
// nearly full; CodeOverloaded. A caller with the Key of an earlier request gets what that has run.
func (c *Control) BackfillSchedule(ctx context.Context, who Caller, id string, r BackfillRange) (Backfilled, error) {
	return c.backfill(ctx, who, id, r, c.store.Schedules.Backfill)
}

// PreviewBackfill returns what BackfillSchedule would return, and changes nothing. Errors: those of BackfillSchedule.
func (c *Control) PreviewBackfill(ctx context.Context, who Caller, id string, r BackfillRange) (Backfilled, error) {
	return c.backfill(ctx, who, id, r, c.store.Schedules.PreviewBackfill)
}

// backfill finds the ticks of a range, and does something with them.
func (c *Control) backfill(
	ctx context.Context, who Caller, id string, r BackfillRange,
	do func(context.Context, task.Ref, []schedule.Tick, time.Duration, schedules.Asker) (Backfilled, error),
) (Backfilled, error) {
	p, err := c.begin(ctx, who, "backfillSchedule", who.Ref(id))
	if err != nil {
		return Backfilled{}, err
	}
	defer p.leave()
	s, now, err := c.store.Schedules.Read(ctx, who.Ref(id))
	if err != nil {
		return Backfilled{}, err
	}
	ticks, err := c.backfillTicks(ctx, s, now, r)
	if err != nil || len(ticks) == 0 {
		return Backfilled{}, err
	}
	if err := p.room.enter(ctx, s.Task); err != nil { // for the first; the others are due later
		return Backfilled{}, err
	}
	return do(ctx, s.Ref, ticks, r.Pace, schedules.Asker{By: who.By(), Key: who.Key})
}

// backfillTicks returns the ticks of a range, without the excluded ones. Error: CodeInvalid for the range.
func (c *Control) backfillTicks(ctx context.Context, s schedule.Schedule, now time.Time, r BackfillRange) ([]schedule.Tick, error) {
	line, err := c.timeline(ctx, s)
	if err != nil {
		return nil, err
	}
	line, forgotten := backfillable(line, s, now)
	switch {
	case r.From.After(s.Cursor):
		return nil, task.Invalid("from", "must not be after %s: later ticks are not decided yet", s.Cursor.Format(time.RFC3339Nano))
	case r.Until.Before(r.From):
		return nil, task.Invalid("to", "is before from")
	case r.Until.After(s.Cursor):
		return nil, task.Invalid("to", "must not be after %s: later ticks are not decided yet", s.Cursor.Format(time.RFC3339Nano))
	case !r.From.After(forgotten):
		return nil, task.Invalid("from", "must be after %s: what ran before is forgotten", forgotten.Format(time.RFC3339Nano))
	}
	ticks, more := line.Ticks(r.From.Add(-time.Millisecond), r.Until, schedule.BackfillLimit)
	if more {
		return nil, task.Invalid("to", "there are more than %d ticks from %s on: ask for a shorter range", schedule.BackfillLimit, r.From.Format(time.RFC3339))
	}
	return included(ticks), nil
}

// backfillable returns up to when the ledger or the history has forgotten what ran, and the timeline in which the first
// definition also names the ticks from before the schedule existed, unless the first definition is forgotten. Up to the end of
// a hole of the timeline, nobody knows what ran.
func backfillable(line schedule.Timeline, s schedule.Schedule, now time.Time) (_ schedule.Timeline, forgotten time.Time) {
	forgotten = now.Add(-schedule.LedgerHorizon)
	if s.ForgottenUntil.After(forgotten) {
		forgotten = s.ForgottenUntil
	}
	holes := line.Holes()
	if len(holes) > 0 && holes[len(holes)-1].Until.After(forgotten) {
		forgotten = holes[len(holes)-1].Until
	}
	if first := line[0].From; !first.After(s.CreatedAt) {
		line[0].From = time.Time{}
	} else if first.After(forgotten) {
		forgotten = first
	}
	return line, forgotten
}

// included returns the ticks that no exclusion covers.
func included(ticks []schedule.Tick) []schedule.Tick {
	var in []schedule.Tick
	for _, t := range ticks {
		if !t.Excluded {
			in = append(in, t)
		}
	}
	return in
}
