// Package schedules keeps schedules, their histories and their ledgers in Redis. Ticks that are due are applied by the
// leader of the schedule's partition, in package partition.
package schedules

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// ErrMoved is returned if the schedule has changed since it was read: another revision is in force, or later ticks have
// been decided. Nothing was written.
var ErrMoved = errors.New("the schedule has changed since it was read")

// ErrNotPaused is returned if a schedule that is to be deleted is not paused. Nothing was deleted.
var ErrNotPaused = errors.New("the schedule is not paused")

// Schedules reads and changes the schedules of one installation.
type Schedules struct {
	l *layout.Layout
}

// New returns the schedules of an installation.
func New(l *layout.Layout) *Schedules { return &Schedules{l: l} }

// Same reports whether two definitions are equal as stored, where fields that are left out have their default.
func Same(a, b schedule.Definition) bool {
	defA, taskA, errA := codec.EncodeSchedule(a)
	defB, taskB, errB := codec.EncodeSchedule(b)
	return errA == nil && errB == nil && defA == defB && taskA == taskB
}

// Write stores a valid definition as a new revision of a schedule, which it creates if base is 0. base is the revision it
// replaces; the new one decides ticks later than at. If paused is true, Write also pauses the schedule. by is who
// puts it, "" if nobody knows. The result has no counts. Errors: ErrMoved, if the revision in force is not base or ticks later than at have been decided;
// CodeUnavailable.
func (s *Schedules) Write(ctx context.Context, d schedule.Definition, base int, at time.Time, paused bool, by string) (schedule.Schedule, error) {
	def, taskDef, err := codec.EncodeSchedule(d)
	if err != nil {
		return schedule.Schedule{}, err
	}
	k := s.l.KeysOf(d.Ref)
	reply, err := redisx.Run(ctx, s.l.DB, lua.PutSchedule{
		Schedule: k.Schedule(d.Ref), History: k.History(d.Ref), Schedules: k.Schedules(), Ticks: k.Ticks(),
		Member: d.Ref, Base: base, Asked: at, Def: def, Task: taskDef, Pause: paused, By: by, Nonce: rand.Text(), Wake: s.l.WakeOf(d.Ref),
		Changes: s.l.Keys.Changes(),
	})
	if redisx.RefusedWith(err, lua.CodeChanged, lua.CodeEarly) {
		return schedule.Schedule{}, fmt.Errorf("schedule %s: %w: %w", d.Ref, ErrMoved, err)
	}
	if err != nil {
		return schedule.Schedule{}, publicError(err, d.Ref)
	}
	return codec.DecodeSchedule(d.Ref, reply.Schedule)
}

// LookUp reads a schedule without its counts, and the time of Redis. found is false if the schedule does not exist.
// Error: CodeUnavailable.
func (s *Schedules) LookUp(ctx context.Context, ref task.Ref) (_ schedule.Schedule, found bool, now time.Time, _ error) {
	var hash map[string]string
	err := s.l.WithNow(ctx, s.l.PartitionOf(ref), &now, func() (err error) {
		if hash, err = s.l.DB.HGetAll(ctx, string(s.l.KeysOf(ref).Schedule(ref))).Result(); err != nil {
			return layout.Unavailable(err)
		}
		return nil
	})
	if err != nil || len(hash) == 0 {
		return schedule.Schedule{}, false, now, err
	}
	sched, err := decode(ref, hash)
	return sched, true, now, err
}

// Decode reads a schedule from what its hash has. Error: CodeUnreadable.
func Decode(ref task.Ref, hash map[string]string) (schedule.Schedule, error) {
	return decode(ref, hash)
}

// decode reads a schedule from all of its hash. Error: CodeUnreadable.
func decode(ref task.Ref, hash map[string]string) (schedule.Schedule, error) {
	s, err := codec.DecodeSchedule(ref, hash)
	switch {
	case err != nil:
		return s, err
	case s.Revision < 1, s.CreatedAt.IsZero(), s.UpdatedAt.IsZero(), task.ValidateType(s.Task.Type) != nil, s.Task.ValidateQueue() != nil:
		return s, task.Errorf(task.CodeUnreadable, "schedule %s cannot be read: a part of it is missing, or is no such thing", ref)
	}
	return s, nil
}

// Get reads a schedule with its counts and with what became of its ticks.
// Errors: schedule.CodeNotFound, CodeInvalid for the name, CodeUnavailable.
func (s *Schedules) Get(ctx context.Context, ref task.Ref) (schedule.Schedule, error) {
	sched, now, err := s.Read(ctx, ref)
	if err != nil {
		return schedule.Schedule{}, err
	}
	one := []schedule.Schedule{sched}
	err = s.follow(ctx, one, RecentOfOne, true, now)
	return one[0], err
}

