package store

import (
	"context"
	"time"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

var cancelCodes = map[lua.Code]task.Code{lua.CodeNotFound: task.CodeTaskNotFound, lua.CodeState: task.CodeFinished}

// Cancel ends a task that waits, and tells a running one to stop; the answer says which it was. A cancelled
// task may be cancelled again. Errors: CodeTaskNotFound, CodeFinished.
func (s *Store) Cancel(ctx context.Context, ref task.Ref) (task.Task, error) {
	if err := task.ValidateRef(ref); err != nil {
		return task.Task{}, err
	}
	reply, err := redisx.Run(ctx, s.db, lua.Cancel{
		Task: s.partitionOf(ref).Task(ref), Member: ref, Events: s.keys.Events(), Control: s.keys.Control(), Wake: s.keys.Wake(),
	})
	if err != nil {
		return task.Task{}, answer(err, cancelCodes, ref)
	}
	return decodeTask(ref, reply.Task)
}

var retryCodes = map[lua.Code]task.Code{lua.CodeNotFound: task.CodeTaskNotFound, lua.CodeState: task.CodeNotFinished}

// Retry puts a task that has ended back on the wheel, due now, with all of its attempts allowed once more.
// Attempts are counted on, so that every delivery has a name of its own.
// Errors: CodeTaskNotFound, CodeNotFinished.
func (s *Store) Retry(ctx context.Context, ref task.Ref) (task.Task, error) {
	t, err := s.Get(ctx, ref)
	if err != nil {
		return task.Task{}, err
	}
	if !t.State.Final() {
		return task.Task{}, &task.Error{
			Code: task.CodeNotFinished, Message: sentence(task.CodeNotFinished, ref, string(t.State)),
		}
	}
	k := s.partitionOf(ref)
	reply, err := redisx.Run(ctx, s.db, lua.Retry{
		Task: k.Task(ref), Index: k.Index(ref.Namespace, t.State), Expiry: k.Expiry(), Wheel: k.Wheel(),
		Member: ref, State: t.State, Attempts: t.Retry.Attempts(), Tick: tickOf(ref), Events: s.keys.Events(), Wake: s.keys.Wake(),
	})
	if err != nil {
		return task.Task{}, answer(err, retryCodes, ref)
	}
	return decodeTask(ref, reply.Task)
}

var progressCodes = map[lua.Code]task.Code{
	lua.CodeNotFound: task.CodeTaskNotFound, lua.CodeState: task.CodeNotRunning, lua.CodeStale: task.CodeStaleAttempt,
}

// ReportProgress says in the name of whoever runs the attempt how far it is, in percent. It is for the far end
// of an HTTP task, which knows the attempt's number. Errors: CodeInvalid, CodeTaskNotFound, CodeNotRunning,
// CodeStaleAttempt.
func (s *Store) ReportProgress(ctx context.Context, ref task.Ref, attempt, percent int) error {
	if err := task.ValidateRef(ref); err != nil {
		return err
	}
	return s.progress(ctx, ref, attempt, "", percent)
}

func (s *Store) progress(ctx context.Context, ref task.Ref, attempt int, run lua.RunToken, percent int) error {
	if percent < 0 || percent > 100 {
		return task.Invalid("progress", "%d must be 0 to 100", percent)
	}
	_, err := redisx.Run(ctx, s.db, lua.Progress{
		Task: s.partitionOf(ref).Task(ref), Member: ref, Attempt: attempt, Run: run, Progress: percent, Events: s.keys.Events(),
	})
	return answer(err, progressCodes, ref)
}

// warnOfPause says in the log that the end of a task has paused its schedule.
func (s *Store) warnOfPause(ctx context.Context, ref task.Ref, paused bool) {
	if paused {
		id, _, _ := schedule.OfTask(ref)
		s.log.WarnContext(ctx, "paused a schedule: too many of its tasks in a row failed", "namespace", ref.Namespace, "schedule", id)
	}
}

// tickOf is the nominal time of a tick's task; the zero time for any other task.
func tickOf(ref task.Ref) time.Time {
	_, name, ok := schedule.OfTask(ref)
	if !ok {
		return time.Time{}
	}
	tick, _, err := schedule.ParseTickName(name)
	if err != nil {
		return time.Time{}
	}
	return tick
}
