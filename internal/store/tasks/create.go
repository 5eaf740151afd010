package tasks

import (
	"context"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// Create writes new tasks and returns one answer for each, in order. Definitions are valid and have an id. If a task
// with the same content exists, the answer is that task as it is now. Every task is created by a script of its own: one
// that is refused does not affect the others. Errors of an answer: CodeTaskConflict, CodeUnavailable.
func (s *Tasks) Create(ctx context.Context, defs []task.Definition) []Created {
	answers := make([]Created, len(defs))
	calls := make([]lua.Create, 0, len(defs))
	asked := make([]int, 0, len(defs)) // calls[i] is for defs[asked[i]]
	for i := range defs {
		d := defs[i].Normalize()
		answers[i].Task.Definition = d
		call, err := s.createCall(d)
		if err != nil {
			answers[i].Err = err
			continue
		}
		calls, asked = append(calls, call), append(asked, i)
	}
	for n, result := range redisx.RunEach[lua.CreateReply](ctx, s.l.DB, calls) {
		a := &answers[asked[n]]
		*a = created(a.Task.Definition, result)
	}
	return answers
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

func created(d task.Definition, result redisx.Result[lua.CreateReply]) Created {
	if result.Err != nil {
		return Created{Err: answer(result.Err, createCodes, d.Ref)}
	}
	if result.Reply.Existed {
		t, err := codec.DecodeTask(d.Ref, result.Reply.Task)
		return Created{Task: t, Existed: true, Err: err}
	}
	t := task.Task{Definition: d, State: task.Scheduled, MaxAttempts: d.Retry.Attempts(), CreatedAt: result.Reply.Now}
	t.DueAt = d.FirstDue(t.CreatedAt)
	return Created{Task: t}
}
