package control

import (
	"context"
	"time"

	"github.com/dts-sched/dts/internal/calls"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/store/schedules"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/why"
)

// WhySchedule says what the next tick of a schedule waits for. If Redis does not answer, that is the reason.
// Errors: CodeScheduleNotFound, CodeInvalid for the id, CodeUnreadable.
func (c *Control) WhySchedule(ctx context.Context, who Caller, id string) (Why, error) {
	ref := who.Ref(id)
	if _, err := c.begin(ctx, who, "whySchedule", ref); err != nil {
		return Why{}, err
	}
	var u unread
	f, err := c.scheduleFacts(ctx, ref, &u)
	if blocked := c.blockedBy(err); blocked != nil {
		return blockedWhy(*blocked), nil
	}
	if err != nil {
		return Why{}, err
	}
	return Why{
		At: f.Now, Now: why.ScheduleNow(f), Reasons: why.OfSchedule(f), Beside: why.BesideSchedule(f), Retry: f.Retry,
		Warnings: u.texts,
	}, nil
}

// scheduleFacts reads what decides what the next tick of a schedule waits for, in three round trips.
// Errors: CodeScheduleNotFound, CodeInvalid for the id, CodeUnavailable, CodeUnreadable.
func (c *Control) scheduleFacts(
	ctx context.Context, ref task.Ref, u *unread,
) (f why.ScheduleFacts, failure error) {
	f.Partition = c.store.PartitionOf(ref)
	calls.Do(
		func() { c.readLeader(ctx, &f.Path, u) },
		func() { failure = c.readSchedule(ctx, ref, &f, u) },
	)
	return f, failure
}

// readSchedule reads a schedule, and all that decides what it waits for but who leads its partition. Errors: those of
// scheduleFacts.
func (c *Control) readSchedule(ctx context.Context, ref task.Ref, f *why.ScheduleFacts, u *unread) error {
	var standing schedules.Standing
	var failure, silent error
	refuses := ""
	calls.Do(
		func() {
			standing, failure = c.store.Schedules.Standing(ctx, ref)
			f.Schedule, f.Live, f.WaitsTick = standing.Schedule, standing.Live(), standing.Waits
		},
		func() { f.Now, silent = c.store.Now(ctx, f.Partition) },
		func() { c.readFleet(ctx, &f.Path, u) },
		func() { refuses = c.store.RefusesWrites(ctx, f.Partition) },
	)
	if failure == nil {
		failure = silent
	}
	if failure != nil {
		return failure
	}
	f.Blocked = blockedByRefusal(refuses)
	c.goVia(&f.Path, f.Schedule.Task.Queue, f.Schedule.Task.Type)
	calls.Do(
		func() { c.readQueue(ctx, &f.Path, "", "", u) },
		func() { c.readForeign(ctx, &f.Path, f.CanRun(f.Type), u) },
		func() { f.Next, failure = c.nextUndecided(ctx, f.Schedule) },
		func() { c.readHolds(ctx, f, u) },
		func() { c.readRetry(ctx, f, standing, u) },
	)
	return failure
}

// readRetry reads which of the tasks of a schedule is tried again.
func (c *Control) readRetry(ctx context.Context, f *why.ScheduleFacts, standing schedules.Standing, u *unread) {
	again, err := c.store.Schedules.Retry(ctx, standing)
	if u.note("whether a task is tried again", err) {
		return
	}
	f.Retry = again
}

// undecidedTicks is how many ticks that are not decided are looked through for the first one that is not excluded.
const undecidedTicks = 1000

// nextUndecided returns the first tick of a schedule that is not decided and not excluded; the zero time if there is
// none. Errors: CodeUnavailable, CodeUnreadable.
func (c *Control) nextUndecided(ctx context.Context, s schedule.Schedule) (time.Time, error) {
	line, err := c.store.Schedules.Timeline(ctx, s)
	if err != nil {
		return time.Time{}, err
	}
	at := s.Cursor
	for range undecidedTicks {
		tick, ok := line.Next(at)
		if !ok {
			break
		}
		if !tick.Excluded {
			return tick.At, nil
		}
		at = tick.At
	}
	next, _ := s.NextTick()
	return next, nil
}

// readHolds reads whether the leader of a schedule holds its ticks back, and why.
func (c *Control) readHolds(ctx context.Context, f *why.ScheduleFacts, u *unread) {
	ref := f.Schedule.Ref
	f.Crowded = c.store.MemoryInUse(ctx, f.Partition) > layout.AlmostFull
	if c.limits == nil {
		return
	}
	if f.Capacity = c.readCapacity(ctx, f.Queue, u); f.Capacity > 0 {
		held, err := c.store.Schedules.HeldBack(ctx, f.Partition, []string{ref.String()})
		f.Full = !u.note("whether ticks are held back", err) && len(held) > 0
	}
}
