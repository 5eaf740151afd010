package tasks

import (
	"context"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// Create creates tasks and returns a result for each, in the order of defs. Definitions must be valid and have an id. If a
// task with the same content exists, the result is that task as it is now. Every task is created by its own run of a
// script: a refused one does not affect the others. Errors of a result: CodeTaskConflict, CodeUnavailable.
func (s *Tasks) Create(ctx context.Context, defs []task.Definition) []Created {
	results := make([]Created, len(defs))
	calls := make([]lua.Create, 0, len(defs))
	place := make([]int, 0, len(defs)) // calls[i] is for defs[place[i]]
	for i := range defs {
		d := defs[i].Normalize()
		results[i].Task.Definition = d
		call, err := s.createCall(d)
		if err != nil {
			results[i].Err = err
			continue
		}
		calls, place = append(calls, call), append(place, i)
	}
	for i, reply := range redisx.RunEach[lua.CreateReply](ctx, s.l.DB, calls) {
		r := &results[place[i]]
		*r = created(r.Task.Definition, reply)
	}
	return results
}

func (s *Tasks) createCall(d task.Definition) (lua.Create, error) {
	def, err := codec.EncodeDefinition(d)
	if err != nil {
		return lua.Create{}, err
	}
	k := s.l.KeysOf(d.Ref)
	return lua.Create{
		Task: k.Task(d.Ref), Wheel: k.Wheel(), Member: d.Ref, Def: def, RunAt: d.RunAt, Delay: d.Delay,
		Events: s.l.Keys.Events(), Wake: s.l.Keys.Wake(),
	}, nil
}

var createCodes = map[lua.Code]task.Code{lua.CodeConflict: task.CodeTaskConflict}

// created is the result of a call that was to create a task with that definition.
func created(d task.Definition, result redisx.Result[lua.CreateReply]) Created {
	if result.Err != nil {
		return Created{Err: publicError(result.Err, createCodes, d.Ref)}
	}
	if result.Reply.Existed {
		t, err := codec.DecodeTask(d.Ref, result.Reply.Task)
		return Created{Task: t, Existed: true, Err: err}
	}
	t := task.Task{Definition: d, State: task.Scheduled, MaxAttempts: d.Retry.Attempts(), CreatedAt: result.Reply.Now}
	t.DueAt = d.FirstDue(t.CreatedAt)
	return Created{Task: t}
}
