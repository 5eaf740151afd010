package store

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

// putTries is how often a definition is put again, if the schedule changed between looking and writing.
const putTries = 5

// PutSchedule creates a schedule, or replaces its definition. One that says the same as before changes nothing. Ticks
// that are due by the old definition at that moment are decided by its times still, so that none is lost or doubled.
// A dry run checks and answers the same, but for what leaders do in the meantime, and writes nothing.
// Errors: CodeInvalid; CodeScheduleChanged, if it is not at the revision that was asked for.
func (s *Store) PutSchedule(ctx context.Context, d schedule.Definition, o PutOptions) (Put, error) {
	d = d.Normalize()
	if err := s.validateSchedule(d); err != nil {
		return Put{}, err
	}
	for try := range putTries {
		put, err := s.put(ctx, d, o, try > 0)
		if !redisx.RefusedWith(err, lua.CodeChanged, lua.CodeEarly) {
			return put, err
		}
	}
	return Put{}, &task.Error{Code: task.CodeScheduleChanged, Message: fmt.Sprintf("schedule %q is changed all the time by others", d.ID)}
}

func (s *Store) validateSchedule(d schedule.Definition) error {
	if err := d.Validate(); err != nil {
		return err
	}
	return schedule.InTask(s.types.CheckPayload(d.Task.Type, d.Task.Payload))
}

// put looks and writes once. again says that an earlier try may have done it, and only its answer was lost.
func (s *Store) put(ctx context.Context, d schedule.Definition, o PutOptions, again bool) (Put, error) {
	old, found, now, err := s.look(ctx, d.Ref)
	if err != nil {
		return Put{}, err
	}
	if now.Before(old.Cursor) { // as after Redis's clock was set back
		now = old.Cursor
	}
	same, err := found && sameDefinition(old.Definition, d), error(nil)
	if !same || !again {
		err = o.demand(d.Ref, old.Revision)
	}
	if err != nil {
		return Put{}, err
	}
	result := Put{Created: !found, Changed: again || !same, Switched: found && switches(old, o.Paused)}
	if !same {
		if err := possible(d, old, now); err != nil {
			return Put{}, err
		}
	}
	switch {
	case o.DryRun:
		result.Schedule, err = s.counted(ctx, outlook(d, o, old, now))
	case same:
		result.Schedule, err = s.setPaused(ctx, old, o.Paused)
	default:
		result.Schedule, err = s.write(ctx, d, o, old, now)
	}
	return result, err
}

// demand compares the revision there is, 0 for none, with the one that the caller wants to replace.
func (o PutOptions) demand(ref task.Ref, revision int) error {
	switch {
	case o.IfAbsent && revision > 0:
		return task.Errorf(task.CodeScheduleChanged, "schedule %q exists, at revision %d", ref.ID, revision)
	case o.IfMatch > 0 && revision == 0:
		return task.Errorf(task.CodeScheduleChanged, "schedule %q does not exist, and so is not at revision %d", ref.ID, o.IfMatch)
	case o.IfMatch > 0 && revision != o.IfMatch:
		return task.Errorf(task.CodeScheduleChanged, "schedule %q is at revision %d, not %d: read it and try again", ref.ID, revision, o.IfMatch)
	}
	return nil
}

func sameDefinition(a, b schedule.Definition) bool {
	defA, taskA, errA := encodeSchedule(a)
	defB, taskB, errB := encodeSchedule(b)
	return errA == nil && errB == nil && defA == defB && taskA == taskB
}

// possible says whether a definition ever ticks, if it is put over the old one now.
func possible(d schedule.Definition, old schedule.Schedule, now time.Time) error {
	table, err := schedule.Compile(d.Spec, d.Ref, old.CreatedAt)
	if err != nil {
		return err
	}
	return table.Fires(now)
}

// outlook is the schedule as it would be with a definition.
func outlook(d schedule.Definition, o PutOptions, old schedule.Schedule, now time.Time) schedule.Schedule {
	is := old
	if old.Revision == 0 {
		is.CreatedAt, is.Cursor = now, now
	}
	if old.Revision == 0 || !sameDefinition(old.Definition, d) {
		is.Definition, is.Revision, is.UpdatedAt, is.EndedAt = d, old.Revision+1, now, time.Time{}
	}
	switch {
	case !switches(is, o.Paused):
	case *o.Paused:
		is.PausedAt, is.PauseNote = now, ""
	default:
		is.PausedAt, is.PauseNote, is.Failures = time.Time{}, "", 0
	}
	return is
}

func (s *Store) write(ctx context.Context, d schedule.Definition, o PutOptions, old schedule.Schedule, now time.Time) (schedule.Schedule, error) {
	def, its, err := encodeSchedule(d)
	if err != nil {
		return schedule.Schedule{}, err
	}
	k := s.partitionOf(d.Ref)
	reply, err := redisx.Run(ctx, s.db, lua.PutSchedule{
		Schedule: k.Schedule(d.Ref), History: k.History(d.Ref), Schedules: k.Schedules(), Ticks: k.Ticks(),
		Member: d.Ref, Base: old.Revision, Asked: now, Def: def, Task: its, Pause: o.Paused != nil && *o.Paused, Wake: s.keys.Wake(),
	})
	var refusal *redisx.Refusal
	if err != nil && !errors.As(err, &refusal) {
		err = unavailable(err)
	}
	if err != nil {
		return schedule.Schedule{}, err
	}
	written, err := decodeSchedule(d.Ref, reply.Schedule)
	if err != nil {
		return schedule.Schedule{}, err
	}
	return s.setPaused(ctx, written, o.Paused)
}

// switches says whether a wish to pause or resume changes anything; nil is none.
func switches(is schedule.Schedule, want *bool) bool {
	return want != nil && *want == is.PausedAt.IsZero()
}

