package queue

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// Examination says what Examine looks for.
type Examination struct {
	Checks string // the names of the checks that are wanted, each between blanks
	Repair bool   // repair what is found
}

// Finding is something that Examine found.
type Finding struct{ ID, Check, Words string }

// Examine examines deliveries of a queue by their ids, and repairs them. Error: one of Redis.
func (q *Queues) Examine(ctx context.Context, name string, ids []string, x Examination) ([]Finding, error) {
	k := lua.AsynqQueue(q.names.asynq(name))
	var found []Finding
	for some := range slices.Chunk(ids, batchLimit) {
		reply, err := redisx.Run(ctx, q.db, lua.ExamineDeliveries{
			Pending: k.Pending(), Active: k.Active(), Deadline: k.Deadline(), Checks: x.Checks, Repair: x.Repair,
			Arrivals: q.keys.Arrivals(name), Ids: some,
		})
		if err != nil {
			return found, fmt.Errorf("examining queue %s: %w", name, err)
		}
		for _, f := range reply.Found {
			found = append(found, Finding{ID: f.Member, Check: f.Check, Words: f.Words})
		}
	}
	return found, nil
}

// Known returns the queues of the installation that asynq knows. Error: one of Redis.
func (q *Queues) Known(ctx context.Context) ([]string, error) {
	known, err := q.listed(ctx)
	for i, asynqName := range known {
		known[i], _ = q.names.queue(asynqName)
	}
	return known, err
}

// Names is Known with the queues that nodes have for themselves. Error: one of Redis.
func (q *Queues) Names(ctx context.Context) ([]string, error) {
	names, err := q.all(ctx)
	for i, asynqName := range names {
		names[i], _ = q.names.queue(asynqName)
	}
	return names, err
}

// IsKnown reports whether asynq knows a queue. Error: one of Redis.
func (q *Queues) IsKnown(ctx context.Context, name string) (bool, error) {
	return q.db.SIsMember(ctx, string(lua.AsynqQueues), q.names.asynq(name)).Result()
}

// Listed returns the ids of those limit deliveries of a queue that have waited longest, and of as many that workers have. Error: one of
// Redis.
func (q *Queues) Listed(ctx context.Context, name string, limit int64) ([]string, error) {
	k := lua.AsynqQueue(q.names.asynq(name))
	pipe := q.db.Pipeline()
	pending, active := pipe.LRange(ctx, string(k.Pending()), -limit, -1), pipe.LRange(ctx, string(k.Active()), -limit, -1)
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("reading queue %s: %w", name, err)
	}
	return append(pending.Val(), active.Val()...), nil
}

// Pending returns those of the deliveries that wait in a queue. Error: one of Redis.
func (q *Queues) Pending(ctx context.Context, name string, ids []string) ([]string, error) {
	states, err := q.states(ctx, q.deliveries(name, ids))
	var pending []string
	for i, state := range states {
		if state == "pending" {
			pending = append(pending, ids[i])
		}
	}
	return pending, err
}

// Missing returns those of the deliveries that their queues do not have. Error: one of Redis.
func (q *Queues) Missing(ctx context.Context, deliveries []task.Delivery) ([]task.Delivery, error) {
	keys := make([]string, len(deliveries))
	for i, d := range deliveries {
		keys[i] = q.deliveries(d.Via(), []string{d.String()})[0]
	}
	states, err := q.states(ctx, keys)
	var missing []task.Delivery
	for i, state := range states {
		if state == "" {
			missing = append(missing, deliveries[i])
		}
	}
	return missing, err
}

// deliveries returns the keys of deliveries of a queue.
func (q *Queues) deliveries(name string, ids []string) []string {
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = string(lua.AsynqQueue(q.names.asynq(name)).Delivery(id))
	}
	return keys
}

// states reads the states of deliveries by their keys; that of one that does not exist is "".
func (q *Queues) states(ctx context.Context, keys []string) ([]string, error) {
	states := make([]string, 0, len(keys))
	for some := range slices.Chunk(keys, 4*batchLimit) {
		pipe := q.db.Pipeline()
		replies := make([]*redis.SliceCmd, len(some))
		for i, key := range some {
			replies[i] = pipe.HMGet(ctx, key, "state")
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return nil, fmt.Errorf("reading the states of deliveries: %w", err)
		}
		for _, reply := range replies {
			state, _ := reply.Val()[0].(string)
			states = append(states, state)
		}
	}
	return states, nil
}

// Drop removes deliveries from a queue that wait for a worker. Error: one of Redis.
func (q *Queues) Drop(ctx context.Context, name string, ids []string) error {
	_, err := redisx.Run(ctx, q.db, lua.Recall{Pending: lua.AsynqQueue(q.names.asynq(name)).Pending(), Ids: ids})
	return err
}

// queueKey matches the keys that a queue has while it holds something.
var queueKey = regexp.MustCompile(`^asynq:\{([^}]+)\}:(?:t:(.+)|pending|active|scheduled|retry|archived|completed)$`)

// OwnerOf returns the queue that holds something because of which there is a key, and the id of the delivery if it is one. ok is false for
// other keys, and for queues of other installations.
func (q *Queues) OwnerOf(key string) (name, id string, ok bool) {
	m := queueKey.FindStringSubmatch(key)
	if m == nil {
		return "", "", false
	}
	name, ok = q.names.queue(m[1])
	return name, m[2], ok
}

// DeadServer is a server that asynq lists though it is dead: Key is its key, or that of its workers.
type DeadServer struct {
	Key   string
	Since time.Time
}

// serverSets are the sets in which asynq lists servers and their workers, scored by when they count as dead, in seconds.
var serverSets = []string{string(lua.AsynqServers), string(lua.AsynqWorkers)}

// DeadServers returns servers that have been dead since a time, limit of them in each set at most.
func (q *Queues) DeadServers(ctx context.Context, before time.Time, limit int64) ([]DeadServer, error) {
	var all []DeadServer
	for _, set := range serverSets {
		dead, err := q.db.ZRangeByScoreWithScores(ctx, set, &redis.ZRangeBy{Min: "-inf", Max: seconds(before), Count: limit}).Result()
		if err != nil {
			return nil, fmt.Errorf("dead servers: %w", err)
		}
		for _, z := range dead {
			all = append(all, DeadServer{fmt.Sprint(z.Member), time.Unix(int64(z.Score), 0)})
		}
	}
	return all, nil
}

// DropDeadServers removes servers from asynq's list that have been dead since a time.
func (q *Queues) DropDeadServers(ctx context.Context, before time.Time) error {
	for _, set := range serverSets {
		if err := q.db.ZRemRangeByScore(ctx, set, "-inf", seconds(before)).Err(); err != nil {
			return fmt.Errorf("dead servers: %w", err)
		}
	}
	return nil
}

// seconds is a time as asynq scores it.
func seconds(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }
