package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/lua"
)

// Tended is what Tend did.
type Tended struct {
	Forwarded int // tasks of other asynq clients that were due
	Orphans   int // deliveries put back whose worker had died
	Deleted   int // dead letters beyond asynq's limits, and finished tasks whose retention was over
}

// Tend does for all queues of the installation what asynq's servers do besides handling tasks, so that tasks of other
// asynq clients run when they are due, and nothing stays for ever. It does up to 100 of each kind for each queue. It goes
// on with the other queues if one fails. Errors: those of Redis, joined.
func (q *Queues) Tend(ctx context.Context) (Tended, error) {
	all, err := q.db.SMembers(ctx, string(lua.AsynqQueues)).Result()
	if err != nil {
		return Tended{}, fmt.Errorf("reading asynq's list of queues: %w", err)
	}
	var calls []lua.TendQueue
	for _, asynqName := range all {
		name, ours := q.names.queue(asynqName)
		if !ours {
			continue
		}
		k := lua.AsynqQueue(asynqName)
		calls = append(calls, lua.TendQueue{
			Pending: k.Pending(), Active: k.Active(), Deadline: k.Deadline(), Scheduled: k.Scheduled(), Retry: k.Retry(),
			Archived: k.Archived(), Completed: k.Completed(), Grace: orphanGrace, Arrivals: q.keys.Arrivals(name),
		})
	}
	var tended Tended
	var failures []error
	for _, r := range redisx.RunEach[lua.TendQueueReply](ctx, q.db, calls) {
		tended.Forwarded += r.Reply.Forwarded
		tended.Orphans += r.Reply.Orphans
		tended.Deleted += r.Reply.Deleted
		failures = append(failures, r.Err)
	}
	return tended, errors.Join(failures...)
}

// lengthsOf returns how many deliveries wait in each queue, by asynq's names, in one round trip.
func lengthsOf(ctx context.Context, db *redisx.DB, queues []string) ([]int64, error) {
	pipe := db.Pipeline()
	replies := make([]*redis.IntCmd, len(queues))
	for i, name := range queues {
		replies[i] = pipe.LLen(ctx, string(lua.AsynqQueue(name).Pending()))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("reading the lengths of the queues: %w", err)
	}
	lengths := make([]int64, len(queues))
	for i, r := range replies {
		lengths[i] = r.Val()
	}
	return lengths, nil
}
