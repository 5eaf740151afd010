package control

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// interpose calls do before every script that its client runs by itself.
type interpose func()

func (do interpose) DialHook(next redis.DialHook) redis.DialHook { return next }

func (do interpose) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" {
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
