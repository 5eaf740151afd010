package layout

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
)

// comingLimit is how many tasks of a partition Coming looks at: those that are due first.
const comingLimit = 2000

// Delayed is a task that waits for its time.
type Delayed struct {
	Ref task.Ref
	At  time.Time // when it is due
}

// Coming counts the tasks of a namespace that wait for their time, by the minute in which they are due, from a time on;
// "*" is all namespaces. It looks at the first ones of each partition only, and counts the minutes of which it has seen
// all. named are those of the first minutes, without order. It takes one round trip. Error: CodeUnavailable.
func (l *Layout) Coming(
	ctx context.Context, namespace string, from time.Time, minutes, names int,
) (perMinute []int, named []Delayed, _ error) {
	until := from.Add(time.Duration(minutes) * time.Minute)
	all, err := l.firstDue(ctx, from, until)
	if err != nil {
		return nil, nil, err
	}
	perMinute = make([]int, max(0, int(seenUntil(all, until).Sub(from)/time.Minute)))
	for _, z := range slices.Concat(all...) {
		name, _ := z.Member.(string)
		if namespace != "*" && !strings.HasPrefix(name, namespace+":") {
			continue
		}
		at := time.UnixMilli(int64(z.Score)).UTC()
		minute := int(at.Sub(from) / time.Minute)
		if minute < len(perMinute) {
			perMinute[minute]++
		}
		if ref, err := task.ParseRef(name); err == nil && minute < names { // doctor names those that are none
			named = append(named, Delayed{ref, at})
		}
	}
	return perMinute, named, nil
}

// firstDue returns the first tasks of each partition that are due from a time on, before another one, with their due
// times.
func (l *Layout) firstDue(ctx context.Context, from, until time.Time) ([][]redis.Z, error) {
	due := redis.ZRangeArgs{
		ByScore: true, Start: from.UnixMilli(), Stop: before(until), Count: comingLimit,
	}
	pipe := l.DB.Pipeline()
	found := make([]*redis.ZSliceCmd, l.Partitions())
	for p := range found {
		due.Key = string(l.Keys.Partition(p).Wheel())
		found[p] = pipe.ZRangeArgsWithScores(ctx, due)
	}
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return nil, Unavailable(err)
	}
	all := make([][]redis.Z, len(found))
	for p, cmd := range found {
		all[p] = cmd.Val()
	}
	return all, nil
}

// seenUntil returns the minute, until at the latest, before which all has every task that is due. Beyond the last one
// that was read of a partition, some may be missing.
func seenUntil(all [][]redis.Z, until time.Time) time.Time {
	for _, first := range all {
		if n := len(first); n == comingLimit {
			last := time.UnixMilli(int64(first[n-1].Score)).UTC().Truncate(time.Minute)
			if last.Before(until) {
				until = last
			}
		}
	}
	return until
}
