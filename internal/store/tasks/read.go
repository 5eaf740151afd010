package tasks

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/calls"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// Get reads one task, with its checkpoint and what it waits for. Errors: CodeTaskNotFound, CodeInvalid for the name,
// CodeUnavailable.
func (s *Tasks) Get(ctx context.Context, ref task.Ref) (task.Task, error) {
	t, err := s.Find(ctx, ref)
	if err == nil {
		err = s.readCheckpoint(ctx, &t)
	}
	if err == nil {
		err = s.ReadAfter(ctx, &t)
	}
	return t, err
}

// Find is Get without the checkpoint, for whoever does not need it: it can be long, and damaged.
func (s *Tasks) Find(ctx context.Context, ref task.Ref) (task.Task, error) {
	return s.get(ctx, ref, false)
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
	if records[0].Definition == "" {
		return task.Task{}, s.missing(ctx, ref)
	}
	return s.decode(ref, records[0]), nil
}

// decodeFound decodes a record that was read. Error: CodeTaskNotFound if it is empty.
func (s *Tasks) decodeFound(ref task.Ref, r codec.Record) (task.Task, error) {
	if r.Definition == "" {
		return task.Task{}, notFound(ref)
	}
	return s.decode(ref, r), nil
}

// decode reads a task with the defaults that hold for it.
func (s *Tasks) decode(ref task.Ref, r codec.Record) task.Task {
	r.RetriesSince = s.l.RetriesSince()
	return codec.DecodeTask(ref, r)
}

// Decode reads a task that a script has read as read_tasks does. What cannot be read is left out, and Damage says so.
func (s *Tasks) Decode(ref task.Ref, t lua.ReadTasksTask) task.Task {
	return s.decode(ref, recordOf(t))
}

func notFound(ref task.Ref) error {
	return &task.Error{Code: task.CodeTaskNotFound, Message: sentence(task.CodeTaskNotFound, ref, "")}
}

// GetEach reads many tasks in one round trip. Tasks that do not exist are left out; of those that cannot be read,
// Damage says so. Error: CodeUnavailable.
func (s *Tasks) GetEach(ctx context.Context, refs []task.Ref) ([]task.Task, error) {
	return s.getEach(ctx, s.l.DB, refs, false)
}

// Briefs is GetEach without payloads, results and errors, which can be long.
func (s *Tasks) Briefs(ctx context.Context, refs []task.Ref) ([]task.Task, error) {
	return s.getEach(ctx, s.l.DB, refs, true)
}

// ReadListed reads tasks in one round trip, with as much of each as a list of the filter has. Last ends are read beside
// the rest, so that one may be of another moment. Error: CodeUnavailable.
func (s *Tasks) ReadListed(ctx context.Context, f Filter, refs []task.Ref) (tasks []task.Task, _ error) {
	if !f.Brief || !f.LastEnds {
		return s.getEach(ctx, s.l.DB, refs, f.Brief)
	}
	var ends map[task.Ref]LastEnd
	err := calls.Try(
		func() (err error) { tasks, err = s.getEach(ctx, s.l.DB, refs, true); return err },
		func() (err error) { ends, err = s.LastEnds(ctx, refs); return err },
	)
	if err != nil {
		return nil, err
	}
	for i, t := range tasks {
		if t.Attempt > 0 || t.State.Final() {
			tasks[i].Error = ends[t.Ref].Error
		}
		if t.State == task.Scheduled {
			tasks[i].Outcome = ends[t.Ref].Outcome
		}
	}
	return tasks, nil
}

// LastEnd is how the newest attempt of a task that has ended did.
type LastEnd struct {
	Error   string
	Outcome task.Outcome // "" if the task has ended with that attempt
}

// LastEnds reads how the newest attempts ended, in one round trip: of tasks that have an error or a further attempt.
// Error: CodeUnavailable.
func (s *Tasks) LastEnds(ctx context.Context, refs []task.Ref) (map[task.Ref]LastEnd, error) {
	if len(refs) == 0 {
		return nil, nil
	}
	pipe := s.l.DB.Pipeline()
	found, ended := make([]*redis.StringCmd, len(refs)), make([]*redis.StringSliceCmd, len(refs))
	for i, ref := range refs {
		k := s.l.KeysOf(ref)
		found[i] = pipe.HGet(ctx, string(k.Errors()), ref.String())
		ended[i] = pipe.LRange(ctx, string(k.Attempts(ref)), -1, -1)
	}
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return nil, layout.Unavailable(err)
	}
	ends := make(map[task.Ref]LastEnd)
	for i, ref := range refs {
		end := LastEnd{Error: found[i].Val()}
		for _, text := range ended[i].Val() {
			if last, err := codec.DecodeAttempt(text); err == nil { // doctor names damage
				end.Outcome = last.Outcome
			}
		}
		if end != (LastEnd{}) {
			ends[ref] = end
		}
	}
	return ends, nil
}

