package layout

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/lua"
	"github.com/dts-sched/dts/lua/contract"
)

// ready is a set of tasks of a queue that are due and wait in a partition: those of one lane, or the others.
type ready struct {
	partition int
	queue     string
	lane      lua.Lane
	key       lua.ReadyKey
}

// readySets returns the sets of those partitions. Errors: CodeUnavailable, CodeUnreadable.
func (l *Layout) readySets(ctx context.Context, partitions []int) ([]ready, error) {
	pipe := l.DB.Pipeline()
	backlogs := make([]*redis.StringSliceCmd, len(partitions))
	for i, p := range partitions {
		backlogs[i] = pipe.SMembers(ctx, string(l.Keys.Partition(p).Backlog()))
	}
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return nil, Unavailable(err)
	}
	var sets []ready
	for i, p := range partitions {
		for _, name := range backlogs[i].Val() {
			lane := lua.ParseLane(name)
			sets = append(sets, ready{p, lane.Queue, lane, l.Keys.Partition(p).Ready(name)})
		}
	}
	return sets, nil
}

// ReadySets returns the sets of tasks that are due and wait in those partitions, by partition: all of them, or only
// those that may have tasks of a queue if that is not "". Error: CodeUnavailable.
func (l *Layout) ReadySets(ctx context.Context, partitions []int, queue string) (map[int][]lua.ReadyKey, error) {
	all, err := l.readySets(ctx, partitions)
	keys := make(map[int][]lua.ReadyKey)
	for _, set := range all {
		if queue == "" || queue == set.queue || set.queue == lua.Unnamed {
			keys[set.partition] = append(keys[set.partition], set.key)
		}
	}
	return keys, err
}

// Unnamed counts the tasks that are due, that nobody serves and that wait without a name. Error: CodeUnavailable.
func (l *Layout) Unnamed(ctx context.Context) (int, error) {
	pipe := l.DB.Pipeline()
	counts := make([]*redis.IntCmd, l.Partitions())
	for p := range counts {
		counts[p] = pipe.ZCard(ctx, string(l.Keys.Partition(p).Ready(lua.Unnamed)))
	}
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return 0, Unavailable(err)
	}
	sum := 0
	for _, count := range counts {
		sum += int(count.Val())
	}
	return sum, nil
}

// Backlog counts the tasks that are due and wait, by queue, in all partitions. It leaves out those of Unnamed, which
// are of any queues. Error: CodeUnavailable.
func (l *Layout) Backlog(ctx context.Context) (map[string]int, error) {
	counts := make(map[string]int)
	err := l.eachReady(ctx, below(l.Partitions()), func(set ready, n int) { counts[set.queue] += n })
	delete(counts, lua.Unnamed)
	return counts, err
}

// BacklogOf counts the tasks that are due and wait in each of those partitions. One in which a key is damaged has no
// count. Error: CodeUnavailable.
func (l *Layout) BacklogOf(ctx context.Context, partitions []int) (map[int]int, error) {
	counts := make(map[int]int, len(partitions))
	for _, p := range partitions {
		counts[p] = 0
	}
	err := l.eachReady(ctx, partitions, func(set ready, n int) { counts[set.partition] += n })
	if !redisx.IsDamage(err) {
		return counts, err
	}
	if len(partitions) == 1 {
		return nil, nil
	}
	clear(counts)
	for _, p := range partitions {
		of, err := l.BacklogOf(ctx, []int{p})
		if err != nil {
			return nil, err
		}
		maps.Copy(counts, of)
	}
	return counts, nil
}

// countsAtOnce is the most sets that one round trip counts: Redis serves nobody else during a pipeline.
const countsAtOnce = 1000

