package control

import (
	"context"
	"errors"
	"time"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/schedules"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/why"
)

// putTries is how often a definition is put again if the schedule changed between reading and writing it.
const putTries = 5

// PutOptions says under which conditions a definition is put, and what else happens. The zero value: always. At most one
// of IfMatch, IfExists and IfAbsent is set.
type PutOptions struct {
	IfMatch  int   // the revision to replace; 0: any, or none
	IfExists bool  // replace whatever revision is in force, but do not create
	IfAbsent bool  // create, but do not replace
	Paused   *bool // pause or resume as well; nil: leave it as it is, which for a new schedule is not paused
	DryRun   bool  // check, and return what would come of it, but write nothing
	Faults   error // what the caller knows to be wrong: the definition is refused with it, and all else that is wrong
}

// Put is what came of a definition or, after a dry run, what would come of it.
type Put struct {
	Schedule schedule.Schedule
	Created  bool
	Changed  bool     // it became a new revision; always so if the schedule was created
	Switched bool     // the schedule existed, and was paused or resumed
	Warnings []string // why its tasks may not run, see Submitted; and what may be meant otherwise, see Doubts
}

// PutSchedule creates a schedule in the caller's namespace, or replaces its definition. A definition that is equal to
// the present one changes nothing. Ticks that are due at that moment are still decided by the old definition, so that
// none is lost or runs twice. A dry run returns the same, except for what leaders do in the meantime.
// Errors: CodeInvalid; schedule.CodeChanged, if a condition does not hold; CodeUnavailable while Redis is nearly full; CodeOverloaded.
func (c *Control) PutSchedule(ctx context.Context, who Caller, d schedule.Definition, o PutOptions) (Put, error) {
	d.Namespace = who.Namespace
	p, err := c.begin(ctx, who, "putSchedule", d.Ref)
	if err != nil {
		return Put{}, err
	}
	defer p.leave()
	put, err := c.put(ctx, who, d, o)
	if err != nil {
		return put, err
	}
	put.Warnings = append(c.warnings(ctx, put.Schedule.Task.Type, put.Schedule.Task.Queue), d.Doubts()...)
	of := put.Schedule.Task
	of.Namespace = d.Namespace
	put.Warnings = append(put.Warnings, c.demandWarnings(ctx, of)...)
	put.Warnings = append(put.Warnings, c.outdatedTask(ctx, put)...)
	if !o.DryRun {
		c.noteNamespaces(ctx, d.Namespace)
	}
	return put, nil
}

// put tries to put a definition until the schedule does not change between reading and writing it.
func (c *Control) put(ctx context.Context, who Caller, d schedule.Definition, o PutOptions) (Put, error) {
	d = d.Normalize()
	d.Task = labelled(d.Task)
	if err := task.Join(o.Faults, c.checkSchedule(ctx, d)); err != nil {
		return Put{}, err
	}
	for range putTries {
		put, err := c.putOnce(ctx, who, d, o)
		if !errors.Is(err, schedules.ErrMoved) {
			return put, err
		}
	}
	return Put{}, task.Errorf(schedule.CodeChanged, "schedule %q changed during each of %d tries to replace it: try again", d.ID, putTries)
}

// outdatedTask says that a task of the schedule is tried again by the definition that a put has replaced. It reads nothing
// unless tasks have not ended.
func (c *Control) outdatedTask(ctx context.Context, put Put) []string {
	if put.Created || !put.Changed || put.Schedule.Live == 0 {
		return nil
	}
	again, err := c.store.Schedules.RetryOf(ctx, put.Schedule)
	text := why.OutdatedTask(put.Schedule, again)
	if err != nil || text == "" { // the definition was put: the page of the schedule tells the rest
		return nil
	}
	return []string{text}
}

func (c *Control) checkSchedule(ctx context.Context, d schedule.Definition) error {
	invalid := d.Validate()
	if task.ValidatePayload(d.Task.Payload) != nil { // then its executor could not read it
		return invalid
	}
	t := d.Task
	t.Namespace = d.Namespace
	return task.Join(invalid, schedule.InTask(c.checkContent(ctx, t, len(d.ID)+schedule.TickRoom)))
}

