package store

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
)

// Create submits tasks and answers each one, in order. A definition without an id gets a ULID. A task that is
// there already with the same content is answered as it is now. Every task is created by a script of its own:
// one that is refused does not keep the others out.
func (s *Store) Create(ctx context.Context, defs []task.Definition) []Created {
	answers := make([]Created, len(defs))
	calls := make([]redisx.Call, 0, len(defs))
	asked := make([]int, 0, len(defs)) // calls[i] is for defs[asked[i]]
	for i := range defs {
		d := defs[i].Normalize()
		if d.ID == "" {
			d.ID = ulid.Make().String()
		}
		answers[i].Task.Definition = d
		call, err := s.createCall(d)
		if err != nil {
			answers[i].Err = err
			continue
		}
		calls, asked = append(calls, call), append(asked, i)
	}
	for n, reply := range s.db.RunEach(ctx, s.scripts.create, calls) {
		a := &answers[asked[n]]
		*a = created(a.Task.Definition, reply)
	}
	return answers
}

func (s *Store) createCall(d task.Definition) (redisx.Call, error) {
	if err := s.validate(d); err != nil {
		return redisx.Call{}, err
	}
	def, err := encode(d)
	if err != nil {
		return redisx.Call{}, err
	}
	runAt := ""
	if !d.RunAt.IsZero() {
		runAt = strconv.FormatInt(d.RunAt.UnixMilli(), 10)
	}
	p := s.PartitionOf(d.Ref)
	return redisx.Call{
		Keys: []string{s.keys.task(p, d.Ref), s.keys.wheel(p)},
		Args: []any{d.Ref.String(), def, runAt, d.Delay.Milliseconds(), s.keys.events(), s.keys.wake(), p},
	}, nil
}

func (s *Store) validate(d task.Definition) error {
	if err := d.Validate(clock.Now()); err != nil || s.check == nil {
		return err
	}
	return s.check(d.Type, d.Payload)
}

var createCodes = map[string]task.Code{"CONFLICT": task.CodeTaskConflict}

func created(d task.Definition, reply redisx.Reply) Created {
	if reply.Err != nil {
		return Created{Err: answer(reply.Err, createCodes, d.Ref)}
	}
	pair, ok := reply.Value.([]any)
	if !ok || len(pair) != 2 {
		return Created{Err: fmt.Errorf("task %s: unexpected answer of create: %v", d.Ref, reply.Value)}
	}
	if pair[0] == int64(0) {
		t, err := decodeFields(d.Ref, pair[1])
		return Created{Task: t, Existed: true, Err: err}
	}
	at, _ := pair[1].(int64)
	t := task.Task{Definition: d, State: task.Scheduled, Allowed: d.Retry.Attempts(), CreatedAt: fromMS(at)}
	t.DueAt = d.FirstDue(t.CreatedAt)
	return Created{Task: t}
}

var updateCodes = map[string]task.Code{
	"NOTFOUND": task.CodeTaskNotFound, "STATE": task.CodeNotWaiting, "CHANGED": task.CodeChanged,
}

// Update changes a task that waits on the wheel. Errors: CodeTaskNotFound, CodeNotWaiting, CodeInvalid, and
// CodeChanged if somebody else changed it in the same moment.
func (s *Store) Update(ctx context.Context, ref task.Ref, c Change) (task.Task, error) {
	before, err := s.Get(ctx, ref)
	if err != nil {
		return task.Task{}, err
	}
	old, err := encode(before.Definition)
	if err != nil {
		return task.Task{}, err
	}
	changed := c.apply(before.Definition).Normalize()
	if err := s.validate(changed); err != nil {
		return task.Task{}, err
	}
	def, err := encode(changed)
	if err != nil {
		return task.Task{}, err
	}
	runAt, delay := c.times()
	p := s.PartitionOf(ref)
	reply, err := s.db.Run(ctx, s.scripts.update, []string{s.keys.task(p, ref), s.keys.wheel(p)},
		ref.String(), old, def, runAt, delay, s.keys.events(), s.keys.wake(), p)
	if err != nil {
		return task.Task{}, answer(err, updateCodes, ref)
	}
	return decodeFields(ref, reply)
}

// apply is the definition with the change in it.
func (c Change) apply(d task.Definition) task.Definition {
	if c.RunAt != nil || c.Delay != nil { // both together are refused by Validate, as in a submission
		d.RunAt, d.Delay = time.Time{}, 0
	}
	if c.RunAt != nil {
		d.RunAt = *c.RunAt
	}
	if c.Delay != nil {
		d.Delay = *c.Delay
	}
	if c.Queue != nil {
		d.Queue = *c.Queue
	}
	if c.Payload != nil {
		d.Payload = c.Payload
	}
	return d
}

// times are the script's run_at and delay: "" where the time stays as it is.
func (c Change) times() (runAt, delay string) {
	switch {
	case c.RunAt != nil:
		return strconv.FormatInt(c.RunAt.UnixMilli(), 10), ""
	case c.Delay != nil:
		return "", strconv.FormatInt(c.Delay.Milliseconds(), 10)
	}
	return "", ""
}
