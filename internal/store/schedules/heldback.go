package schedules

import (
	"context"
	"time"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// HeldBack is a schedule whose leader has looked at due ticks and has not decided them, since their queue was full.
type HeldBack struct {
	Ref   task.Ref
	Queue string    // of its tasks
	Since time.Time // the first of these ticks
}

// heldTicks is how many undecided ticks HeldBack looks through for the first one that is not excluded.
const heldTicks = 1000

// HeldBack returns those of some schedules of a partition whose ticks are held back; members are "namespace:id".
// It leaves out what cannot be read, which redisx.LeavingOut notes. It does not look at limits: only a queue that has
// one can be full.
// Error: CodeUnavailable.
func (s *Schedules) HeldBack(ctx context.Context, partition int, members []string) ([]HeldBack, error) {
	ticks := s.l.Keys.Partition(partition).Ticks()
	reply, err := redisx.Run(ctx, s.l.DB, lua.HeldSchedules{Ticks: ticks, Members: members})
	if err != nil {
		return nil, layout.Unavailable(err)
	}
	var all []HeldBack
	for _, held := range reply.Held {
		since, err := s.heldSince(ctx, held)
		if task.CodeOf(err) == task.CodeUnavailable || ctx.Err() != nil {
			return nil, err
		}
		if err != nil {
			redisx.LeaveOut(ctx, "schedule %s: %v", held.Member, err)
		}
		if err != nil || since.IsZero() {
			continue
		}
		ref, _ := task.ParseRef(held.Member) // heldSince has read it
		all = append(all, HeldBack{Ref: ref, Queue: held.Queue, Since: since})
	}
	return all, nil
}

// heldSince returns the first tick that a schedule's leader has seen and not decided; the zero time if there is none.
// Errors: the schedule cannot be read; CodeUnavailable.
func (s *Schedules) heldSince(ctx context.Context, held lua.HeldSchedulesHeld) (time.Time, error) {
	ref, err := task.ParseRef(held.Member)
	if err != nil {
		return time.Time{}, err
	}
	present, err := codec.DecodeSchedule(ref, map[string]string{
		"def": held.Def, "revision": held.Revision, "cursor": held.Cursor, "from": held.From, "created": held.Created,
		"ended": held.Ended,
	})
	if err != nil {
		return time.Time{}, err
	}
	line, err := s.Timeline(ctx, present)
	if err != nil {
		return time.Time{}, err
	}
	ticks, _ := line.Ticks(present.Cursor, held.Look.Add(-time.Millisecond), heldTicks)
	for _, tick := range ticks {
		if !tick.Excluded {
			return tick.At, nil
		}
	}
	return time.Time{}, nil
}

// Timeline returns the timeline of a schedule for ticks after its cursor. It reads the history only if ticks of an
// earlier revision are undecided. Revisions that cannot be read are holes. Errors: a definition cannot be read or does
// not compile; CodeUnavailable.
func (s *Schedules) Timeline(ctx context.Context, present schedule.Schedule) (schedule.Timeline, error) {
	var history []schedule.Revision
	if present.Cursor.Before(present.UpdatedAt) { // ticks up to UpdatedAt have the times of an earlier revision
		var err error
		if history, err = s.History(ctx, present.Ref); err != nil {
			return nil, err
		}
	}
	return schedule.NewTimeline(present, history)
}