// putOnce reads the schedule and puts a valid definition over it. Error: schedules.ErrMoved, if the schedule changed in between.
func (c *Control) putOnce(ctx context.Context, who Caller, d schedule.Definition, o PutOptions) (Put, error) {
	old, found, now, err := c.store.Schedules.LookUp(ctx, d.Ref)
	if err != nil {
		return Put{}, adviseRepair(err)
	}
	if now.Before(old.Cursor) { // Redis's clock was set back
		now = old.Cursor
	}
	same := found && schedules.Same(old.Definition, d)
	if err := o.allow("schedule", schedule.CodeChanged, d.Ref, old.Revision); err != nil {
		return Put{}, err
	}
	put := Put{Created: !found, Changed: !same, Switched: found && switches(old, o.Paused)}
	if !same {
		if err := checkFires(d, old, now); err != nil {
			return Put{}, err
		}
	}
	switch {
	case o.DryRun:
		put.Schedule, err = c.store.Schedules.CountTasks(ctx, o.preview(d, old, now, who.By()))
	case same:
		put.Schedule, err = c.setPaused(ctx, who, old, o.Paused)
	default:
		put.Schedule, err = c.write(ctx, who, d, o, old.Revision, now)
	}
	return put, err
}

// adviseRepair adds what helps to the error for a schedule that cannot be read, and so cannot be replaced.
func adviseRepair(err error) error {
	why := err.Error()
	switch {
	case redisx.IsDamage(err):
		why = "the schedule cannot be read: its key has the wrong type in Redis"
	case task.CodeOf(err) != task.CodeUnreadable:
		return err
	}
	return task.Errorf(task.CodeUnreadable, "%s: dtsctl doctor --repair puts it aside, then put it again", why)
}

// allow compares the revision in force, 0 for none, with the conditions. kind is what has the revisions, in a word.
// Error: with that code.
func (o PutOptions) allow(kind string, changed task.Code, ref task.Ref, revision int) error {
	switch {
	case o.IfAbsent && revision > 0:
		return task.Errorf(changed, "%s %q exists, at revision %d", kind, ref.ID, revision)
	case o.IfExists && revision == 0:
		return task.Errorf(changed, "there is no %s %q to replace", kind, ref.ID)
	case o.IfMatch > 0 && revision == 0:
		return task.Errorf(changed, "%s %q does not exist, so it is not at revision %d", kind, ref.ID, o.IfMatch)
	case o.IfMatch > 0 && revision != o.IfMatch:
		const message = "%s %q is at revision %d, not %d: read it and try again"
		return task.Errorf(changed, message, kind, ref.ID, revision, o.IfMatch)
	}
	return nil
}

// checkFires checks that a definition ever ticks if it is put over the old one now. Error: CodeInvalid.
func checkFires(d schedule.Definition, old schedule.Schedule, now time.Time) error {
	table, err := schedule.Compile(d.Spec, d.Ref, old.CreatedAt)
	if err != nil {
		return err
	}
	return table.Fires(now)
}

// preview returns the schedule as it would be with a definition.
func (o PutOptions) preview(d schedule.Definition, old schedule.Schedule, now time.Time, by string) schedule.Schedule {
	s := old
	if old.Revision == 0 {
		s.CreatedAt, s.Cursor = now, now
	}
	if old.Revision == 0 || !schedules.Same(old.Definition, d) {
		s.Definition, s.Revision, s.UpdatedAt, s.By, s.EndedAt = d, old.Revision+1, now, by, time.Time{}
	}
	switch {
	case !switches(s, o.Paused):
	case *o.Paused:
		s.PausedAt, s.PausedBy, s.PauseNote = now, by, ""
	default:
		s.PausedAt, s.PausedBy, s.PauseNote, s.Failures = time.Time{}, "", "", 0
	}
	return s
}

func (c *Control) write(
	ctx context.Context, who Caller, d schedule.Definition, o PutOptions, base int, now time.Time,
) (schedule.Schedule, error) {
	written, err := c.store.Schedules.Write(ctx, d, base, now, o.Paused != nil && *o.Paused, who.By())
	if err != nil {
		return schedule.Schedule{}, err
	}
	return c.setPaused(ctx, who, written, o.Paused)
}

// switches says whether a wish to pause (true) or resume (false) changes anything; nil is no wish.
func switches(s schedule.Schedule, pause *bool) bool {
	return pause != nil && *pause == s.PausedAt.IsZero()
}

// setPaused pauses or resumes a schedule that is not as wanted; nil leaves it as it is.
func (c *Control) setPaused(ctx context.Context, who Caller, s schedule.Schedule, pause *bool) (schedule.Schedule, error) {
	switch {
	case !switches(s, pause):
		return c.store.Schedules.CountTasks(ctx, s)
	case *pause:
		return c.store.Schedules.Pause(ctx, s.Ref, "", who.By())
	}
	return c.store.Schedules.Resume(ctx, s.Ref, who.By())
}
