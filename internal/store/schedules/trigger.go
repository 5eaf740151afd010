package schedules

import (
	"cmp"
	"context"
	"time"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// Asker is who asks for runs by hand. The records of the runs keep it.
type Asker struct {
	By  string // "" if nobody knows
	Key string // the same for a request that is sent again; "" for none
}

// by is the asker as reasons have it.
func (a Asker) by() string {
	if a.Key == "" {
		return a.By
	}
	return cmp.Or(a.By, "somebody") + ", key " + a.Key
}

// Trigger runs a schedule by hand, paused or not. now is the time of Redis; it becomes the tick's time and name. The
// entry's outcome is Triggered, or Queued if the run waits for the end of another one.
// If a request of the same key has run it within schedule.AskedFor, its entry is returned.
// Errors: schedule.CodeNotFound; schedule.CodeBusy, if the overlap policy refuses the run; CodeUnavailable.
func (s *Schedules) Trigger(ctx context.Context, ref task.Ref, now time.Time, asker Asker) (Triggered, error) {
	return s.trigger(ctx, ref, now, asker, false)
}

// PreviewTrigger returns what Trigger would return, and changes nothing. Errors: those of Trigger.
func (s *Schedules) PreviewTrigger(ctx context.Context, ref task.Ref, now time.Time, asker Asker) (Triggered, error) {
	return s.trigger(ctx, ref, now, asker, true)
}

func (s *Schedules) trigger(
	ctx context.Context, ref task.Ref, now time.Time, asker Asker, dry bool,
) (Triggered, error) {
	reply, err := redisx.Run(ctx, s.l.DB, lua.TriggerSchedule{
		Schedule: s.l.KeysOf(ref).Schedule(ref), Member: ref, At: now, By: asker.by(), Key: asker.Key,
		Name: schedule.ManualName(now), Dry: dry,
		Events: s.l.Keys.Events(), Control: s.l.Keys.Control(), Wake: s.l.WakeOf(ref),
	})
	if err != nil {
		return Triggered{}, publicError(err, ref)
	}
	entry := schedule.Entry{
		Name: reply.Named, Tick: reply.Asked, Outcome: reply.Outcome, Reason: reply.Reason,
		HasTask: reply.Outcome == schedule.Triggered, DecidedAt: reply.Decided, Revision: reply.Revision,
	}
	return Triggered{Entry: entry, Replaces: Replaced{reply.Tasks, reply.Ticks, reply.Examples}}, nil
}

// Backfill creates the tasks of the given ticks and records them in the ledger. Ticks that have a task, or wait for
// their turn, are left alone. The tasks are due one after the other from now on, pace apart. If a request of the same
// key has created some of them within schedule.AskedFor, these are returned. Errors: schedule.CodeNotFound,
// CodeUnavailable.
func (s *Schedules) Backfill(
	ctx context.Context, ref task.Ref, ticks []schedule.Tick, pace time.Duration, asker Asker,
) (Backfilled, error) {
	return s.backfill(ctx, ref, ticks, pace, asker, false)
}

// PreviewBackfill returns what Backfill would return, and changes nothing. Errors: those of Backfill.
func (s *Schedules) PreviewBackfill(
	ctx context.Context, ref task.Ref, ticks []schedule.Tick, pace time.Duration, asker Asker,
) (Backfilled, error) {
	return s.backfill(ctx, ref, ticks, pace, asker, true)
}

func (s *Schedules) backfill(
	ctx context.Context, ref task.Ref, ticks []schedule.Tick, pace time.Duration, asker Asker, dry bool,
) (Backfilled, error) {
	reason := "asked for"
	if by := asker.by(); by != "" {
		reason += " by " + by
	}
	past := make([]lua.BackfillSchedulePastTick, len(ticks))
	at := make(map[string]time.Time, len(ticks))
	for i, t := range ticks {
		past[i] = lua.BackfillSchedulePastTick{Tick: t.At, Name: schedule.TickName(t.At)}
		at[past[i].Name] = t.At
	}
	reply, err := redisx.Run(ctx, s.l.DB, lua.BackfillSchedule{
		Schedule: s.l.KeysOf(ref).Schedule(ref), Member: ref, Pace: pace, Reason: reason, Key: asker.Key, Dry: dry,
		Events: s.l.Keys.Events(), Wake: s.l.WakeOf(ref), PastTicks: past,
	})
	if err != nil {
		return Backfilled{}, publicError(err, ref)
	}
	return backfilled(reply, at, pace), nil
}

// backfilled is the result of a backfill of the ticks at, which are times by name.
func backfilled(reply lua.BackfillScheduleReply, at map[string]time.Time, pace time.Duration) Backfilled {
	var b Backfilled
	for i, name := range reply.Started {
		b.LastDue = reply.Decided.Add(time.Duration(i) * pace)
		b.Entries = append(b.Entries, schedule.Entry{
			Name: name, Tick: at[name], Outcome: schedule.Backfilled, Reason: reply.Reason, HasTask: true,
			Late: reply.Decided.Sub(at[name]), DecidedAt: reply.Decided, Revision: reply.Revision,
		})
	}
	for _, l := range reply.Left {
		b.Left = append(b.Left, LeftTick{Name: l.Name, Tick: at[l.Name], Waits: l.Waits})
	}
	return b
}
