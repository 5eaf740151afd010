package layout

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/route"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// Leaders returns the nodes that lead those partitions. A partition that nobody leads is not in the map. It takes two
// round trips. Error: CodeUnavailable.
func (l *Layout) Leaders(ctx context.Context, partitions []int) (map[int]string, error) {
	pipe := l.DB.Pipeline()
	newest := make([]*redis.StringCmd, len(partitions))
	for i, p := range partitions {
		newest[i] = pipe.Get(ctx, string(l.Keys.Partition(p).Lease()))
	}
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return nil, Unavailable(err)
	}
	pipe = l.DB.Pipeline()
	terms := make(map[int]*redis.IntCmd, len(partitions))
	leaders := make(map[int]string, len(partitions))
	for i, p := range partitions {
		_, node, named := strings.Cut(newest[i].Val(), ":")
		if named {
			leaders[p], terms[p] = node, pipe.Exists(ctx, string(l.Keys.Partition(p).Term(newest[i].Val())))
		}
	}
	if len(terms) == 0 {
		return leaders, nil
	}
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return nil, Unavailable(err)
	}
	for p, leads := range terms {
		if leads.Val() == 0 {
			delete(leaders, p)
		}
	}
	return leaders, nil
}

// RefusesWrites returns what the server of a partition says while it refuses all writes and still reads; "" if it takes
// writes, or does not answer. It makes a write that changes nothing.
func (l *Layout) RefusesWrites(ctx context.Context, partition int) string {
	key := string(l.Keys.Partition(partition).States()) // it never expires
	return redisx.RefusedWrites(l.DB.Persist(ctx, key).Err())
}

// LongestRunning returns running tasks of all partitions: of each partition, those that began first, as many as
// ofEach. It takes one round trip. Error: CodeUnavailable.
func (l *Layout) LongestRunning(ctx context.Context, ofEach int) ([]task.Ref, error) {
	refs, _, err := l.running(ctx, "+inf", ofEach)
	return refs, err
}

// RunningSince is LongestRunning for tasks that began before a time. more: a partition has further ones.
func (l *Layout) RunningSince(ctx context.Context, at time.Time, ofEach int) (refs []task.Ref, more bool, _ error) {
	return l.running(ctx, before(at), ofEach)
}

// running returns tasks whose start is up to the end of a range.
func (l *Layout) running(ctx context.Context, end string, ofEach int) (refs []task.Ref, more bool, _ error) {
	pipe := l.DB.Pipeline()
	first := make([]*redis.StringSliceCmd, l.Partitions())
	for p := range first {
		first[p] = pipe.ZRangeByScore(ctx, string(l.Keys.Partition(p).Running()), &redis.ZRangeBy{
			Min: "-inf", Max: end, Count: int64(ofEach),
		})
	}
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return nil, false, Unavailable(err)
	}
	for _, names := range first {
		more = more || len(names.Val()) == ofEach
		for _, name := range names.Val() {
			if ref, err := task.ParseRef(name); err == nil {
				refs = append(refs, ref)
			}
		}
	}
	return refs, more, nil
}

// ReadyBefore is what comes before a task that is due and waits.
type ReadyBefore struct {
	Tasks int // of its queue and fair key, in all partitions
	Keys  int // other fair keys of its queue that have waiting tasks, and get turns, too
}

