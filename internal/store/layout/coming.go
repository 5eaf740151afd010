package layout

import (
	"context"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
)

// comingLimit is how many tasks of a partition Coming looks at: those that are due first.
const comingLimit = 2000

// Coming counts the tasks of a namespace that wait for their time, by the minute in which they are due, from a time on;
// "*" is all namespaces. It looks at the first ones of each partition only: until is before which time it has counted
// all. It takes one round trip. Error: CodeUnavailable.
func (l *Layout) Coming(
	ctx context.Context, namespace string, from time.Time, minutes int,
) (perMinute []int, until time.Time, _ error) {
	until = from.Add(time.Duration(minutes) * time.Minute)
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
		return nil, time.Time{}, Unavailable(err)
	}
	for _, first := range found { // beyond the last one that was read, some may be missing
		if n := len(first.Val()); n == comingLimit {
			last := time.UnixMilli(int64(first.Val()[n-1].Score)).UTC().Truncate(time.Minute)
			if last.Before(until) {
				until = last
			}
		}
	}
	perMinute = make([]int, max(0, int(until.Sub(from)/time.Minute)))
	for _, first := range found {
		for _, z := range first.Val() {
			name, _ := z.Member.(string)
			minute := int(time.UnixMilli(int64(z.Score)).Sub(from) / time.Minute)
			if (namespace == "*" || strings.HasPrefix(name, namespace+":")) && minute < len(perMinute) {
				perMinute[minute]++
			}
		}
	}
	return perMinute, until, nil
}
