package tasks

import (
	"context"
	"fmt"
	"regexp"
	"strconv"

	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
)

// Get reads one task. Errors: CodeTaskNotFound, CodeInvalid for the name, CodeUnavailable.
func (s *Tasks) Get(ctx context.Context, ref task.Ref) (task.Task, error) {
	if err := task.ValidateRef(ref); err != nil {
		return task.Task{}, err
	}
	h, err := s.l.DB.HGetAll(ctx, string(s.l.KeysOf(ref).Task(ref))).Result()
	if err != nil {
		return task.Task{}, layout.Unavailable(err)
	}
	if len(h) == 0 {
		return task.Task{}, &task.Error{Code: task.CodeTaskNotFound, Message: sentence(task.CodeTaskNotFound, ref, "")}
	}
	return codec.DecodeTask(ref, h)
}

// GetEach reads many tasks in one round trip. Tasks that do not exist are left out, and so are those that cannot be read:
// one unreadable task must not keep the others from being listed, dispatched or reaped. Error: CodeUnavailable.
func (s *Tasks) GetEach(ctx context.Context, refs []task.Ref) ([]task.Task, error) {
	if len(refs) == 0 {
		return nil, nil
	}
	pipe := s.l.DB.Pipeline()
	found := make([]interface{ Val() map[string]string }, len(refs))
	for i, ref := range refs {
		found[i] = pipe.HGetAll(ctx, string(s.l.KeysOf(ref).Task(ref)))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, layout.Unavailable(err)
	}
	tasks := make([]task.Task, 0, len(refs))
	for i, h := range found {
		if len(h.Val()) == 0 {
			continue
		}
		t, err := codec.DecodeTask(refs[i], h.Val())
		if err != nil {
			s.l.Log.ErrorContext(ctx, "skipping unreadable task", "task", refs[i].String(), "error", err)
			continue
		}
		tasks = append(tasks, t)
	}
	return tasks, nil
}

// Attempts reads the attempts of a task, oldest first, including the one that runs now. Of those that ended, the newest
// task.HistoryLimit are kept. Errors: CodeTaskNotFound, CodeInvalid for the name, CodeUnavailable.
func (s *Tasks) Attempts(ctx context.Context, ref task.Ref) ([]task.Attempt, error) {
	t, err := s.Get(ctx, ref)
	if err != nil {
		return nil, err
	}
	entries, err := s.l.DB.LRange(ctx, string(s.l.KeysOf(ref).Attempts(ref)), 0, -1).Result()
	if err != nil {
		return nil, layout.Unavailable(err)
	}
	attempts := make([]task.Attempt, 0, len(entries)+1)
	for _, entry := range entries {
		a, err := codec.DecodeAttempt(entry)
		if err != nil {
			return nil, err
		}
		attempts = append(attempts, a)
	}
	if t.State == task.Running && (len(attempts) == 0 || attempts[len(attempts)-1].Number < t.Attempt) {
		attempts = append(attempts, task.Attempt{Number: t.Attempt, Node: t.Node, StartedAt: t.StartedAt})
	}
	return attempts, nil
}

// Logs reads up to limit lines of a task's log, oldest first, from the line after the one with the cursor after, or from
// the first line kept if after is "". Errors: CodeTaskNotFound, CodeInvalid for the name or the cursor, CodeUnavailable.
func (s *Tasks) Logs(ctx context.Context, ref task.Ref, after string, limit int) ([]task.LogLine, error) {
	if _, err := s.Get(ctx, ref); err != nil {
		return nil, err
	}
	from := "-"
	if after != "" {
		if _, err := attemptOf(after); err != nil {
			return nil, task.Invalid("after", "%q must be the cursor of a log line", after)
		}
		from = "(" + after
	}
	entries, err := s.l.DB.XRangeN(ctx, string(s.l.KeysOf(ref).Log(ref)), from, "+", int64(limit)).Result()
	if err != nil {
		return nil, layout.Unavailable(err)
	}
	lines := make([]task.LogLine, len(entries))
	for i, e := range entries {
		attempt, err := attemptOf(e.ID)
		if err != nil {
			return nil, err
		}
		lines[i] = task.LogLine{
			Cursor: e.ID, Attempt: attempt, Stream: codec.Text(e.Values["stream"]),
			At: codec.FromMS(codec.Number(codec.Text(e.Values["at"]))), Text: codec.Text(e.Values["text"]),
		}
	}
	return lines, nil
}

var linePattern = regexp.MustCompile(`^(\d{1,9})-\d{1,18}$`)

// attemptOf is the number of the attempt that wrote a log line. A line's id is "<attempt>-<number of the line>".
func attemptOf(id string) (int, error) {
	m := linePattern.FindStringSubmatch(id)
	if m == nil {
		return 0, fmt.Errorf("%q is not the id of a log line, want <attempt>-<line>", id)
	}
	return strconv.Atoi(m[1])
}
