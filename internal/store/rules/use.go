package rules

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// Use is how much of a limit is in use.
type Use struct {
	Held    int // slots that tasks hold: they are queued or running
	Waiting int // tasks that are due and wait in DTS. They may wait for something else
}

const (
	// UsesMost is how many sets of tasks Use counts: one for each partition and limit that is in use, and one for each
	// partition and lane of tasks that wait.
	UsesMost = 10_000
	// usesAtOnce is the most sets that one round trip counts: Redis serves nobody else during a pipeline.
	usesAtOnce = 1000
	// newestCap is the field of the caps that has the newest version.
	newestCap = "@"
)

// Use counts the tasks of limits, by the limit of the tasks, as limit.Table.Of returns it: "key:tenant-7". It counts
// those that wanted reports to be asked for. more says that there are more than UsesMost sets of such tasks, and that
// further ones were not counted. Error: CodeUnavailable.
func (r *Rules) Use(ctx context.Context, wanted func(limit string) bool) (_ map[string]Use, more bool, _ error) {
	sets, err := r.setsOf(ctx, wanted)
	if err != nil {
		return nil, false, err
	}
	more = len(sets) > UsesMost
	uses := make(map[string]Use)
	for some := range slices.Chunk(sets[:min(len(sets), UsesMost)], usesAtOnce) {
		pipe := r.l.DB.Pipeline()
		sizes := make([]*redis.IntCmd, len(some))
		for i, s := range some {
			sizes[i] = s.count(ctx, pipe)
		}
		if err := redisx.ExecReads(ctx, pipe); err != nil {
			return nil, false, layout.Unavailable(err)
		}
		for i, s := range some {
			s.add(uses, int(sizes[i].Val()))
		}
	}
	return uses, more, nil
}

// set is a set of tasks of a partition that hold slots of a limit, or that wait in a lane.
type set struct {
	holds lua.HoldsKey // "" for a lane
	ready lua.ReadyKey
	of    []string // the limits that it counts for
}

func (s set) count(ctx context.Context, pipe redis.Pipeliner) *redis.IntCmd {
	if s.holds != "" {
		return pipe.SCard(ctx, string(s.holds))
	}
	return pipe.ZCard(ctx, string(s.ready))
}

func (s set) add(uses map[string]Use, n int) {
	for _, limit := range s.of {
		use := uses[limit]
		if s.holds != "" {
			use.Held += n
		} else {
			use.Waiting += n
		}
		if use != (Use{}) {
			uses[limit] = use
		}
	}
}

// setsOf returns the sets of tasks of the limits that are wanted, in the same order if nothing changes. Error:
// CodeUnavailable.
func (r *Rules) setsOf(ctx context.Context, wanted func(string) bool) ([]set, error) {
	pipe := r.l.DB.Pipeline()
	caps := make([]*redis.StringSliceCmd, r.l.Partitions())
	lanes := make([]*redis.StringSliceCmd, r.l.Partitions())
	for p := range caps {
		keys := r.l.Keys.Partition(p)
		caps[p] = pipe.HKeys(ctx, string(keys.Caps()))
		lanes[p] = pipe.SMembers(ctx, string(keys.Backlog()))
	}
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return nil, layout.Unavailable(err)
	}
	var sets []set
	for p := range caps {
		sets = append(sets, setsIn(r.l.Keys.Partition(p), caps[p].Val(), lanes[p].Val(), wanted)...)
	}
	return sets, nil
}

// setsIn returns the sets of a partition. A task can hold a slot of a limit that has no cap there any more only after a
// loss of writes, until its leader counts again.
func setsIn(keys lua.Partition, caps, lanes []string, wanted func(string) bool) (sets []set) {
	slices.Sort(caps)
	slices.Sort(lanes)
	for _, limit := range caps {
		if limit != newestCap && wanted(limit) {
			sets = append(sets, set{holds: keys.Holds(limit), of: []string{limit}})
		}
	}
	for _, name := range lanes {
		limits, _ := task.SplitLimits(lua.ParseLane(name).Limits)
		of := slices.DeleteFunc(limits, func(limit string) bool { return !wanted(limit) })
		if len(of) > 0 {
			sets = append(sets, set{ready: keys.Ready(name), of: of})
		}
	}
	return sets
}