// EarlierAttempts reads the attempts of tasks that ended before the newest one, oldest first, as far as they are kept,
// in one round trip. Those that cannot be read are left out. Error: CodeUnavailable.
func (s *Tasks) EarlierAttempts(ctx context.Context, refs []task.Ref) (map[task.Ref][]task.Attempt, error) {
	if len(refs) == 0 {
		return nil, nil
	}
	pipe := s.l.DB.Pipeline()
	ended := make([]*redis.StringSliceCmd, len(refs))
	for i, ref := range refs {
		ended[i] = pipe.LRange(ctx, string(s.l.KeysOf(ref).Attempts(ref)), 0, -1)
	}
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return nil, layout.Unavailable(err)
	}
	attempts := make(map[task.Ref][]task.Attempt, len(refs))
	for i, ref := range refs {
		for _, text := range ended[i].Val() {
			if a, err := codec.DecodeAttempt(text); err == nil { // doctor names damage
				attempts[ref] = append(attempts[ref], a)
			}
		}
	}
	return attempts, nil
}

// getEach is GetEach; brief tasks have no payload, result and error.
func (s *Tasks) getEach(ctx context.Context, db *redisx.DB, refs []task.Ref, brief bool) ([]task.Task, error) {
	records, err := s.read(ctx, db, refs, brief)
	if err != nil {
		return nil, err
	}
	tasks := make([]task.Task, 0, len(refs))
	for i, r := range records {
		if r.Definition != "" {
			tasks = append(tasks, s.decode(refs[i], r))
		}
	}
	return tasks, nil
}

// read reads the records of tasks; that of a task that does not exist is empty. Under redisx.LeavingOut, keys of the
// wrong type are left out. Error: CodeUnavailable.
func (s *Tasks) read(ctx context.Context, db *redisx.DB, refs []task.Ref, brief bool) ([]codec.Record, error) {
	records := make([]codec.Record, len(refs))
	var failure error
	var damaged []int // places of tasks in partitions with a key of the wrong type
	runParts(ctx, db, s.parts(refs), func(p part) lua.ReadTasks {
		call := lua.ReadTasks{Defs: p.keys.Defs(), Brief: brief, Members: make([]string, len(p.places))}
		for n, i := range p.places {
			call.Members[n] = refs[i].String()
		}
		return call
	}, func(i, k int, r redisx.Result[lua.ReadTasksReply]) {
		switch {
		case redisx.IsPassedOver(r.Err): // as if they did not exist
		case redisx.IsDamage(r.Err) && redisx.LeavesOut(ctx):
			damaged = append(damaged, i)
		case r.Err != nil:
			failure = layout.Unavailable(r.Err)
		default:
			records[i] = recordOf(r.Reply.Tasks[k])
		}
	})
	if failure == nil && len(damaged) > 0 {
		failure = s.readDamaged(ctx, db, refs, brief, damaged, records)
	}
	return records, failure
}

