package queue

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/lua"
)

// Waiting is what waits in a queue for a worker.
type Waiting struct {
	Number int
	Oldest string    // the id of the delivery that has waited longest
	Since  time.Time // when it came; zero if that is not known
}

// Waiting returns what waits for workers, by queue, without the queues in which nothing does. It takes three round
// trips, or two commands if nothing waits and Redis is no cluster. Error: *task.Error with CodeUnavailable.
func (q *Queues) Waiting(ctx context.Context) (map[string]Waiting, error) {
	names, err := q.db.SMembers(ctx, string(lua.AsynqQueues)).Result()
	if err != nil && !redisx.LeaveOutKey(ctx, string(lua.AsynqQueues), err) {
		return nil, unavailable(err)
	}
	names = slices.DeleteFunc(names, func(name string) bool { _, ours := q.names.queue(name); return !ours })
	all := make(map[string]Waiting)
	if none, err := q.noneWaiting(ctx, names); none || err != nil {
		return all, err
	}
	for some := range slices.Chunk(names, outlineLimit) {
		if err := q.addWaiting(ctx, all, some); err != nil {
			return nil, unavailable(err)
		}
	}
	return all, nil
}

// noneWaiting reports whether nothing waits in queues, of asynq's names, if one command tells it. Error:
// CodeUnavailable.
func (q *Queues) noneWaiting(ctx context.Context, names []string) (bool, error) {
	if len(names) == 0 || q.db.Sharded() {
		return len(names) == 0, nil
	}
	keys := make([]string, len(names))
	for i, name := range names {
		keys[i] = string(lua.AsynqQueue(name).Pending())
	}
	n, err := q.db.Exists(ctx, keys...).Result()
	if err != nil {
		return false, unavailable(err)
	}
	return n == 0, nil
}

// addWaiting adds what waits in queues, of asynq's names. Error: one of Redis.
func (q *Queues) addWaiting(ctx context.Context, all map[string]Waiting, names []string) error {
	pipe := q.db.Pipeline()
	numbers, oldest := make([]*redis.IntCmd, len(names)), make([]*redis.StringCmd, len(names))
	for i, name := range names {
		key := string(lua.AsynqQueue(name).Pending())
		numbers[i], oldest[i] = pipe.LLen(ctx, key), pipe.LIndex(ctx, key, -1)
	}
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return err
	}
	pipe = q.db.Pipeline()
	since := make(map[string]*redis.StringCmd)
	for i, name := range names {
		id := oldest[i].Val()
		if id == "" {
			continue
		}
		own, _ := q.names.queue(name)
		all[own] = Waiting{Number: int(numbers[i].Val()), Oldest: id}
		since[own] = pipe.HGet(ctx, string(lua.AsynqQueue(name).Delivery(id)), "pending_since")
	}
	if len(since) == 0 {
		return nil
	}
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return err
	}
	for name, cmd := range since {
		if ns, err := cmd.Int64(); err == nil && ns > 0 {
			p := all[name]
			p.Since = time.Unix(0, ns).UTC()
			all[name] = p
		}
	}
	return nil
}
