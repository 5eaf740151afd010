package control

import (
	"cmp"
	"context"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
)

// History returns the revisions of a schedule that are kept, newest first; the first one is in force.
// Error: CodeScheduleNotFound.
func (c *Control) History(ctx context.Context, who Caller, id string) ([]schedule.Revision, error) {
	s, _, err := c.store.Schedules.Read(ctx, who.Ref(id))
	if err != nil {
		return nil, err
	}
	earlier, err := c.store.Schedules.History(ctx, s.Ref)
	if err != nil {
		return nil, err
	}
	present := schedule.Revision{
		Number: s.Revision, Definition: s.Definition, Span: schedule.Span{From: s.UpdatedAt, Until: s.EndedAt},
	}
	return append([]schedule.Revision{present}, earlier...), nil
}

// RollbackSchedule puts the definition of an earlier revision again; it becomes a new revision. ifMatch is the revision
// that must be in force; 0: the one that is in force now.
// Errors: CodeScheduleNotFound, CodeRevisionNotFound, CodeScheduleChanged, CodeInvalid.
func (c *Control) RollbackSchedule(ctx context.Context, who Caller, id string, revision, ifMatch int) (Put, error) {
	history, err := c.History(ctx, who, id)
	if err != nil {
		return Put{}, err
	}
	newest, oldest := history[0].Number, history[len(history)-1].Number
	for _, r := range history {
		if r.Number == revision {
			return c.put(ctx, r.Definition, PutOptions{IfMatch: cmp.Or(ifMatch, newest)})
		}
	}
	return Put{}, task.Errorf(task.CodeRevisionNotFound, "revision %d of schedule %q is not kept: revisions %d to %d are", revision, id, oldest, newest)
}

// timeline returns the timetables that decided and decide about the ticks of a schedule.
func (c *Control) timeline(ctx context.Context, s schedule.Schedule) (schedule.Timeline, error) {
	earlier, err := c.store.Schedules.History(ctx, s.Ref)
	if err != nil {
		return nil, err
	}
	return schedule.NewTimeline(s, earlier)
}
