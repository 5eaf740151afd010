package tasks

import (
	"context"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

var moveCodes = map[lua.Code]task.Code{
	lua.CodeNotFound: task.CodeTaskNotFound, lua.CodeState: task.CodeNotRunning, lua.CodeStale: task.CodeNotRunning,
}

// Asked says who asks for a move, and to which node.
type Asked struct {
	To string // its id or its name; "" for any other one
	By string // "" if nobody knows
}

// Move asks the worker of a run to give its task up, so that another worker goes on. A task that was asked to stop
// stays as it is. Errors: CodeTaskNotFound, CodeNotRunning if the run has ended, CodeUnavailable.
func (s *Tasks) Move(ctx context.Context, run *Run, asked Asked) (task.Task, error) {
	t := run.Task
	reply, err := redisx.Run(ctx, s.l.DB, lua.Move{
		States: run.keys.States(), Member: t.Ref, Attempt: t.Attempt, Run: lua.RunToken(t.Run),
		To: asked.To, By: codec.FormatAsker(asked.By), Events: s.l.Keys.Events(), Control: s.l.Keys.Control(),
	})
	if err != nil {
		return task.Task{}, publicError(err, moveCodes, t.Ref)
	}
	return s.Decode(t.Ref, lua.ReadTasksTask(reply)), nil
}
