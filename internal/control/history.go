package control

import (
	"cmp"
	"context"
	"strconv"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
)

// history returns the revisions of a schedule that are kept, newest first; the first one is in force.
// Error: schedule.CodeNotFound.
func (c *Control) history(ctx context.Context, ref task.Ref) ([]schedule.Revision, error) {
	s, _, err := c.store.Schedules.Read(ctx, ref)
	if err != nil {
		return nil, err
	}
	earlier, err := c.store.Schedules.History(ctx, s.Ref)
	if err != nil {
		return nil, err
	}
	return append([]schedule.Revision{presentOf(s)}, earlier...), nil
}

// presentOf is the revision of a schedule that is in force.
func presentOf(s schedule.Schedule) schedule.Revision {
	return schedule.Revision{
		Number: s.Revision, Definition: s.Definition, By: s.By, Span: schedule.Span{From: s.UpdatedAt, Until: s.EndedAt},
	}
}

// RevisionPage is a part of the revisions of a schedule.
type RevisionPage struct {
	Revisions  []schedule.Revision
	NextCursor string // "" on the last page
}

// Revisions returns the revisions of a schedule that are kept, newest first, from a cursor on ("": from the one in
// force).
// Errors: schedule.CodeNotFound, CodeInvalid for the cursor.
func (c *Control) Revisions(ctx context.Context, who Caller, id, cursor string) (RevisionPage, error) {
	if _, err := c.begin(ctx, who, "listRevisions", who.Ref(id)); err != nil {
		return RevisionPage{}, err
	}
	s, _, err := c.store.Schedules.Read(ctx, who.Ref(id))
	if err != nil {
		return RevisionPage{}, err
	}
	page, before := RevisionPage{Revisions: []schedule.Revision{presentOf(s)}}, s.Revision
	if cursor != "" {
		page.Revisions = nil
		if before, err = strconv.Atoi(cursor); err != nil || before < 1 {
			return RevisionPage{}, layout.InvalidCursor()
		}
	}
	earlier, more, err := c.store.Schedules.HistoryPage(ctx, s.Ref, s.Revision, before)
	if err != nil {
		return RevisionPage{}, err
	}
	page.Revisions = append(page.Revisions, earlier...)
	if more {
		page.NextCursor = strconv.Itoa(earlier[len(earlier)-1].Number)
	}
	return page, nil
}

// RollbackSchedule puts the definition of an earlier revision again; it becomes a new revision. ifMatch is the
// revision that must be in force; 0: the one that is in force now. Errors: schedule.CodeNotFound,
// schedule.CodeRevisionNotFound, schedule.CodeChanged, CodeInvalid; CodeUnreadable if a revision cannot be read that
// may be this one.
func (c *Control) RollbackSchedule(
	ctx context.Context, who Caller, id string, revision, ifMatch int,
) (Put, error) {
	return c.rollback(ctx, who, id, revision, PutOptions{IfMatch: ifMatch})
}

// PreviewRollback returns what RollbackSchedule would return, and changes nothing. Errors: those of RollbackSchedule.
func (c *Control) PreviewRollback(
	ctx context.Context, who Caller, id string, revision, ifMatch int,
) (Put, error) {
	return c.rollback(ctx, who, id, revision, PutOptions{IfMatch: ifMatch, DryRun: true})
}

// rollback puts the definition of a revision. A zero IfMatch means the revision that is in force now.
func (c *Control) rollback(ctx context.Context, who Caller, id string, revision int, o PutOptions) (Put, error) {
	p, err := c.begin(ctx, who, "rollbackSchedule", who.Ref(id))
	if err != nil {
		return Put{}, err
	}
	defer p.leave()
	d, present, err := c.definitionOf(ctx, who.Ref(id), revision)
	if err != nil {
		return Put{}, err
	}
	o.IfMatch = cmp.Or(o.IfMatch, present)
	put, err := c.put(ctx, who, d, o)
	if err == nil {
		put.Warnings = c.outdatedTask(ctx, put)
	}
	return put, err
}

// definitionOf returns the definition of a revision of a schedule, and which revision is in force. Errors:
// schedule.CodeNotFound, schedule.CodeRevisionNotFound; CodeUnreadable if a revision cannot be read that may be this
// one.
func (c *Control) definitionOf(
	ctx context.Context, ref task.Ref, revision int,
) (_ schedule.Definition, present int, _ error) {
	reading, left := redisx.LeavingOut(ctx)
	history, err := c.history(reading, ref)
	if err != nil {
		if _, _, ofPresent := c.store.Schedules.Read(ctx, ref); ofPresent == nil {
			return schedule.Definition{}, 0, err // of the history: the schedule need not be put again
		}
		return schedule.Definition{}, 0, adviseRepair(err)
	}
	for _, r := range history {
		if r.Number == revision {
			return r.Definition, history[0].Number, nil
		}
	}
	return schedule.Definition{}, 0, noRevision(revision, ref.ID, history, left.Texts())
}

// noRevision is the error for a revision of a schedule that is not among its other ones. unreadable: what was said of
// those that cannot be read.
func noRevision(revision int, id string, others []schedule.Revision, unreadable []string) error {
	newest, oldest := others[0].Number, others[len(others)-1].Number
	switch {
	case len(unreadable) > 0 && revision > 0 && revision < newest:
		return task.Errorf(task.CodeUnreadable, "revision %d of schedule %q cannot be read: %s", revision, id, unreadable[0])
	case oldest < revision && revision < newest:
		const text = "revision %d of schedule %q is lost: its history has the others"
		return task.Errorf(schedule.CodeRevisionNotFound, text, revision, id)
	}
	const text = "revision %d of schedule %q is not kept: revisions %d to %d are"
	return task.Errorf(schedule.CodeRevisionNotFound, text, revision, id, oldest, newest)
}

// timeline returns the timetables that decided and decide about the ticks of a schedule.
func (c *Control) timeline(ctx context.Context, s schedule.Schedule) (schedule.Timeline, error) {
	earlier, err := c.store.Schedules.History(ctx, s.Ref)
	if err != nil {
		return nil, err
	}
	line, err := schedule.NewTimeline(s, earlier)
	if err != nil {
		return nil, unusable(s, err)
	}
	return line, nil
}
