package tasks

import (
	"context"

	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/task"
)

// loggedReason is how many bytes of an error are in a line of the log; the task has all of it.
const loggedReason = 500

// LogEnd writes that the newest attempt of a task did not succeed: a warning if the task has failed, and an information
// if there will be another attempt. Whoever has recorded the end calls it, so that there is one line.
func (s *Tasks) LogEnd(ctx context.Context, t task.Task, to task.State, o task.Outcome, reason string) {
	if to != task.Failed && to != task.Scheduled {
		return
	}
	fields := []any{
		"task", t.Ref.String(), "type", t.Type, "outcome", string(o), "node", codec.NodeOf(t.Run),
		"error", task.Cut(reason, loggedReason),
	}
	if to == task.Failed {
		s.l.Log.WarnContext(ctx, "a task has failed", append(fields, "attempts", t.Attempt)...)
		return
	}
	fields = append(fields, "attempt", t.Attempt)
	s.l.Log.InfoContext(ctx, "an attempt did not succeed; there will be another one", fields...)
}
