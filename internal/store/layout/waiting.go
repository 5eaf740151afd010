package layout

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/lua"
)

// Waiting is how many tasks wait somewhere, and since when the first of them has been due.
type Waiting struct {
	Number int
	Oldest time.Time
}

// Plus returns both together.
func (w Waiting) Plus(other Waiting) Waiting {
	if w.Oldest.IsZero() || !other.Oldest.IsZero() && other.Oldest.Before(w.Oldest) {
		w.Oldest = other.Oldest
	}
	w.Number += other.Number
	return w
}

// Waiting counts the tasks that are due and wait, by queue, in all partitions, and finds the oldest of each queue.
// It leaves out those of Unnamed. It takes two round trips, or one command if nothing waits and Redis is no
// cluster. Error: CodeUnavailable.
func (l *Layout) Waiting(ctx context.Context) (map[string]Waiting, error) {
	waiting := make(map[string]Waiting)
	if none, err := l.noBacklog(ctx); none || err != nil {
		return waiting, err
	}
	sets, err := l.readySets(ctx, below(l.partitions))
	if err != nil {
		return nil, err
	}
	for some := range slices.Chunk(sets, countsAtOnce) {
		pipe := l.DB.Pipeline()
		numbers, oldest := make([]*redis.IntCmd, len(some)), make([]*redis.ZSliceCmd, len(some))
		for i, set := range some {
			numbers[i] = pipe.ZCard(ctx, string(set.key))
			oldest[i] = pipe.ZRangeWithScores(ctx, string(set.key), 0, 0)
		}
		if err := redisx.ExecReads(ctx, pipe); err != nil {
			return nil, Unavailable(err)
		}
		for i, set := range some {
			for _, first := range oldest[i].Val() {
				one := Waiting{Number: int(numbers[i].Val()), Oldest: time.UnixMilli(int64(first.Score)).UTC()}
				waiting[set.queue] = waiting[set.queue].Plus(one)
			}
		}
	}
	delete(waiting, lua.Unnamed)
	return waiting, nil
}

// noBacklog reports whether no task waits in any partition, if one command tells it. Error: CodeUnavailable.
func (l *Layout) noBacklog(ctx context.Context) (bool, error) {
	if l.DB.Sharded() {
		return false, nil
	}
	keys := make([]string, l.partitions)
	for p := range keys {
		keys[p] = string(l.Keys.Partition(p).Backlog())
	}
	n, err := l.DB.Exists(ctx, keys...).Result()
	if err != nil {
		return false, Unavailable(err)
	}
	return n == 0, nil
}
