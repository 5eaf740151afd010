package schedules

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// StartManual runs a schedule by hand, paused or not; now is the time of Redis, after which the tick is named. The
// entry's outcome is Triggered, or Queued if the overlap policy lets it wait.
// Errors: CodeScheduleNotFound; CodeScheduleBusy, if the overlap policy refuses it; CodeUnavailable.
func (s *Schedules) StartManual(ctx context.Context, ref task.Ref, now time.Time) (schedule.Entry, error) {
	name := schedule.ManualName(now)
	reply, err := redisx.Run(ctx, s.l.DB, lua.TriggerSchedule{
		Schedule: s.l.KeysOf(ref).Schedule(ref), Member: ref, At: now, Name: name,
		Events: s.l.Keys.Events(), Control: s.l.Keys.Control(), Wake: s.l.Keys.Wake(),
	})
	if err != nil {
		return schedule.Entry{}, scheduleAnswer(err, ref)
	}
	return schedule.Entry{
		Name: name, Tick: now.Truncate(time.Millisecond), Outcome: reply.Outcome, Reason: reply.Reason,
		HasTask: reply.Outcome == schedule.Triggered, DecidedAt: reply.Decided, Revision: reply.Revision,
	}, nil
}

// Backfill creates the tasks of those ticks that have none, and records them in the ledger; a tick that has run does
// not run again. The tasks are due one after the other, pace apart.
// Errors: CodeScheduleNotFound, CodeUnavailable.
func (s *Schedules) Backfill(ctx context.Context, ref task.Ref, ticks []schedule.Tick, pace time.Duration) (Backfilled, error) {
	past := make([]lua.BackfillSchedulePastTick, len(ticks))
	at := make(map[string]time.Time, len(ticks))
	for i, t := range ticks {
		past[i] = lua.BackfillSchedulePastTick{Tick: t.At, Name: schedule.TickName(t.At)}
		at[past[i].Name] = t.At
	}
	reply, err := redisx.Run(ctx, s.l.DB, lua.BackfillSchedule{
		Schedule: s.l.KeysOf(ref).Schedule(ref), Member: ref, Pace: pace, Events: s.l.Keys.Events(), Wake: s.l.Keys.Wake(), PastTicks: past,
	})
	if err != nil {
		return Backfilled{}, scheduleAnswer(err, ref)
	}
	return backfilled(reply, at), nil
}

func backfilled(reply lua.BackfillScheduleReply, at map[string]time.Time) Backfilled {
	b := Backfilled{Left: len(at) - len(reply.Started)}
	for _, name := range reply.Started {
		b.Entries = append(b.Entries, schedule.Entry{
			Name: name, Tick: at[name], Outcome: schedule.Backfilled, Reason: "asked for", HasTask: true,
			Late: reply.Now.Sub(at[name]), DecidedAt: reply.Now, Revision: reply.Revision,
		})
	}
	return b
}

// ErrNotPaused: the schedule is not paused, so it cannot be removed.
var ErrNotPaused = errors.New("the schedule is not paused")

// Remove deletes a paused schedule with its ledger and history. Its tasks stay.
// Errors: ErrNotPaused, CodeScheduleNotFound, CodeUnavailable.
func (s *Schedules) Remove(ctx context.Context, ref task.Ref) error {
	k := s.l.KeysOf(ref)
	_, err := redisx.Run(ctx, s.l.DB, lua.DeleteSchedule{
		Schedule: k.Schedule(ref), Schedules: k.Schedules(), Ticks: k.Ticks(), History: k.History(ref), Live: k.Live(ref),
		Waiting: k.Waiting(ref), Ledger: k.Ledger(ref), Member: ref,
	})
	if redisx.RefusedWith(err, lua.CodeNotPaused) {
		return fmt.Errorf("schedule %s: %w", ref, ErrNotPaused)
	}
	return scheduleAnswer(err, ref)
}