// eachReady calls visit for every set of those partitions that holds tasks, with their number. Error: CodeUnavailable.
func (l *Layout) eachReady(ctx context.Context, partitions []int, visit func(set ready, n int)) error {
	sets, err := l.readySets(ctx, partitions)
	if err != nil {
		return err
	}
	for some := range slices.Chunk(sets, countsAtOnce) {
		pipe := l.DB.Pipeline()
		sizes := make([]*redis.IntCmd, len(some))
		for i, set := range some {
			sizes[i] = pipe.ZCard(ctx, string(set.key))
		}
		if err := redisx.ExecReads(ctx, pipe); err != nil {
			return Unavailable(err)
		}
		for i, set := range some {
			if n := int(sizes[i].Val()); n > 0 {
				visit(set, n)
			}
		}
	}
	return nil
}

// waitingSample is how many tasks of a partition that no leader has looked at yet are looked at to count those of a
// queue.
const waitingSample = 64

// CountWaiting counts the tasks of a queue that are due and not handed over, in all partitions. Those that no leader
// has looked at yet, usually for some milliseconds, are estimated. Error: CodeUnavailable.
func (l *Layout) CountWaiting(ctx context.Context, queue string) (int, error) {
	calls := make([]lua.CountWaiting, l.Partitions())
	for p := range calls {
		calls[p] = lua.CountWaiting{Wheel: l.Keys.Partition(p).Wheel(), Queue: queue, Sample: waitingSample}
	}
	total := 0
	for _, r := range redisx.RunEach[lua.CountWaitingReply](ctx, l.DB, calls) {
		if r.Err != nil {
			return 0, Unavailable(r.Err)
		}
		total += r.Reply.Waiting
	}
	return total, nil
}

// WaitingNames are the names of queues and lanes that have waiting tasks in a partition.
type WaitingNames struct {
	All map[string]bool
	Of  map[string]int // how many a namespace has: its task is the first one that waits
}

// MayHave reports whether a task of a namespace that nobody serves may wait under a name, as place_apart of apart.lua
// decides it.
func (n WaitingNames) MayHave(namespace, name string) bool {
	const limit = contract.WaitingNamesLimit
	return n.All[name] || 2*len(n.All) < limit || n.Of[namespace] < limit-len(n.All)
}

// CrowdedNames reads the names of those partitions in which a namespace may have as many as it may. Error:
// CodeUnavailable.
func (l *Layout) CrowdedNames(ctx context.Context) (map[int]WaitingNames, error) {
	pipe := l.DB.Pipeline()
	counts := make([]*redis.IntCmd, l.Partitions())
	for p := range counts {
		counts[p] = pipe.SCard(ctx, string(l.Keys.Partition(p).Backlog()))
	}
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return nil, Unavailable(err)
	}
	crowded := make(map[int]WaitingNames)
	for p, count := range counts {
		if 2*count.Val() < contract.WaitingNamesLimit {
			continue
		}
		var err error
		if crowded[p], err = l.waitingNames(ctx, p); err != nil {
			return nil, err
		}
	}
	return crowded, nil
}

// waitingNames reads the names of a partition. Error: CodeUnavailable.
func (l *Layout) waitingNames(ctx context.Context, p int) (WaitingNames, error) {
	k := l.Keys.Partition(p)
	names, err := l.DB.SMembers(ctx, string(k.Backlog())).Result()
	if err != nil {
		return WaitingNames{}, Unavailable(err)
	}
	names = slices.DeleteFunc(names, func(name string) bool { // lanes of fair keys, limits and reaches do not count
		lane := lua.ParseLane(name)
		return lane.Key != "" || lane.Limits != "" || lane.Reach != ""
	})
	pipe := l.DB.Pipeline()
	first := make([]*redis.StringSliceCmd, len(names))
	for i, name := range names {
		first[i] = pipe.ZRange(ctx, string(k.Ready(name)), 0, 0)
	}
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return WaitingNames{}, Unavailable(err)
	}
	waiting := WaitingNames{All: make(map[string]bool, len(names)), Of: make(map[string]int)}
	for i, name := range names {
		waiting.All[name] = true
		for _, member := range first[i].Val() {
			namespace, _, _ := strings.Cut(member, ":")
			waiting.Of[namespace]++
		}
	}
	return waiting, nil
}
