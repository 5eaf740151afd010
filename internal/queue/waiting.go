package queue

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/lua"
)

// Next is the delivery that has waited longest in a queue.
type Next struct {
	Delivery string    // its id
	Since    time.Time // when it came; zero if that is not known
}

// Nexts reads, by queue, which delivery has waited longest. Queues in which none waits are missing. It takes two round
// trips. Error: *task.Error with CodeUnavailable.
func (q *Queues) Nexts(ctx context.Context, names []string) (map[string]Next, error) {
	nexts := make(map[string]Next, len(names))
	if len(names) == 0 {
		return nexts, nil
	}
	pipe := q.db.Pipeline()
	ids := make([]*redis.StringCmd, len(names))
	for i, name := range names {
		ids[i] = pipe.LIndex(ctx, string(lua.AsynqQueue(q.names.asynq(name)).Pending()), -1)
	}
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return nil, unavailable(err)
	}
	pipe = q.db.Pipeline()
	since := make(map[string]*redis.StringCmd, len(names))
	for i, name := range names {
		if id := ids[i].Val(); id != "" {
			nexts[name] = Next{Delivery: id}
			since[name] = pipe.HGet(ctx, string(lua.AsynqQueue(q.names.asynq(name)).Delivery(id)), "pending_since")
		}
	}
	if len(since) == 0 {
		return nexts, nil
	}
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return nil, unavailable(err)
	}
	for name, cmd := range since {
		if ns, err := cmd.Int64(); err == nil && ns > 0 {
			nexts[name] = Next{Delivery: nexts[name].Delivery, Since: time.Unix(0, ns).UTC()}
		}
	}
	return nexts, nil
}
