package tasks

import (
	"context"
	"errors"

	"github.com/dts-sched/dts/internal/change"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/codec"
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

// WarnIfPaused logs a warning, counts and tells those who follow changes, if the end of a task paused its schedule.
func (s *Tasks) WarnIfPaused(ctx context.Context, ref task.Ref, paused bool) {
	if !paused {
		return
	}
	for _, c := range s.counters {
		c.Paused()
	}
	id, _, _ := schedule.OfTask(ref)
	s.l.Log.WarnContext(ctx, "paused a schedule: too many of its tasks failed one after the other", "namespace", ref.Namespace, "schedule", id)
	s.tellPaused(ctx, task.Ref{Namespace: ref.Namespace, ID: id})
}

// tellPaused publishes that a schedule has paused itself, for those who follow changes and for the status. The scripts that end tasks do not: each would need the name of
// the channel for that. If Redis does not answer, nobody hears of it.
func (s *Tasks) tellPaused(ctx context.Context, ref task.Ref) {
	c := change.Change{Type: change.SchedulePaused, Ref: ref}
	fields, err := s.l.DB.HMGet(ctx, string(s.l.KeysOf(ref).Schedule(ref)), "paused", "note", "revision").Result()
	if err != nil {
		return
	}
	paused, revision := codec.Number(codec.Text(fields[0])), codec.Number(codec.Text(fields[2]))
	c.At, c.Note, c.Revision = codec.FromMS(paused), codec.Text(fields[1]), int(revision)
	if !c.At.IsZero() { // nobody has resumed it meanwhile
		_ = s.l.DB.Publish(ctx, string(s.l.Keys.Changes()), change.Encode(c)).Err()
		s.l.TellLook(ctx, ref)
	}
}
