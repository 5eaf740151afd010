package tasks

import (
	"context"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

var progressCodes = map[lua.Code]task.Code{
	lua.CodeNotFound: task.CodeTaskNotFound, lua.CodeState: task.CodeNotRunning, lua.CodeStale: task.CodeStaleAttempt,
}

// ReportProgress says in the name of whoever runs the attempt how far it is, in percent. It is for the far end
// of an HTTP task, which knows the attempt's number. Errors: CodeInvalid, CodeTaskNotFound, CodeNotRunning,
// CodeStaleAttempt.
func (s *Tasks) ReportProgress(ctx context.Context, ref task.Ref, attempt, percent int) error {
	if err := task.ValidateRef(ref); err != nil {
		return err
	}
	return s.progress(ctx, ref, attempt, "", percent)
}

func (s *Tasks) progress(ctx context.Context, ref task.Ref, attempt int, run lua.RunToken, percent int) error {
	if percent < 0 || percent > 100 {
		return task.Invalid("progress", "%d must be 0 to 100", percent)
	}
	_, err := redisx.Run(ctx, s.l.DB, lua.Progress{
		Task: s.l.KeysOf(ref).Task(ref), Member: ref, Attempt: attempt, Run: run, Progress: percent, Events: s.l.Keys.Events(),
	})
	return answer(err, progressCodes, ref)
}

// WarnOfPause logs that the end of a task has paused its schedule, if it has.
func (s *Tasks) WarnOfPause(ctx context.Context, ref task.Ref, paused bool) {
	if paused {
		id, _, _ := schedule.OfTask(ref)
		s.l.Log.WarnContext(ctx, "paused a schedule: too many of its tasks in a row failed", "namespace", ref.Namespace, "schedule", id)
	}
}