// readDamaged reads the records of tasks at some places key by key, each as far as its key has the right type. It
// reads all of what read does, but of a task that waits in a ready set not the time when its next attempt is due.
// Error: CodeUnavailable.
func (s *Tasks) readDamaged(
	ctx context.Context, db *redisx.DB, refs []task.Ref, brief bool, places []int, records []codec.Record,
) error {
	damaged := make([]task.Ref, len(places))
	for n, i := range places {
		damaged[n] = refs[i]
	}
	parts, err := s.readKeys(ctx, db, damaged, brief)
	if err != nil {
		return err
	}
	for number, p := range parts {
		if p.err() == nil {
			redisx.LeaveOut(ctx, "a set in which due tasks of partition %d wait has the wrong type", number)
		}
		for k, n := range p.places {
			record := p.record(k)
			if p.states.Err() != nil {
				key := s.l.Keys.Partition(number).States()
				record.NoState = fmt.Sprintf("its state cannot be read: the key %s has the wrong type", key)
			}
			records[places[n]] = record
		}
	}
	return nil
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

// stateLost says of a task without a state that it does not wait either, as one does that was never claimed.
const stateLost = "its state is lost: Redis has none, and it waits nowhere, so that it may have run"

func recordOf(t lua.ReadTasksTask) codec.Record {
	r := codec.Record{
		Definition: t.Record, Payload: t.Payload, State: t.State, Due: t.Due, Result: t.Result, Error: t.Reason,
	}
	if t.State == "" && t.Due.IsZero() {
		r.NoState = stateLost
	}
	return r
}

// Attempts reads the attempts of a task, oldest first, including the one that runs now. Of those that ended, the newest
// task.HistoryLimit are kept. Earlier ones that cannot be read are left out under any context, and redisx.LeavingOut
// notes them; under it, the newest one may be left out, too.
// Errors: CodeTaskNotFound, CodeInvalid for the name, CodeUnavailable.
func (s *Tasks) Attempts(ctx context.Context, ref task.Ref) ([]task.Attempt, error) {
	_, attempts, err := s.moment(ctx, ref)
	return attempts, err
}

// FindWithAttempts is Find and Attempts. Both tell of the same moment, so they do not contradict each other.
func (s *Tasks) FindWithAttempts(ctx context.Context, ref task.Ref) (t task.Task, attempts []task.Attempt, _ error) {
	var records []codec.Record
	var now codec.Record
	err := calls.Try(
		func() (err error) { records, err = s.read(ctx, s.l.DB, []task.Ref{ref}, false); return err },
		func() (err error) { now, attempts, err = s.moment(ctx, ref); return err },
	)
	if err != nil {
		return task.Task{}, nil, err
	}
	r := records[0]
	if r.Definition == "" {
		return task.Task{}, nil, s.missing(ctx, ref)
	}
	if now.State != r.State {
		r.State, r.NoState, r.Result, r.Error, r.Due = now.State, "", now.Result, now.Error, now.Due
	}
	t = s.decode(ref, r)
	err = s.ReadAfter(ctx, &t)
	return t, attempts, err
}

// moment reads the attempts of a task, and what changes of its record, in one moment. Errors: those of Attempts.
func (s *Tasks) moment(ctx context.Context, ref task.Ref) (now codec.Record, _ []task.Attempt, _ error) {
	if err := task.ValidateRef(ref); err != nil {
		return now, nil, err
	}
	k := s.l.KeysOf(ref)
	pipe := s.l.DB.ReadTogether() // one moment: an attempt that ends meanwhile would be missing, or there twice
	exists := pipe.HExists(ctx, string(k.Defs()), ref.String())
	ended := pipe.LRange(ctx, string(k.Attempts(ref)), 0, -1)
	state := pipe.HMGet(ctx, string(k.States()), ref.String())
	reason := pipe.HMGet(ctx, string(k.Errors()), ref.String())
	result := pipe.HMGet(ctx, string(k.Results()), ref.String())
	due := pipe.ZMScore(ctx, string(k.Wheel()), ref.String())
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return now, nil, layout.Unavailable(err)
	}
	if !exists.Val() && exists.Err() == nil {
		return now, nil, s.missing(ctx, ref)
	}
	now = codec.Record{State: textAt(state, 0), Error: textAt(reason, 0), Result: textAt(result, 0)}
	if scores := due.Val(); len(scores) > 0 && scores[0] != 0 {
		now.Due = codec.FromMS(int64(scores[0]))
	}
	attempts := decodeAttempts(ctx, ref, ended.Val())
	t := task.Task{Definition: task.Definition{Ref: ref}, State: task.Scheduled}
	err := codec.DecodeState(&t, now.State)
	if err != nil && !redisx.LeaveOut(ctx, "the newest attempt of task %s is left out, as %v", ref, err) {
		return now, nil, unreadablePart(ref, err)
	}
	if t.State == task.Running || t.Outcome != "" { // the newest attempt is in the state of the task
		newest := task.Attempt{
			Number: t.Attempt, Node: t.Node, StartedAt: t.StartedAt, FinishedAt: t.FinishedAt, Outcome: t.Outcome,
			Error: now.Error,
		}
		if err := codec.CheckAttempt(newest); err == nil || !redisx.LeaveOut(ctx, "task %s: %v", ref, err) {
			attempts = append(attempts, newest)
		}
	}
	return now, attempts[max(0, len(attempts)-task.HistoryLimit):], nil
}

// decodeAttempts decodes the list of a task's earlier attempts, without those that cannot be read, which
// redisx.LeavingOut notes.
func decodeAttempts(ctx context.Context, ref task.Ref, entries []string) []task.Attempt {
	attempts := make([]task.Attempt, 0, len(entries)+1)
	for _, entry := range entries {
		a, err := codec.DecodeAttempt(entry)
		if err != nil {
			redisx.LeaveOut(ctx, "task %s: %v", ref, err)
			continue
		}
		attempts = append(attempts, a)
	}
	return attempts
}

// unreadablePart is the error, with CodeUnreadable, for a part of a task that cannot be read because of err.
func unreadablePart(ref task.Ref, err error) error {
	return &task.Error{Code: task.CodeUnreadable, Message: fmt.Sprintf("task %s cannot be read: %v", ref, err), Err: err}
}
