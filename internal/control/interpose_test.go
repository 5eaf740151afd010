package control

import (
	"context"

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

// interposed makes use cases that let others do something before each of their writes.
func (w *world) interposed(do func()) *Control {
	w.t.Helper()
	db := w.server.DB(w.t)
	c := w.open(db)
	db.AddHook(interpose(do))
	return c
}