// setPaused pauses or resumes a schedule that is not as wanted; nil leaves it as it is.
func (s *Store) setPaused(ctx context.Context, is schedule.Schedule, want *bool) (schedule.Schedule, error) {
	switch {
	case !switches(is, want):
		return s.counted(ctx, is)
	case *want:
		return s.PauseSchedule(ctx, is.Ref, "")
	}
	return s.ResumeSchedule(ctx, is.Ref)
}

// look reads a schedule, if there is one, and Redis's time.
func (s *Store) look(ctx context.Context, ref task.Ref) (_ schedule.Schedule, found bool, now time.Time, _ error) {
	pipe := s.db.Pipeline()
	hash, clock := pipe.HGetAll(ctx, string(s.partitionOf(ref).Schedule(ref))), pipe.Time(ctx)
	if _, err := pipe.Exec(ctx); err != nil {
		return schedule.Schedule{}, false, now, unavailable(err)
	}
	now = clock.Val().UTC()
	if len(hash.Val()) == 0 {
		return schedule.Schedule{}, false, now, nil
	}
	is, err := decodeSchedule(ref, hash.Val())
	return is, true, now, err
}

// GetSchedule reads a schedule. Error: CodeScheduleNotFound.
func (s *Store) GetSchedule(ctx context.Context, ref task.Ref) (schedule.Schedule, error) {
	is, _, err := s.existing(ctx, ref)
	if err != nil {
		return schedule.Schedule{}, err
	}
	return s.counted(ctx, is)
}

// existing reads a schedule without its counts, and Redis's time.
func (s *Store) existing(ctx context.Context, ref task.Ref) (schedule.Schedule, time.Time, error) {
	if err := task.ValidateRef(ref); err != nil {
		return schedule.Schedule{}, time.Time{}, err
	}
	is, found, now, err := s.look(ctx, ref)
	if err == nil && !found {
		err = noSchedule(ref)
	}
	return is, now, err
}

// counted is the schedule with what is counted outside of its hash.
func (s *Store) counted(ctx context.Context, is schedule.Schedule) (schedule.Schedule, error) {
	counted, err := s.countEach(ctx, []schedule.Schedule{is})
	if err != nil {
		return schedule.Schedule{}, err
	}
	return counted[0], nil
}

// countEach adds, in one round trip, how many tasks of each schedule have not ended and how many ticks wait for that.
func (s *Store) countEach(ctx context.Context, all []schedule.Schedule) ([]schedule.Schedule, error) {
	if len(all) == 0 {
		return all, nil
	}
	pipe := s.db.Pipeline()
	counts := make([][2]interface{ Val() int64 }, len(all))
	for i, is := range all {
		k := s.partitionOf(is.Ref)
		counts[i] = [2]interface{ Val() int64 }{pipe.ZCard(ctx, string(k.Live(is.Ref))), pipe.LLen(ctx, string(k.Waiting(is.Ref)))}
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, unavailable(err)
	}
	for i, c := range counts {
		all[i].Live, all[i].Waiting = int(c[0].Val()), int(c[1].Val())
	}
	return all, nil
}

// PauseSchedule keeps a schedule from creating tasks; note says why. Error: CodeScheduleNotFound.
func (s *Store) PauseSchedule(ctx context.Context, ref task.Ref, note string) (schedule.Schedule, error) {
	if len(note) > schedule.NoteLimit {
		return schedule.Schedule{}, task.Invalid("note", "is %d bytes long, at most %d are allowed", len(note), schedule.NoteLimit)
	}
	if err := task.ValidateRef(ref); err != nil {
		return schedule.Schedule{}, err
	}
	k := s.partitionOf(ref)
	reply, err := redisx.Run(ctx, s.db, lua.PauseSchedule{Schedule: k.Schedule(ref), Ticks: k.Ticks(), Member: ref, Note: note})
	return s.changed(ctx, ref, reply.Schedule, err)
}

// ResumeSchedule lets a paused schedule go on; what becomes of the ticks in between is the misfire policy's to say.
// Error: CodeScheduleNotFound.
func (s *Store) ResumeSchedule(ctx context.Context, ref task.Ref) (schedule.Schedule, error) {
	if err := task.ValidateRef(ref); err != nil {
		return schedule.Schedule{}, err
	}
	reply, err := redisx.Run(ctx, s.db, lua.ResumeSchedule{Schedule: s.partitionOf(ref).Schedule(ref), Member: ref, Wake: s.keys.Wake()})
	return s.changed(ctx, ref, reply.Schedule, err)
}

// changed reads the hash of a schedule that a script has answered with.
func (s *Store) changed(ctx context.Context, ref task.Ref, hash map[string]string, err error) (schedule.Schedule, error) {
	if err != nil {
		return schedule.Schedule{}, scheduleAnswer(err, ref)
	}
	is, err := decodeSchedule(ref, hash)
	if err != nil {
		return schedule.Schedule{}, err
	}
	return s.counted(ctx, is)
}

// scheduleAnswer translates what a script of schedules refused with.
func scheduleAnswer(err error, ref task.Ref) error {
	var r *redisx.Refusal
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &r):
		return unavailable(err)
	case r.Code == lua.CodeNotFound:
		return noSchedule(ref)
	case r.Code == lua.CodeBusy:
		return task.Errorf(task.CodeScheduleBusy, "schedule %q does not run now by its overlap policy: %s", ref.ID, r.Detail)
	}
	return fmt.Errorf("schedule %s: %w", ref, err)
}

func noSchedule(ref task.Ref) error {
	return task.Errorf(task.CodeScheduleNotFound, "no schedule %q in namespace %q", ref.ID, ref.Namespace)
}
