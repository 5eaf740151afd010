package tasks

import (
	"context"
	"errors"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

var progressCodes = map[lua.Code]task.Code{
	lua.CodeNotFound: task.CodeTaskNotFound, lua.CodeState: task.CodeNotRunning, lua.CodeStale: task.CodeStaleAttempt,
}

// ReportProgress records the progress of a running attempt, in percent, and what it is at ("" for nothing), on behalf of its worker. It is for the server that
// an HTTP task calls, which knows the attempt's number but not the run token. Errors: CodeInvalid, CodeTaskNotFound,
// CodeNotRunning, CodeStaleAttempt, CodeUnavailable.
func (s *Tasks) ReportProgress(ctx context.Context, ref task.Ref, attempt, percent int, note string) error {
	if err := errors.Join(task.ValidateRef(ref), checkPercent(percent)); err != nil {
		return err
	}
	return publicError(s.progress(ctx, ref, attempt, "", percent, note), progressCodes, ref)
}

func checkPercent(percent int) error {
	if percent < 0 || percent > 100 {
		return task.Invalid("progress", "%d must be 0 to 100", percent)
	}
	return nil
}

// progress records the progress of an attempt; run is its run token, or "" on behalf of whoever has it.
func (s *Tasks) progress(ctx context.Context, ref task.Ref, attempt int, run lua.RunToken, percent int, note string) error {
	_, err := redisx.Run(ctx, s.l.DB, lua.Progress{
		States: s.l.KeysOf(ref).States(), Member: ref, Attempt: attempt, Run: run, Progress: percent,
		Note: task.Cut(note, task.ProgressNoteLimit), Events: s.l.Keys.Events(),
	})
	return err
}

// WarnIfPaused logs a warning, and counts, if the end of a task paused its schedule.
func (s *Tasks) WarnIfPaused(ctx context.Context, ref task.Ref, paused bool) {
	if paused {
		for _, c := range s.counters {
			c.Paused()
		}
		id, _, _ := schedule.OfTask(ref)
		s.l.Log.WarnContext(ctx, "paused a schedule: too many of its tasks failed one after the other", "namespace", ref.Namespace, "schedule", id)
	}
}
