package store

import (
	"context"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// Create submits tasks and answers each one, in order. A definition without an id gets a ULID. A task that is
// there already with the same content is answered as it is now. Every task is created by a script of its own:
// one that is refused does not keep the others out.
func (s *Store) Create(ctx context.Context, defs []task.Definition) []Created {
	answers := make([]Created, len(defs))
	calls := make([]lua.Create, 0, len(defs))
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
	for n, reply := range redisx.RunEach[lua.CreateReply](ctx, s.db, calls) {
		a := &answers[asked[n]]
		*a = created(a.Task.Definition, reply)
	}
	return answers
}

func (s *Store) createCall(d task.Definition) (lua.Create, error) {
	if err := s.validate(d); err != nil {
		return lua.Create{}, err
	}
	def, err := encode(d)
	if err != nil {
		return lua.Create{}, err
	}
	k := s.partitionOf(d.Ref)
	return lua.Create{
		Task: k.Task(d.Ref), Wheel: k.Wheel(), Member: d.Ref, Def: def, RunAt: d.RunAt, Delay: d.Delay,
		Events: s.keys.Events(), Wake: s.keys.Wake(),
	}, nil
}

func (s *Store) validate(d task.Definition) error {
	if err := d.Validate(clock.Now()); err != nil {
		return err
	}
	return s.types.CheckPayload(d.Type, d.Payload)
}

var createCodes = map[lua.Code]task.Code{lua.CodeConflict: task.CodeTaskConflict}

func created(d task.Definition, result redisx.Result[lua.CreateReply]) Created {
	if result.Err != nil {
		return Created{Err: answer(result.Err, createCodes, d.Ref)}
	}
	if result.Reply.Existed {
		t, err := decodeTask(d.Ref, result.Reply.Task)
		return Created{Task: t, Existed: true, Err: err}
	}
	t := task.Task{Definition: d, State: task.Scheduled, Allowed: d.Retry.Attempts(), CreatedAt: result.Reply.Now}
	t.DueAt = d.FirstDue(t.CreatedAt)
	return Created{Task: t}
}

var updateCodes = map[lua.Code]task.Code{
	lua.CodeNotFound: task.CodeTaskNotFound, lua.CodeState: task.CodeNotWaiting, lua.CodeChanged: task.CodeChanged,
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
	k := s.partitionOf(ref)
	call := lua.Change{
		Task: k.Task(ref), Wheel: k.Wheel(), Member: ref, Before: old, Def: def, Delay: c.Delay, Events: s.keys.Events(), Wake: s.keys.Wake(),
	}
	if c.RunAt != nil {
		call.RunAt = *c.RunAt
	}
	reply, err := redisx.Run(ctx, s.db, call)
	if err != nil {
		return task.Task{}, answer(err, updateCodes, ref)
	}
	return decodeTask(ref, reply.Task)
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
