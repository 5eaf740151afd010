// Package partition has what a leader does to its partition, a fixed share of the tasks and schedules. A Partition only
// reads. A Leader exists for the term of a lease and writes: every script it runs compares its fence with the lease.
package partition

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/store/schedules"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// Options says where the partitions are. All but Types are required.
type Options struct {
	Layout    *layout.Layout
	Tasks     *tasks.Tasks
	Schedules *schedules.Schedules
	Types     task.Types // knows the timeouts of attempts; nil knows no type
}

// Partitions is the partitions of one installation.
type Partitions struct{ o Options }

// New returns the partitions of an installation.
func New(o Options) *Partitions { return &Partitions{o: o} }

// Count is the number of partitions.
func (p *Partitions) Count() int { return p.o.Layout.Partitions() }

// LeaseKey is the key of a partition's lease.
func (p *Partitions) LeaseKey(number int) lua.LeaseKey {
	return p.o.Layout.Keys.Partition(number).Lease()
}

// At returns the partition of that number, from 0 to Count()-1.
func (p *Partitions) At(number int) *Partition {
	return &Partition{o: p.o, number: number, keys: p.o.Layout.Keys.Partition(number)}
}

// Partition reads one partition. It needs no lease.
type Partition struct {
	o      Options
	number int
	keys   lua.Partition
}

// Depth counts the tasks and schedules of a partition. Each count may be Unknown.
type Depth struct {
	Scheduled, Overdue, Queued, Running, Finished       int64 // Overdue tasks are also Scheduled
	ActiveSchedules, RestingSchedules, OverdueSchedules int64 // resting: paused or ended
}

// Unknown is the count of what cannot be counted, as a key of it is damaged.
const Unknown = -1

// Depths counts the tasks and schedules of partitions. What is overdue is so by the clock of the server that holds the
// partition. If a server does not answer, the depths of its partitions are left out, and those of the others are
// returned. Error: why something is left out or Unknown, joined.
func (p *Partitions) Depths(ctx context.Context, numbers []int) (map[int]Depth, error) {
	keys := make([]string, len(numbers))
	for i, number := range numbers {
		keys[i] = string(p.o.Layout.Keys.Partition(number).Wheel())
	}
	var mu sync.Mutex
	depths, failures := make(map[int]Depth, len(numbers)), []error(nil)
	err := p.o.Layout.DB.EachServer(ctx, keys, func(server redis.Cmdable, places []int) {
		some := make([]int, len(places))
		for k, i := range places {
			some[k] = numbers[i]
		}
		counted, err := p.depthsAt(ctx, server, some)
		mu.Lock()
		defer mu.Unlock()
		maps.Copy(depths, counted)
		failures = append(failures, err)
	})
	if err := errors.Join(append(failures, err)...); err != nil {
		return depths, fmt.Errorf("counting tasks: %w", err)
	}
	return depths, nil
}

// depthsAt is Depths for partitions of one server.
func (p *Partitions) depthsAt(ctx context.Context, server redis.Cmdable, numbers []int) (map[int]Depth, error) {
	now, err := server.Time(ctx).Result()
	if err != nil {
		return nil, err
	}
	pipe := p.o.Layout.DB.Pipeline()
	asked := make([]counts, len(numbers))
	for i, number := range numbers {
		asked[i] = countIn(ctx, pipe, p.o.Layout.Keys.Partition(number), now)
	}
	_, _ = pipe.Exec(ctx) // each count has its error
	backlog, err := p.o.Layout.BacklogOf(ctx, numbers)
	if err != nil {
		return nil, err
	}
	depths := make(map[int]Depth, len(numbers))
	var failures []error
	for i, number := range numbers {
		ready, known := backlog[number]
		if !known {
			ready = Unknown
			failures = append(failures,
				fmt.Errorf("partition %d: a key of its due tasks is damaged: dtsctl doctor names it", number))
		}
		depth, err := asked[i].depth(int64(ready))
		if err != nil {
			failures = append(failures, fmt.Errorf("partition %d: %w", number, err))
		}
		if err == nil || redisx.IsDamage(err) {
			depths[number] = depth
		}
	}
	return depths, errors.Join(failures...)
}

// counts are what Redis is asked for the depth of a partition.
type counts struct{ wheel, overdue, queued, running, expiry, schedules, ticks, overdueTicks *redis.IntCmd }

// known has the counts of damaged keys be Unknown. Error: one of Redis that is not for damage; else that of the first
// damaged key.
func (c counts) known() (damage error) {
	for _, count := range []*redis.IntCmd{
		c.wheel, c.overdue, c.queued, c.running, c.expiry, c.schedules, c.ticks, c.overdueTicks,
	} {
		err := count.Err()
		if err != nil && !redisx.IsDamage(err) {
			return err
		}
		if err != nil {
			damage = cmp.Or(damage, fmt.Errorf("%v is damaged: %w", count.Args()[1], err))
			count.SetVal(Unknown)
		}
	}
	return damage
}

// countIn adds to a pipeline what counts in a partition; now is the time of its server.
func countIn(ctx context.Context, pipe redis.Pipeliner, k lua.Partition, now time.Time) counts {
	by := strconv.FormatInt(now.UnixMilli(), 10)
	return counts{
		wheel: pipe.ZCard(ctx, string(k.Wheel())), overdue: pipe.ZCount(ctx, string(k.Wheel()), "-inf", by),
		queued: pipe.ZCard(ctx, string(k.Queued())), running: pipe.ZCard(ctx, string(k.Running())), expiry: pipe.ZCard(ctx, string(k.Expiry())),
		schedules: pipe.ZCard(ctx, string(k.Schedules())),
		ticks:     pipe.ZCard(ctx, string(k.Ticks())), overdueTicks: pipe.ZCount(ctx, string(k.Ticks()), "-inf", by),
	}
}

// depth is the result; ready is how many tasks of the partition are due and wait. Error: as known; if that is of
// a damaged key, the other counts are right.
func (c counts) depth(ready int64) (Depth, error) {
	err := c.known()
	return Depth{
		Scheduled: sum(c.wheel.Val(), ready), Overdue: sum(c.overdue.Val(), ready),
		Queued: c.queued.Val(), Running: c.running.Val(), Finished: c.expiry.Val(),
		ActiveSchedules: c.ticks.Val(), OverdueSchedules: c.overdueTicks.Val(),
		RestingSchedules: difference(c.schedules.Val(), c.ticks.Val()),
	}, err
}

// sum adds two counts, of which each may be Unknown.
func sum(a, b int64) int64 {
	if a == Unknown || b == Unknown {
		return Unknown
	}
	return a + b
}

// difference subtracts a count from another one, of which each may be Unknown.
func difference(a, b int64) int64 {
	if a == Unknown || b == Unknown {
		return Unknown
	}
	return a - b
}

func (p *Partition) delivery(d task.Definition, attempt int, due, claimed time.Time) task.Delivery {
	delivery := task.Delivery{
		Ref: d.Ref, Attempt: attempt, Type: d.Type, Queue: d.Queue, Timeout: p.o.Types.Timeout(d), DueAt: due, ClaimedAt: claimed,
		Trace: d.Trace, FairKey: d.FairKey, LimitKey: d.LimitKey, Cost: d.Cost, Reach: d.Reach,
	}
	if d.FairKey != "" {
		delivery.FairWeight = d.Weight()
	}
	return delivery
}
