package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/handover"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/lua"
)

// awaitedFor is how long workers tell leaders that a queue has room, after one has asked for it.
const awaitedFor = 5 * time.Second

// countLimit is the most waiting deliveries whose types are counted.
const countLimit = 256

// AwaitRoom looks at queues, and has their workers tell all leaders when that many deliveries are left of those that wait,
// or fewer: on the channel of leaders, once, within the next 5 s. It leaves out queues that cannot be read; if the workers cannot be
// asked, as Redis is full, the look counts nevertheless. Error: those of Redis, joined.
func (q *Queues) AwaitRoom(ctx context.Context, levels map[string]int) (map[string]handover.Look, error) {
	type reply struct {
		waiting *redis.IntCmd
		active  *redis.IntCmd // of a queue of one node
		paused  *redis.IntCmd
		ended   *redis.StringCmd
		skipped *redis.IntCmd
		several *redis.IntCmd // of a queue of one node
	}
	replies := make(map[string]reply, len(levels))
	pipe := q.db.Pipeline()
	for name, level := range levels {
		k := lua.AsynqQueue(q.names.asynq(name))
		if level != handover.NoLevel {
			pipe.Set(ctx, string(k.Awaited()), level, awaitedFor) // before the look, so that nothing is missed between the two
		}
		r := reply{
			waiting: pipe.LLen(ctx, string(k.Pending())), ended: pipe.Get(ctx, string(k.Processed())),
			skipped: pipe.Exists(ctx, string(k.Skipped())), paused: pipe.Exists(ctx, string(k.Paused())),
		}
		if isNodeQueue(name) {
			r.active, r.several = pipe.LLen(ctx, string(k.Active())), pipe.Exists(ctx, string(k.Several()))
		}
		replies[name] = r
	}
	_, _ = pipe.Exec(ctx) // each reply has its error
	looks := make(map[string]handover.Look, len(levels))
	var failures []error
	var several []string // queues of nodes in which some tasks may hold several slots
	for name, r := range replies {
		ended, err := r.ended.Int64()
		if errors.Is(err, redis.Nil) { // nothing has ended yet
			err = nil
		}
		if err := errors.Join(r.waiting.Err(), err); err != nil {
			failures = append(failures, fmt.Errorf("looking at queue %s: %w", name, err))
			continue
		}
		look := handover.Look{Waiting: int(r.waiting.Val()), Ended: ended, Paused: r.paused.Val() > 0}
		if r.active != nil {
			look.Active = int(r.active.Val())
			if r.several.Val() > 0 {
				several = append(several, name)
			}
		}
		if r.skipped.Val() > 0 {
			if look.Types, err = q.countTypes(ctx, name, look.Waiting); err != nil {
				failures = append(failures, err)
			}
		}
		looks[name] = look
	}
	return looks, errors.Join(append(failures, q.countSlots(ctx, several, looks))...)
}

// countTypes returns how many of the deliveries that wait in a queue have each type. It looks at those that have waited longest, and
// takes them for a sample of all. Error: one of Redis.
func (q *Queues) countTypes(ctx context.Context, name string, waiting int) (map[string]int, error) {
	pending := lua.AsynqQueue(q.names.asynq(name)).Pending()
	reply, err := redisx.Run(ctx, q.db, lua.CountTypes{Pending: pending, Limit: countLimit})
	if err != nil {
		return nil, fmt.Errorf("counting the types in queue %s: %w", name, err)
	}
	counts := make(map[string]int, len(reply.Types))
	for _, t := range reply.Types {
		counts[t.Type] = t.Number * max(waiting, reply.Seen) / reply.Seen
	}
	return counts, nil
}

// countSlots adds how many slots beyond one those tasks hold in the queues of nodes that hold several. It leaves queues
// out whose slots cannot be counted. Error: those of Redis, joined.
func (q *Queues) countSlots(ctx context.Context, queues []string, looks map[string]handover.Look) error {
	calls := make([]lua.CountSlots, len(queues))
	for i, name := range queues {
		calls[i].Several = lua.AsynqQueue(q.names.asynq(name)).Several()
	}
	var failures []error
	for i, r := range redisx.RunEach[lua.CountSlotsReply](ctx, q.db, calls) {
		look := looks[queues[i]]
		if look.Further = r.Reply.Further; r.Err == nil {
			looks[queues[i]] = look
			continue
		}
		delete(looks, queues[i])
		failures = append(failures, fmt.Errorf("counting the slots in queue %s: %w", queues[i], r.Err))
	}
	return errors.Join(failures...)
}

// ForeignSlots reads how many deliveries asynq's own servers work on at once, by queue. A server of several queues counts for
// each. One lives while its record does, which expires by Redis's clock; the times in the list of servers are of their own clocks. While
// there are none, that takes one command, else one more. Error: one of Redis.
func (q *Queues) ForeignSlots(ctx context.Context) (map[string]int, error) {
	slots := make(map[string]int)
	keys, err := q.db.ZRange(ctx, string(lua.AsynqServers), 0, -1).Result()
	if err != nil {
		return nil, fmt.Errorf("reading asynq's servers: %w", err)
	}
	keys = slices.DeleteFunc(keys, func(key string) bool { return strings.Contains(key, ":"+serverPrefix) })
	if len(keys) == 0 {
		return slots, nil
	}
	records, err := q.db.GetEach(ctx, keys)
	if err != nil {
		return nil, fmt.Errorf("reading asynq's servers: %w", err)
	}
	for _, record := range records {
		s, err := decodeServer([]byte(record)) // of a dead one, the record is empty
		if err != nil || s.status != "active" {
			continue
		}
		for _, asynqName := range s.queues {
			if name, ours := q.names.queue(asynqName); ours {
				slots[name] += s.concurrency
			}
		}
	}
	return slots, nil
}
