package store

import (
	"context"
	"time"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// TriggerSchedule runs a schedule now, by hand, paused or not. The answer's outcome is Triggered, or Queued if the
// overlap policy has it wait. Errors: CodeScheduleNotFound; CodeScheduleBusy, if the overlap policy says no.
func (s *Store) TriggerSchedule(ctx context.Context, ref task.Ref) (schedule.Entry, error) {
	_, now, err := s.existing(ctx, ref)
	if err != nil {
		return schedule.Entry{}, err
	}
	name := schedule.ManualName(now)
	reply, err := redisx.Run(ctx, s.db, lua.TriggerSchedule{
		Schedule: s.partitionOf(ref).Schedule(ref), Member: ref, At: now, Name: name,
		Events: s.keys.Events(), Control: s.keys.Control(), Wake: s.keys.Wake(),
	})
	if err != nil {
		return schedule.Entry{}, scheduleAnswer(err, ref)
	}
	return schedule.Entry{
		Name: name, Tick: now.Truncate(time.Millisecond), Outcome: reply.Outcome, Reason: reply.Reason,
		HasTask: reply.Outcome == schedule.Triggered, DecidedAt: reply.Decided, Revision: reply.Revision,
	}, nil
}

// Backfill runs the past ticks from from to until (both included) that have no task: those that were missed or skipped,
// and those from before the schedule existed. It never runs one again that did run. Their tasks are due one after the
// other, pace apart. Errors: CodeScheduleNotFound; CodeInvalid for a range that is too long, reaches into what is still
// to be decided, or into what the ledger has forgotten.
func (s *Store) Backfill(ctx context.Context, ref task.Ref, from, until time.Time, pace time.Duration) (Backfilled, error) {
	is, now, err := s.existing(ctx, ref)
	if err != nil {
		return Backfilled{}, err
	}
	ticks, err := s.backfillTicks(ctx, is, now, from, until)
	if err != nil || len(ticks) == 0 {
		return Backfilled{}, err
	}
	past := make([]lua.BackfillSchedulePastTick, len(ticks))
	at := make(map[string]time.Time, len(ticks))
	for i, t := range ticks {
		past[i] = lua.BackfillSchedulePastTick{Tick: t.At, Name: schedule.TickName(t.At)}
		at[past[i].Name] = t.At
	}
	reply, err := redisx.Run(ctx, s.db, lua.BackfillSchedule{
		Schedule: s.partitionOf(ref).Schedule(ref), Member: ref, Pace: pace, Events: s.keys.Events(), Wake: s.keys.Wake(), PastTicks: past,
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

// backfillTicks are the ticks of a range, those before the schedule existed by its first definition's times. What the
// ledger or the history has forgotten is out of reach, since nobody could tell what ran.
func (s *Store) backfillTicks(ctx context.Context, is schedule.Schedule, now, from, until time.Time) ([]schedule.Tick, error) {
	line, err := s.line(ctx, is)
	if err != nil {
		return nil, err
	}
	known := now.Add(-schedule.LedgerHorizon)
	if is.KnownFrom.After(known) {
		known = is.KnownFrom
	}
	if first := line[0].From; !first.After(is.CreatedAt) {
		line[0].From = time.Time{}
	} else if first.After(known) {
		known = first
	}
	switch {
	case until.Before(from):
		return nil, task.Invalid("to", "is before from")
	case until.After(is.Cursor):
		return nil, task.Invalid("to", "is after %s, up to which the schedule has decided about its ticks", is.Cursor.Format(time.RFC3339Nano))
	case !from.After(known):
		return nil, task.Invalid("from", "must be after %s: what ran before is forgotten", known.Format(time.RFC3339Nano))
	}
	ticks, more := line.Ticks(from.Add(-time.Millisecond), until, schedule.BackfillLimit)
	if more {
		return nil, task.Invalid("to", "there are more than %d ticks from %s on: ask for a shorter range", schedule.BackfillLimit, from.Format(time.RFC3339))
	}
	return included(ticks), nil
}

// included are the ticks that no exclusion covers.
func included(ticks []schedule.Tick) []schedule.Tick {
	var in []schedule.Tick
	for _, t := range ticks {
		if !t.Excluded {
			in = append(in, t)
		}
	}
	return in
}

// deleteNote is the note of a schedule that is being deleted, should that stop half-way.
const deleteNote = "being deleted"

// DeleteSchedule deletes a schedule with its ledger and history. tasks says what becomes of its tasks that have not
// ended. It pauses the schedule first, so that no new task comes in between; a deletion that failed half-way can be
// asked for again. Error: CodeScheduleNotFound.
func (s *Store) DeleteSchedule(ctx context.Context, ref task.Ref, tasks DeleteTasks) (Deleted, error) {
	var deleted Deleted
	for {
		if _, err := s.PauseSchedule(ctx, ref, deleteNote); err != nil {
			return deleted, err
		}
		var err error
		if deleted, err = s.endTasks(ctx, ref, tasks); err != nil {
			return deleted, err
		}
		if err = s.unschedule(ctx, ref); !redisx.RefusedWith(err, lua.CodeNotPaused) { // somebody has resumed it: once more
			return deleted, scheduleAnswer(err, ref)
		}
	}
}

// unschedule deletes a paused schedule with all that is its own.
func (s *Store) unschedule(ctx context.Context, ref task.Ref) error {
	k := s.partitionOf(ref)
	_, err := redisx.Run(ctx, s.db, lua.DeleteSchedule{
		Schedule: k.Schedule(ref), Schedules: k.Schedules(), Ticks: k.Ticks(), History: k.History(ref), Live: k.Live(ref),
		Waiting: k.Waiting(ref), Ledger: k.Ledger(ref), Member: ref,
	})
	return err
}

// endTasks does with the tasks of a schedule that have not ended what a deletion asks for.
func (s *Store) endTasks(ctx context.Context, ref task.Ref, tasks DeleteTasks) (Deleted, error) {
	var d Deleted
	filter := Filter{Namespace: ref.Namespace, Schedule: ref.ID, States: []task.State{task.Scheduled, task.Queued, task.Running}}
	for cursor := ""; ; {
		page, err := s.List(ctx, filter, scanChunk, cursor)
		if err != nil {
			return d, err
		}
		for _, t := range page.Tasks {
			if tasks == DeleteNone || tasks == DeleteWaiting && t.State == task.Running {
				d.Left++
				continue
			}
			if err := s.end(ctx, t.Ref, &d); err != nil {
				return d, err
			}
		}
		if cursor = page.NextCursor; cursor == "" {
			return d, nil
		}
	}
}

// end cancels a task, unless it has ended by itself, and counts what became of it.
func (s *Store) end(ctx context.Context, ref task.Ref, d *Deleted) error {
	t, err := s.Cancel(ctx, ref)
	code := task.CodeOf(err)
	switch {
	case err == nil && t.State == task.Running:
		d.Stopping++
	case err == nil:
		d.Cancelled++
	case code != task.CodeFinished && code != task.CodeTaskNotFound:
		return err
	}
	return nil
}
