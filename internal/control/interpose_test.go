package control

import (
	"context"
	"io"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/lua"
)

// interpose calls do before its client writes a schedule.
type interpose func()

var writeSchedule = redis.NewScript(lua.ByName("put_schedule").Source).Hash()

func (do interpose) DialHook(next redis.DialHook) redis.DialHook { return next }

func (do interpose) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); cmd.Name() == "evalsha" && args[1] == writeSchedule {
			do()
		}
		return next(ctx, cmd)
	}
}

func (do interpose) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// unreading breaks the connection whenever a client reads tasks, but for the first times.
type unreading struct{ left int }

var readTasks = redis.NewScript(lua.ByName("read_tasks").Source).Hash()

func (*unreading) DialHook(next redis.DialHook) redis.DialHook { return next }

func (u *unreading) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if u.breaks(cmd) {
			cmd.SetErr(io.EOF)
			return io.EOF
		}
		return next(ctx, cmd)
	}
}

func (u *unreading) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if !slices.ContainsFunc(cmds, u.breaks) {
			return next(ctx, cmds)
		}
		for _, cmd := range cmds {
			cmd.SetErr(io.EOF)
		}
		return io.EOF
	}
}

func (u *unreading) breaks(cmd redis.Cmder) bool {
	if args := cmd.Args(); cmd.Name() != "evalsha" || args[1] != readTasks {
		return false
	}
	u.left--
	return u.left < 0
}

// interposed makes use cases that let others do something before each of their writes.
func (w *world) interposed(do func()) *Control {
	w.t.Helper()
	db := w.server.DB(w.t)
	c := w.open(db)
	db.AddHook(interpose(do))
	return c
}
