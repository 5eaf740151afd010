// Package schedules keeps schedules, their history and their ledgers in Redis. What becomes of their ticks is applied by the
// leader of their partition, in package partition.
package schedules

import (
	"context"
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

// ErrMoved is returned if the schedule has changed since it was read: another revision is in force, or ticks have been
// decided.
var ErrMoved = errors.New("the schedule has changed since it was read")

// Schedules reads and changes the schedules of one installation.
type Schedules struct {
	l *layout.Layout
}

// New returns the schedules of an installation.
func New(l *layout.Layout) *Schedules { return &Schedules{l: l} }

// Same says whether two definitions are equal as they are stored, where what is left out has its default.
func Same(a, b schedule.Definition) bool {
	defA, taskA, errA := codec.EncodeSchedule(a)
	defB, taskB, errB := codec.EncodeSchedule(b)
	return errA == nil && errB == nil && defA == defB && taskA == taskB
}

// Write writes a definition that is valid. base is the revision that it replaces, 0 if there is none yet; it
// counts from the time at on. With paused, the schedule is paused as well. The result has no counts.
// Errors: ErrMoved, if base is not in force any more or ticks after at have been decided; CodeUnavailable.
func (s *Schedules) Write(ctx context.Context, d schedule.Definition, base int, at time.Time, paused bool) (schedule.Schedule, error) {
	def, its, err := codec.EncodeSchedule(d)
	if err != nil {
		return schedule.Schedule{}, err
	}
	k := s.l.KeysOf(d.Ref)
	reply, err := redisx.Run(ctx, s.l.DB, lua.PutSchedule{
		Schedule: k.Schedule(d.Ref), History: k.History(d.Ref), Schedules: k.Schedules(), Ticks: k.Ticks(),
		Member: d.Ref, Base: base, Asked: at, Def: def, Task: its, Pause: paused, Wake: s.l.Keys.Wake(),
	})
	if redisx.RefusedWith(err, lua.CodeChanged, lua.CodeEarly) {
		return schedule.Schedule{}, fmt.Errorf("schedule %s: %w: %w", d.Ref, ErrMoved, err)
	}
	if err != nil {
		return schedule.Schedule{}, scheduleAnswer(err, d.Ref)
	}
	return codec.DecodeSchedule(d.Ref, reply.Schedule)
}

// LookUp reads a schedule without its counts, if it exists, and the time of Redis. Error: CodeUnavailable.
func (s *Schedules) LookUp(ctx context.Context, ref task.Ref) (_ schedule.Schedule, found bool, now time.Time, _ error) {
	pipe := s.l.DB.Pipeline()
	hash, clock := pipe.HGetAll(ctx, string(s.l.KeysOf(ref).Schedule(ref))), pipe.Time(ctx)
	if _, err := pipe.Exec(ctx); err != nil {
		return schedule.Schedule{}, false, now, layout.Unavailable(err)
	}
	now = clock.Val().UTC()
	if len(hash.Val()) == 0 {
		return schedule.Schedule{}, false, now, nil
	}
	is, err := codec.DecodeSchedule(ref, hash.Val())
	return is, true, now, err
}

// Get reads a schedule. Error: CodeScheduleNotFound.
func (s *Schedules) Get(ctx context.Context, ref task.Ref) (schedule.Schedule, error) {
	is, _, err := s.Read(ctx, ref)
	if err != nil {
		return schedule.Schedule{}, err
	}
	return s.CountTasks(ctx, is)
}

// Read reads a schedule without its counts, and the time of Redis.
// Errors: CodeScheduleNotFound, CodeInvalid for the name, CodeUnavailable.
func (s *Schedules) Read(ctx context.Context, ref task.Ref) (schedule.Schedule, time.Time, error) {
	if err := task.ValidateRef(ref); err != nil {
		return schedule.Schedule{}, time.Time{}, err
	}
	is, found, now, err := s.LookUp(ctx, ref)
	if err == nil && !found {
		err = noSchedule(ref)
	}
	return is, now, err
}

// CountTasks returns the schedule with what is counted outside of its hash: how many of its tasks have not ended, and
// how many ticks wait for that. Error: CodeUnavailable.
func (s *Schedules) CountTasks(ctx context.Context, is schedule.Schedule) (schedule.Schedule, error) {
	counted, err := s.countEach(ctx, []schedule.Schedule{is})
	if err != nil {
		return schedule.Schedule{}, err
	}
	return counted[0], nil
}

// countEach adds, in one round trip, how many tasks of each schedule have not ended and how many ticks wait for that.
func (s *Schedules) countEach(ctx context.Context, all []schedule.Schedule) ([]schedule.Schedule, error) {
	if len(all) == 0 {
		return all, nil
	}
	pipe := s.l.DB.Pipeline()
	counts := make([][2]interface{ Val() int64 }, len(all))
	for i, is := range all {
		k := s.l.KeysOf(is.Ref)
		counts[i] = [2]interface{ Val() int64 }{pipe.ZCard(ctx, string(k.Live(is.Ref))), pipe.LLen(ctx, string(k.Waiting(is.Ref)))}
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, layout.Unavailable(err)
	}
	for i, c := range counts {
		all[i].Live, all[i].Waiting = int(c[0].Val()), int(c[1].Val())
	}
	return all, nil
}

// Pause keeps a schedule from creating tasks; note says why. Error: CodeScheduleNotFound.
func (s *Schedules) Pause(ctx context.Context, ref task.Ref, note string) (schedule.Schedule, error) {
	if err := task.ValidateRef(ref); err != nil {
		return schedule.Schedule{}, err
	}
	k := s.l.KeysOf(ref)
	reply, err := redisx.Run(ctx, s.l.DB, lua.PauseSchedule{Schedule: k.Schedule(ref), Ticks: k.Ticks(), Member: ref, Note: note})
	return s.changed(ctx, ref, reply.Schedule, err)
}

// Resume lets a paused schedule go on; what becomes of the ticks in between is the misfire policy's to say.
// Error: CodeScheduleNotFound.
func (s *Schedules) Resume(ctx context.Context, ref task.Ref) (schedule.Schedule, error) {
	if err := task.ValidateRef(ref); err != nil {
		return schedule.Schedule{}, err
	}
	reply, err := redisx.Run(ctx, s.l.DB, lua.ResumeSchedule{Schedule: s.l.KeysOf(ref).Schedule(ref), Member: ref, Wake: s.l.Keys.Wake()})
	return s.changed(ctx, ref, reply.Schedule, err)
}

// changed reads the hash of a schedule that a script has answered with, and adds the counts.
func (s *Schedules) changed(ctx context.Context, ref task.Ref, hash map[string]string, err error) (schedule.Schedule, error) {
	if err != nil {
		return schedule.Schedule{}, scheduleAnswer(err, ref)
	}
	read, err := codec.DecodeSchedule(ref, hash)
	if err != nil {
		return schedule.Schedule{}, err
	}
	return s.CountTasks(ctx, read)
}

// scheduleAnswer translates what a script of schedules refused with.
func scheduleAnswer(err error, ref task.Ref) error {
	var r *redisx.Refusal
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &r):
		return layout.Unavailable(err)
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
