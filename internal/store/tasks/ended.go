package tasks

import (
	"context"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/rollup"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/task"
)

// loggedReason is how many bytes of an error are in a line of the log; the task has all of it.
const loggedReason = 500

// LogEnd writes that the newest attempt of a task did not succeed: a warning if the task has failed, and an information
// if there will be another attempt. Whoever has recorded the end calls it, so that there is one line.
func (s *Tasks) LogEnd(ctx context.Context, t task.Task, to task.State, o task.Outcome, reason string) {
	fields := endFields(t, o, reason)
	switch to {
	case task.Failed:
		s.l.Log.WarnContext(ctx, "a task has failed", append(fields, "attempts", t.Attempt)...)
	case task.Scheduled:
		s.l.Log.InfoContext(ctx, "an attempt did not succeed; there will be another one",
			append(fields, "attempt", t.Attempt)...)
	}
}

// CountEnd counts an attempt that has ended. Whoever has recorded the end calls it, so that it counts once. The
// node that ran it is left out of the reason: what died with several nodes has one cause.
func (s *Tasks) CountEnd(t task.Task, to task.State, o task.Outcome, reason string) {
	if node := codec.NodeOf(t.Run); node != "" {
		reason = strings.ReplaceAll(reason, node, "#")
	}
	e := rollup.End{Task: t.Ref, Attempt: t.Attempt, Queue: t.Queue, Type: t.Type, Outcome: o, Error: reason, To: to}
	for _, c := range s.counters {
		c.Ended(e)
	}
}

// CountBegin counts an attempt that has begun, once for each.
func (s *Tasks) CountBegin(t task.Task) {
	for _, c := range s.counters {
		c.Begun(t.Queue, t.StartedAt.Sub(t.DueAt))
	}
}

// LogLoss is LogEnd for an attempt that a leader has ended as lost, which is always a warning. next is when another
// attempt is due, if there is one; poison says that the task ends as it kills its workers.
func (s *Tasks) LogLoss(
	ctx context.Context, t task.Task, to task.State, next time.Time, poison bool, reason string,
) {
	fields := endFields(t, task.OutcomeLost, reason)
	switch {
	case to == task.Scheduled:
		s.l.Log.WarnContext(ctx, "an attempt was lost; there will be another one",
			append(fields, "attempt", t.Attempt, "next", next)...)
	case to == task.Failed && poison:
		s.l.Log.WarnContext(ctx, "a task has failed, as its workers died again and again",
			append(fields, "attempts", t.Attempt)...)
	default:
		s.LogEnd(ctx, t, to, task.OutcomeLost, reason)
	}
}

// endFields are what the log says of the end of an attempt.
func endFields(t task.Task, o task.Outcome, reason string) []any {
	return []any{
		"task", t.Ref.String(), "type", t.Type, "outcome", string(o), "ran_on", codec.NodeOf(t.Run),
		"error", task.Cut(reason, loggedReason),
	}
}
