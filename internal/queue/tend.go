package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/lua"
)

// tendLimit is the most queues that one call of Tend looks at, so that its cost does not grow with their number.
const tendLimit = 32

// Tended is what Tend did. Next is where the next call goes on.
type Tended struct {
	Next      int
	Forwarded int // tasks of other asynq clients that were due
	Orphans   int // deliveries put back whose worker had died
	Deleted   int // dead letters beyond asynq's limits, and finished tasks whose retention was over
}

// Tend does for queues of the installation what asynq's servers do besides handling tasks, so that tasks of other asynq
// clients run when they are due, and nothing stays for ever. It does up to 100 of each kind for each queue, for up to 32
// queues from position on, which is 0 at first and then the Next of the call before. It goes on with the other queues if one
// fails. Errors: those of Redis, joined.
func (q *Queues) Tend(ctx context.Context, position int) (Tended, error) {
	queues, next, err := q.toTend(ctx, position)
	if err != nil {
		return Tended{}, err
	}
	pipe := q.db.Pipeline()
	holds := make([]*redis.IntCmd, len(queues))
	for i, c := range queues {
		holds[i] = pipe.Exists(ctx, string(c.Active), string(c.Scheduled), string(c.Retry), string(c.Archived), string(c.Completed))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return Tended{}, fmt.Errorf("looking at asynq's queues: %w", err)
	}
	var calls []lua.TendQueue
	for i, c := range queues {
		if holds[i].Val() > 0 {
			calls = append(calls, c)
		}
	}
	tended := Tended{Next: next}
	var failures []error
	for _, r := range redisx.RunEach[lua.TendQueueReply](ctx, q.db, calls) {
		tended.Forwarded += r.Reply.Forwarded
		tended.Orphans += r.Reply.Orphans
		tended.Deleted += r.Reply.Deleted
		failures = append(failures, r.Err)
	}
	return tended, errors.Join(failures...)
}

// toTend returns the calls for up to tendLimit queues from position on, and the position after them: 0 after the last.
func (q *Queues) toTend(ctx context.Context, position int) (calls []lua.TendQueue, next int, _ error) {
	all, err := q.db.SMembers(ctx, string(lua.AsynqQueues)).Result()
	if err != nil {
		return nil, 0, fmt.Errorf("reading asynq's list of queues: %w", err)
	}
	slices.Sort(all)
	for _, asynqName := range all[min(position, len(all)):] {
		name, ours := q.names.queue(asynqName)
		position++
		if !ours {
			continue
		}
		k := lua.AsynqQueue(asynqName)
		calls = append(calls, lua.TendQueue{
			Pending: k.Pending(), Active: k.Active(), Deadline: k.Deadline(), Scheduled: k.Scheduled(), Retry: k.Retry(),
			Archived: k.Archived(), Completed: k.Completed(), Grace: orphanGrace, Arrivals: q.keys.Arrivals(name),
		})
		if len(calls) == tendLimit {
			return calls, position, nil
		}
	}
	return calls, 0, nil
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