// Read reads a schedule without its counts, and the time of Redis.
// Errors: schedule.CodeNotFound, CodeInvalid for the name, CodeUnavailable.
func (s *Schedules) Read(ctx context.Context, ref task.Ref) (schedule.Schedule, time.Time, error) {
	if err := task.ValidateRef(ref); err != nil {
		return schedule.Schedule{}, time.Time{}, err
	}
	sched, found, now, err := s.LookUp(ctx, ref)
	if err == nil && !found {
		err = notFound(ref)
	}
	return sched, now, err
}

// CountTasks returns the schedule with its counts, which are not in its hash: Live, the tasks that have not ended, and
// Waiting, the ticks that wait for their end. Under redisx.LeavingOut, a count is 0 if its key has the wrong type.
// Errors: CodeUnavailable, CodeUnreadable.
func (s *Schedules) CountTasks(ctx context.Context, sched schedule.Schedule) (schedule.Schedule, error) {
	k, pipe := s.l.KeysOf(sched.Ref), s.l.DB.Pipeline()
	live, waiting := pipe.ZCard(ctx, string(k.Live(sched.Ref))), pipe.LLen(ctx, string(k.Waiting(sched.Ref)))
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return schedule.Schedule{}, layout.Unavailable(err)
	}
	sched.Live, sched.Waiting = int(live.Val()), int(waiting.Val())
	return sched, nil
}

// Pause keeps a schedule from creating tasks until it is resumed. note says why; "" keeps the note of an earlier pause.
// The result has its counts. Errors: schedule.CodeNotFound, CodeInvalid for the name, CodeUnavailable.
func (s *Schedules) Pause(ctx context.Context, ref task.Ref, note, by string) (schedule.Schedule, error) {
	if err := task.ValidateRef(ref); err != nil {
		return schedule.Schedule{}, err
	}
	k := s.l.KeysOf(ref)
	reply, err := redisx.Run(ctx, s.l.DB, lua.PauseSchedule{
		Schedule: k.Schedule(ref), Ticks: k.Ticks(), Member: ref, Note: note, By: by, Changes: s.l.Keys.Changes(),
	})
	return s.changed(ctx, ref, reply.Schedule, err)
}

// Resume lets a paused schedule create tasks again. The misfire policy decides the ticks of the pause. A schedule that is
// not paused stays as it is. by is who wants it, "" if nobody knows. The result has its counts. Errors:
// schedule.CodeNotFound, CodeInvalid for the name, CodeUnavailable.
func (s *Schedules) Resume(ctx context.Context, ref task.Ref, by string) (schedule.Schedule, error) {
	if err := task.ValidateRef(ref); err != nil {
		return schedule.Schedule{}, err
	}
	reply, err := redisx.Run(ctx, s.l.DB, lua.ResumeSchedule{
		Schedule: s.l.KeysOf(ref).Schedule(ref), Member: ref, By: by, Wake: s.l.WakeOf(ref), Changes: s.l.Keys.Changes(),
	})
	return s.changed(ctx, ref, reply.Schedule, err)
}

// Delete deletes a paused schedule with its ledger and history. Its tasks stay. by is who wants it, "" if nobody knows.
// Errors: ErrNotPaused, schedule.CodeNotFound, CodeUnavailable.
func (s *Schedules) Delete(ctx context.Context, ref task.Ref, by string) error {
	k := s.l.KeysOf(ref)
	_, err := redisx.Run(ctx, s.l.DB, lua.DeleteSchedule{
		Schedule: k.Schedule(ref), Schedules: k.Schedules(), Ticks: k.Ticks(), History: k.History(ref), Live: k.Live(ref),
		Waiting: k.Waiting(ref), Ledger: k.Ledger(ref), Asked: k.Asked(ref), Member: ref, By: by, Changes: s.l.Keys.Changes(),
	})
	if redisx.RefusedWith(err, lua.CodeNotPaused) {
		return fmt.Errorf("schedule %s: %w", ref, ErrNotPaused)
	}
	return publicError(err, ref)
}

// changed decodes the reply of a script that changed a schedule, its hash or err, and adds the counts.
func (s *Schedules) changed(ctx context.Context, ref task.Ref, hash map[string]string, err error) (schedule.Schedule, error) {
	if err != nil {
		return schedule.Schedule{}, publicError(err, ref)
	}
	read, err := codec.DecodeSchedule(ref, hash)
	if err != nil {
		return schedule.Schedule{}, err
	}
	return s.CountTasks(ctx, read)
}

// publicError translates a script's refusal to the code of the API that says the same, and any other failure of Redis to
// CodeUnavailable. nil stays nil.
func publicError(err error, ref task.Ref) error {
	var r *redisx.Refusal
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &r):
		return layout.Unavailable(err)
	case r.Code == lua.CodeNotFound:
		return notFound(ref)
	case r.Code == lua.CodeBusy:
		return task.Errorf(schedule.CodeBusy, "schedule %q does not run now by its overlap policy: %s", ref.ID, r.Detail)
	}
	return fmt.Errorf("schedule %s: %w", ref, err)
}

func notFound(ref task.Ref) error {
	return task.Errorf(schedule.CodeNotFound, "no schedule %q in namespace %q", ref.ID, ref.Namespace)
}
