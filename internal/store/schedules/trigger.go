package schedules

import (
	"context"
	"time"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// Trigger runs a schedule by hand, paused or not. now is the time of Redis; it becomes the tick's time and name. The
// entry's outcome is Triggered, or Queued if the run waits for the end of another one.
// Errors: schedule.CodeNotFound; schedule.CodeBusy, if the overlap policy refuses the run; CodeUnavailable.
func (s *Schedules) Trigger(ctx context.Context, ref task.Ref, now time.Time, by string) (Triggered, error) {
	return s.trigger(ctx, ref, now, by, false)
}

// PreviewTrigger returns what Trigger would return, and changes nothing. Errors: those of Trigger.
func (s *Schedules) PreviewTrigger(ctx context.Context, ref task.Ref, now time.Time, by string) (Triggered, error) {
	return s.trigger(ctx, ref, now, by, true)
}

func (s *Schedules) trigger(
	ctx context.Context, ref task.Ref, now time.Time, by string, dry bool,
) (Triggered, error) {
	name := schedule.ManualName(now)
	reply, err := redisx.Run(ctx, s.l.DB, lua.TriggerSchedule{
		Schedule: s.l.KeysOf(ref).Schedule(ref), Member: ref, At: now, By: by, Name: name, Dry: dry,
		Events: s.l.Keys.Events(), Control: s.l.Keys.Control(), Wake: s.l.WakeOf(ref),
	})
	if err != nil {
		return Triggered{}, publicError(err, ref)
	}
	entry := schedule.Entry{
		Name: name, Tick: now.Truncate(time.Millisecond), Outcome: reply.Outcome, Reason: reply.Reason,
		HasTask: reply.Outcome == schedule.Triggered, DecidedAt: reply.Decided, Revision: reply.Revision,
	}
	return Triggered{Entry: entry, Replaces: Replaced{reply.Tasks, reply.Ticks, reply.Examples}}, nil
}

// Backfill creates the tasks of the given ticks and records them in the ledger. Ticks that have a task, or wait for
// their turn, are left alone. The tasks are due one after the other from now on, pace apart. Errors:
// schedule.CodeNotFound, CodeUnavailable.
func (s *Schedules) Backfill(
	ctx context.Context, ref task.Ref, ticks []schedule.Tick, pace time.Duration, by string,
) (Backfilled, error) {
	return s.backfill(ctx, ref, ticks, pace, by, false)
}

// PreviewBackfill returns what Backfill would return, and changes nothing. Errors: those of Backfill.
func (s *Schedules) PreviewBackfill(
	ctx context.Context, ref task.Ref, ticks []schedule.Tick, pace time.Duration, by string,
) (Backfilled, error) {
	return s.backfill(ctx, ref, ticks, pace, by, true)
}

func (s *Schedules) backfill(
	ctx context.Context, ref task.Ref, ticks []schedule.Tick, pace time.Duration, by string, dry bool,
) (Backfilled, error) {
	reason := "asked for"
	if by != "" {
		reason += " by " + by
	}
	past := make([]lua.BackfillSchedulePastTick, len(ticks))
	at := make(map[string]time.Time, len(ticks))
	for i, t := range ticks {
		past[i] = lua.BackfillSchedulePastTick{Tick: t.At, Name: schedule.TickName(t.At)}
		at[past[i].Name] = t.At
	}
	reply, err := redisx.Run(ctx, s.l.DB, lua.BackfillSchedule{
		Schedule: s.l.KeysOf(ref).Schedule(ref), Member: ref, Pace: pace, Reason: reason, Dry: dry,
		Events: s.l.Keys.Events(), Wake: s.l.WakeOf(ref), PastTicks: past,
	})
	if err != nil {
		return Backfilled{}, publicError(err, ref)
	}
	return backfilled(reply, at, pace, reason), nil
}

// backfilled is the result of a backfill of the ticks at, which are times by name.
func backfilled(
	reply lua.BackfillScheduleReply, at map[string]time.Time, pace time.Duration, reason string,
) Backfilled {
	var b Backfilled
	for i, name := range reply.Started {
		b.LastDue = reply.Now.Add(time.Duration(i) * pace)
		b.Entries = append(b.Entries, schedule.Entry{
			Name: name, Tick: at[name], Outcome: schedule.Backfilled, Reason: reason, HasTask: true,
			Late: reply.Now.Sub(at[name]), DecidedAt: reply.Now, Revision: reply.Revision,
		})
	}
	for _, l := range reply.Left {
		b.Left = append(b.Left, LeftTick{Name: l.Name, Tick: at[l.Name], Waits: l.Waits})
	}
	return b
}
