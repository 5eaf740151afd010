package tasks

import (
	"context"
	"time"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

var changeCodes = map[lua.Code]task.Code{
	lua.CodeNotFound: task.CodeTaskNotFound, lua.CodeState: task.CodeNotWaiting, lua.CodeChanged: task.CodeChanged,
}

// Change replaces the definition of a task, and its due time as due says. The task must be scheduled, or queued for the
// attempt recalled (0 for none): that attempt is then scheduled again, and the caller deletes its delivery. before is the
// definition that the caller read; after must be valid. Errors: CodeTaskNotFound, CodeNotWaiting, CodeUnavailable;
// CodeChanged if the task's definition is neither before nor after.
func (s *Tasks) Change(ctx context.Context, before, after task.Definition, due NewDue, recalled int) (task.Task, error) {
	ref := before.Ref
	old, err := codec.EncodeDefinition(before)
	if err != nil {
		return task.Task{}, err
	}
	def, err := codec.EncodeDefinition(after)
	if err != nil {
		return task.Task{}, err
	}
	var runAt time.Time
	if due.RunAt != nil {
		runAt = *due.RunAt
	}
	k := s.l.KeysOf(ref)
	reply, err := redisx.Run(ctx, s.l.DB, lua.Change{
		Defs: k.Defs(), Member: ref, Before: old, Def: def, RunAt: runAt, Delay: due.Delay, Recalled: recalled,
		Events: s.l.Keys.Events(), Wake: s.l.WakeOf(ref),
	})
	if err != nil {
		return task.Task{}, publicError(err, changeCodes, ref)
	}
	return codec.DecodeTask(ref, recordOf(lua.ReadTasksTask(reply)))
}
