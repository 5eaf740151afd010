package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/lua"
)

// awaitedFor is how long workers tell leaders that a queue has room, after one has asked for it.
const awaitedFor = 5 * time.Second

// Look is what a leader sees of a queue for which it has more deliveries.
type Look struct {
	Waiting int   // deliveries that wait for a worker
	Ended   int64 // deliveries that have ended so far
}

// AwaitRoom looks at queues, and has their workers tell all leaders when that many deliveries are left of those that wait,
// or fewer: on the channel of leaders, once, within the next 5 s. It leaves out queues that cannot be read; if the workers cannot be
// asked, as Redis is full, the look counts nevertheless. Error: those of Redis, joined.
func (q *Queues) AwaitRoom(ctx context.Context, levels map[string]int) (map[string]Look, error) {
	type reply struct {
		waiting *redis.IntCmd
		ended   *redis.StringCmd
	}
	replies := make(map[string]reply, len(levels))
	pipe := q.db.Pipeline()
	for name, level := range levels {
		k := lua.AsynqQueue(q.names.asynq(name))
		pipe.Set(ctx, string(k.Awaited()), level, awaitedFor) // before the look, so that nothing is missed between the two
		replies[name] = reply{pipe.LLen(ctx, string(k.Pending())), pipe.Get(ctx, string(k.Processed()))}
	}
	_, _ = pipe.Exec(ctx) // each reply has its error
	looks := make(map[string]Look, len(levels))
	var failures []error
	for name, r := range replies {
		ended, err := r.ended.Int64()
		if errors.Is(err, redis.Nil) { // nothing has ended yet
			err = nil
		}
		if err := errors.Join(r.waiting.Err(), err); err != nil {
			failures = append(failures, fmt.Errorf("looking at queue %s: %w", name, err))
			continue
		}
		looks[name] = Look{Waiting: int(r.waiting.Val()), Ended: ended}
	}
	return looks, errors.Join(failures...)
}

// ForeignSlots reads how many deliveries asynq's own servers work on at once, by queue. A server of several queues counts for
// each. Error: one of Redis.
func (q *Queues) ForeignSlots(context.Context) (map[string]int, error) {
	servers, err := q.inspector.Servers()
	if err != nil {
		return nil, fmt.Errorf("reading asynq's servers: %w", err)
	}
	slots := make(map[string]int)
	for _, s := range servers {
		if s.Status != "active" || IsConsumer(s.ID) {
			continue
		}
		for asynqName := range s.Queues {
			if name, ours := q.names.queue(asynqName); ours {
				slots[name] += s.Concurrency
			}
		}
	}
	return slots, nil
}