// CountReadyBefore counts what comes before a task that is due and waits. It takes one round trip. Error:
// CodeUnavailable.
func (l *Layout) CountReadyBefore(ctx context.Context, t task.Task) (before ReadyBefore, _ error) {
	move := route.Move{}
	if t.MovedFrom != "" {
		move = route.Move{From: t.MovedFrom, To: t.MoveTo}
	}
	lane := lua.Lane{
		Queue: t.Queue, Type: "", Key: t.FairKey, Weight: 0, Limits: task.JoinLimits(t.Limits, t.Cost),
		Reach: move.Word(t.Reach),
	}
	if t.FairKey != "" {
		lane.Weight = t.Weight()
	}
	ofType := lane
	ofType.Type = t.Type
	names := []string{lane.Name(), ofType.Name()}
	pipe := l.DB.Pipeline()
	var counts []*redis.IntCmd
	var backlogs []*redis.StringSliceCmd
	rank := "(" + strconv.FormatFloat(codec.Rank(t.DueAt, t.Priority), 'f', -1, 64)
	for p := range l.Partitions() {
		k := l.Keys.Partition(p)
		backlogs = append(backlogs, pipe.SMembers(ctx, string(k.Backlog())))
		for _, name := range names {
			counts = append(counts, pipe.ZCount(ctx, string(k.Ready(name)), "-inf", rank))
		}
	}
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return before, Unavailable(err)
	}
	for _, count := range counts {
		before.Tasks += int(count.Val())
	}
	keys := make(map[string]bool)
	for _, backlog := range backlogs {
		for _, name := range backlog.Val() {
			other := lua.ParseLane(name)
			if other.Queue == t.Queue && other.Key != "" && other.Key != t.FairKey {
				keys[other.Key] = true
			}
		}
	}
	before.Keys = len(keys)
	return before, nil
}

// ReadySet is the tasks of a queue, or of one type of it, that are due and wait in a partition.
type ReadySet struct {
	Partition int
	Queue     string
	Type      string // "" if they do not wait by their type
	Limits    string // that they have, and their cost, as task.SplitLimits reads them; "" if they did not wait for slots
	Reach     string // where they may run, as package route writes it; "" for any node
	Number    int
	Oldest    time.Time // when the one was due that comes next
	First     string    // the task that comes next
}

// AnyWaits reports whether tasks that are due wait in any partition, or one of some further keys exists. It takes one
// round trip. Error: CodeUnavailable.
func (l *Layout) AnyWaits(ctx context.Context, further []string) (bool, error) {
	keys := slices.Clone(further)
	for p := range l.Partitions() {
		keys = append(keys, string(l.Keys.Partition(p).Backlog()))
	}
	n, err := l.DB.CountExisting(ctx, keys)
	return n > 0, unavailableIf(err)
}

// ReadyOf returns the sets of tasks of a queue that are due and wait; "" stands for all queues. It leaves out those of
// Unnamed. It takes two round trips, and more for thousands of sets. Error: CodeUnavailable.
func (l *Layout) ReadyOf(ctx context.Context, queue string) ([]ReadySet, error) {
	all, err := l.readySets(ctx, below(l.partitions))
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(r ready) bool { return r.queue == lua.Unnamed || queue != "" && r.queue != queue })
	var sets []ReadySet
	for some := range slices.Chunk(all, countsAtOnce) {
		pipe := l.DB.Pipeline()
		numbers, oldest := make([]*redis.IntCmd, len(some)), make([]*redis.ZSliceCmd, len(some))
		for i, r := range some {
			numbers[i] = pipe.ZCard(ctx, string(r.key))
			oldest[i] = pipe.ZRangeWithScores(ctx, string(r.key), 0, 0)
		}
		if err := redisx.ExecReads(ctx, pipe); err != nil {
			return nil, Unavailable(err)
		}
		for i, r := range some {
			for _, first := range oldest[i].Val() { // none of a set that is empty
				sets = append(sets, ReadySet{
					Partition: r.partition, Queue: r.queue, Type: r.lane.Type, Limits: r.lane.Limits, Reach: r.lane.Reach,
					Number: int(numbers[i].Val()), Oldest: codec.DueOfRank(first.Score), First: memberOf(first),
				})
			}
		}
	}
	return sets, nil
}

// memberOf is the name of a member of a sorted set.
func memberOf(z redis.Z) string {
	name, _ := z.Member.(string)
	return name
}

// before is the end of a range of scores that ends before a time.
func before(at time.Time) string { return "(" + strconv.FormatInt(at.UnixMilli(), 10) }
