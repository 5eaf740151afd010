package tasks

import (
	"context"
	"fmt"
	"regexp"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// Get reads one task, with its checkpoint. Errors: CodeTaskNotFound, CodeInvalid for the name, CodeUnavailable.
func (s *Tasks) Get(ctx context.Context, ref task.Ref) (task.Task, error) {
	t, err := s.get(ctx, ref, false)
	if err == nil {
		err = s.readCheckpoint(ctx, &t)
	}
	return t, err
}

// State reads the state of one task. Errors are those of Get.
func (s *Tasks) State(ctx context.Context, ref task.Ref) (task.State, error) {
	t, err := s.get(ctx, ref, true)
	return t.State, err
}

// get is Get; a brief task has no payload, result and error, which can be long.
func (s *Tasks) get(ctx context.Context, ref task.Ref, brief bool) (task.Task, error) {
	if err := task.ValidateRef(ref); err != nil {
		return task.Task{}, err
	}
	records, err := s.read(ctx, s.l.DB, []task.Ref{ref}, brief)
	if err != nil {
		return task.Task{}, err
	}
	return s.decodeFound(ref, records[0])
}

// decodeFound decodes a record that was read. Error: CodeTaskNotFound if it is empty.
func (s *Tasks) decodeFound(ref task.Ref, r codec.Record) (task.Task, error) {
	if r.Definition == "" {
		return task.Task{}, notFound(ref)
	}
	return s.decode(ref, r)
}

// decode reads a task with the defaults that hold for it. Error: the definition or the state cannot be read.
func (s *Tasks) decode(ref task.Ref, r codec.Record) (task.Task, error) {
	r.RetriesSince = s.l.RetriesSince()
	return codec.DecodeTask(ref, r)
}

func notFound(ref task.Ref) error {
	return &task.Error{Code: task.CodeTaskNotFound, Message: sentence(task.CodeTaskNotFound, ref, "")}
}

// GetEach reads many tasks in one round trip. Tasks that do not exist are left out, and so are those that cannot be read:
// one unreadable task must not keep the others from being listed. Error: CodeUnavailable.
func (s *Tasks) GetEach(ctx context.Context, refs []task.Ref) ([]task.Task, error) {
	return s.getEach(ctx, s.l.DB, refs, false)
}

// Briefs is GetEach without payloads, results and errors, which can be long.
func (s *Tasks) Briefs(ctx context.Context, refs []task.Ref) ([]task.Task, error) {
	return s.getEach(ctx, s.l.DB, refs, true)
}

// getEach is GetEach; brief tasks have no payload, result and error.
func (s *Tasks) getEach(ctx context.Context, db *redisx.DB, refs []task.Ref, brief bool) ([]task.Task, error) {
	records, err := s.read(ctx, db, refs, brief)
	if err != nil {
		return nil, err
	}
	tasks := make([]task.Task, 0, len(refs))
	for i, r := range records {
		if r.Definition == "" {
			continue
		}
		t, err := s.decode(refs[i], r)
		if err != nil {
			s.l.Log.ErrorContext(ctx, "skipping unreadable task", "task", refs[i].String(), "error", err)
			continue
		}
		tasks = append(tasks, t)
	}
	return tasks, nil
}

// read reads the records of tasks; that of a task that does not exist is empty. Error: CodeUnavailable.
func (s *Tasks) read(ctx context.Context, db *redisx.DB, refs []task.Ref, brief bool) ([]codec.Record, error) {
	records := make([]codec.Record, len(refs))
	var failure error
	runParts(ctx, db, s.parts(refs), func(p part) lua.ReadTasks {
		call := lua.ReadTasks{Defs: p.keys.Defs(), Brief: brief, Members: make([]string, len(p.places))}
		for n, i := range p.places {
			call.Members[n] = refs[i].String()
		}
		return call
	}, func(i, k int, r redisx.Result[lua.ReadTasksReply]) {
		if r.Err != nil {
			failure = layout.Unavailable(r.Err)
			return
		}
		records[i] = recordOf(r.Reply.Tasks[k])
	})
	return records, failure
}

// SizeLimit is the most that Sizes returns for a task, in bytes.
const SizeLimit = task.PayloadLimit + task.CheckpointLimit

// Sizes returns how many bytes of JSON the payload and the checkpoint of each task have, in one round trip. A short
// payload counts as InlinePayloadLimit, and a task of which Redis does not tell as SizeLimit.
func (s *Tasks) Sizes(ctx context.Context, refs []task.Ref) []int {
	pipe := s.l.DB.Pipeline()
	replies := make([][2]*redis.IntCmd, len(refs))
	for i, ref := range refs {
		k := s.l.KeysOf(ref)
		replies[i] = [2]*redis.IntCmd{
			pipe.HStrLen(ctx, string(k.Payloads()), ref.String()), pipe.HStrLen(ctx, string(k.Checkpoints()), ref.String()),
		}
	}
	_, _ = pipe.Exec(ctx) // each reply has its error
	sizes := make([]int, len(refs))
	for i, r := range replies {
		if sizes[i] = SizeLimit; r[0].Err() == nil && r[1].Err() == nil {
			sizes[i] = max(int(r[0].Val()), task.InlinePayloadLimit) + int(r[1].Val())
		}
	}
	return sizes
}

func recordOf(t lua.ReadTasksTask) codec.Record {
	return codec.Record{Definition: t.Record, Payload: t.Payload, State: t.State, Due: t.Due, Result: t.Result, Error: t.Reason}
}

// Attempts reads the attempts of a task, oldest first, including the one that runs now. Of those that ended, the newest
// task.HistoryLimit are kept. Errors: CodeTaskNotFound, CodeInvalid for the name, CodeUnavailable.
func (s *Tasks) Attempts(ctx context.Context, ref task.Ref) ([]task.Attempt, error) {
	if err := task.ValidateRef(ref); err != nil {
		return nil, err
	}
	k := s.l.KeysOf(ref)
	pipe := s.l.DB.TxPipeline() // one moment: an attempt that ends meanwhile would be missing, or there twice
	exists := pipe.HExists(ctx, string(k.Defs()), ref.String())
	ended := pipe.LRange(ctx, string(k.Attempts(ref)), 0, -1)
	state := pipe.HMGet(ctx, string(k.States()), ref.String())
	reason := pipe.HMGet(ctx, string(k.Errors()), ref.String())
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, layout.Unavailable(err)
	}
	if !exists.Val() {
		return nil, notFound(ref)
	}
	attempts, err := decodeAttempts(ended.Val())
	if err != nil {
		return nil, err
	}
	t := task.Task{Definition: task.Definition{Ref: ref}, State: task.Scheduled}
	if err := codec.DecodeState(&t, codec.Text(state.Val()[0])); err != nil {
		return nil, err
	}
	if t.State == task.Running || t.Outcome != "" { // the newest attempt is in the state of the task
		attempts = append(attempts, task.Attempt{
			Number: t.Attempt, Node: t.Node, StartedAt: t.StartedAt, FinishedAt: t.FinishedAt, Outcome: t.Outcome,
			Error: codec.Text(reason.Val()[0]),
		})
	}
	return attempts[max(0, len(attempts)-task.HistoryLimit):], nil
}

