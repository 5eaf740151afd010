package store

import (
	"context"
	"strconv"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
)

var cancelCodes = map[string]task.Code{"NOTFOUND": task.CodeTaskNotFound, "STATE": task.CodeFinished}

// Cancel ends a task that waits, and tells a running one to stop; the answer says which it was. A cancelled
// task may be cancelled again. Errors: CodeTaskNotFound, CodeFinished.
func (s *Store) Cancel(ctx context.Context, ref task.Ref) (task.Task, error) {
	t, err := s.Get(ctx, ref)
	if err != nil {
		return task.Task{}, err
	}
	p := s.PartitionOf(ref)
	reply, err := s.db.Run(ctx, s.scripts.cancel, []string{s.keys.task(p, ref)}, ref.String(),
		t.EffectiveRetention(task.Cancelled).Milliseconds(), s.keys.events(), s.keys.control(), s.keys.wake())
	if err != nil {
		return task.Task{}, answer(err, cancelCodes, ref)
	}
	return decodeFields(ref, reply)
}

var rerunCodes = map[string]task.Code{"NOTFOUND": task.CodeTaskNotFound, "STATE": task.CodeNotFinished}

// Rerun puts a task that has ended back on the wheel, due now, with all of its attempts allowed once more.
// Attempts are counted on, so that every delivery has a name of its own.
// Errors: CodeTaskNotFound, CodeNotFinished.
func (s *Store) Rerun(ctx context.Context, ref task.Ref) (task.Task, error) {
	t, err := s.Get(ctx, ref)
	if err != nil {
		return task.Task{}, err
	}
	if !t.State.Final() {
		return task.Task{}, &task.Error{
			Code: task.CodeNotFinished, Message: sentence(task.CodeNotFinished, ref, string(t.State)),
		}
	}
	p := s.PartitionOf(ref)
	keys := []string{s.keys.task(p, ref), s.keys.index(p, ref.Namespace, t.State), s.keys.expiry(p), s.keys.wheel(p)}
	reply, err := s.db.Run(ctx, s.scripts.rerun, keys,
		ref.String(), string(t.State), t.Retry.Attempts(), s.keys.events(), s.keys.wake(), p, tickOf(ref))
	if err != nil {
		return task.Task{}, answer(err, rerunCodes, ref)
	}
	return decodeFields(ref, reply)
}

var progressCodes = map[string]task.Code{
	"NOTFOUND": task.CodeTaskNotFound, "STATE": task.CodeNotRunning, "STALE": task.CodeStaleAttempt,
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

func (s *Store) progress(ctx context.Context, ref task.Ref, attempt int, run string, percent int) error {
	if percent < 0 || percent > 100 {
		return task.Invalid("progress", "%d must be 0 to 100", percent)
	}
	_, err := s.db.Run(ctx, s.scripts.progress, []string{s.keys.task(s.PartitionOf(ref), ref)},
		ref.String(), attempt, run, percent, s.keys.events())
	return answer(err, progressCodes, ref)
}

// warnOfPause says in the log that the end of a task has paused its schedule.
func (s *Store) warnOfPause(ctx context.Context, ref task.Ref, reply any) {
	if reply == int64(2) {
		id, _, _ := schedule.OfTask(ref)
		s.log.WarnContext(ctx, "a schedule has paused by itself: too many of its tasks failed in a row", "namespace", ref.Namespace, "schedule", id)
	}
}

// tickOf is the nominal time of a tick's task in ms, "" for any other task.
func tickOf(ref task.Ref) string {
	_, name, ok := schedule.OfTask(ref)
	if !ok {
		return ""
	}
	tick, _, err := schedule.ParseTickName(name)
	if err != nil {
		return ""
	}
	return strconv.FormatInt(tick.UnixMilli(), 10)
}