// decodeAttempts decodes the list of a task's earlier attempts.
func decodeAttempts(entries []string) ([]task.Attempt, error) {
	attempts := make([]task.Attempt, len(entries), len(entries)+1)
	for i, entry := range entries {
		a, err := codec.DecodeAttempt(entry)
		if err != nil {
			return nil, err
		}
		attempts[i] = a
	}
	return attempts, nil
}

// LogPage is a part of a task's log. More: lines may follow.
type LogPage struct {
	Lines []task.LogLine
	More  bool
}

// Logs reads up to limit lines of a task's log, oldest first, from the line after the one with the cursor after, or from
// the first line kept if after is "". The page ends early when it is full. Errors: CodeTaskNotFound, CodeInvalid for the
// name or the cursor, CodeUnavailable.
func (s *Tasks) Logs(ctx context.Context, ref task.Ref, after string, limit int) (LogPage, error) {
	if err := task.ValidateRef(ref); err != nil {
		return LogPage{}, err
	}
	from := "-"
	if after != "" {
		if _, err := attemptOf(after); err != nil {
			return LogPage{}, task.Invalid("after", "%q must be the cursor of a log line", after)
		}
		from = "(" + after
	}
	k := s.l.KeysOf(ref)
	pipe := s.l.DB.Pipeline()
	exists := pipe.HExists(ctx, string(k.Defs()), ref.String())
	entries := pipe.XRangeN(ctx, string(k.Log(ref)), from, "+", int64(limit))
	if _, err := pipe.Exec(ctx); err != nil {
		return LogPage{}, layout.Unavailable(err)
	}
	if !exists.Val() {
		return LogPage{}, notFound(ref)
	}
	lines, err := decodeLines(entries.Val())
	return logPage(lines, limit), err
}

// logPage is a page of lines, of which limit were asked for.
func logPage(lines []task.LogLine, limit int) LogPage {
	var portions layout.Portions
	for i, line := range lines {
		if portions.Full() {
			return LogPage{Lines: lines[:i], More: true}
		}
		portions.Read(layout.TextBytes(line.Text), true)
	}
	return LogPage{Lines: lines, More: len(lines) == limit}
}

// decodeLines decodes the entries of a task's log.
func decodeLines(entries []redis.XMessage) ([]task.LogLine, error) {
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
