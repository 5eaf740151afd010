// Package partition has what a leader does to its partition, a fixed share of the tasks and schedules. A Partition only
// reads. A Leader exists for the term of a lease and writes: every script it runs compares its fence with the lease.
package partition

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

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

// Depth counts the tasks and schedules of a partition.
type Depth struct {
	Scheduled, Overdue, Queued, Running, Finished int64 // Overdue tasks are also Scheduled
	Schedules, ActiveSchedules, OverdueSchedules  int64 // active: neither paused nor ended
}

// Depths counts the tasks and schedules of partitions. Those of all are overdue by the clock of the first one. Error: one of Redis.
func (p *Partitions) Depths(ctx context.Context, numbers []int) (map[int]Depth, error) {
	if len(numbers) == 0 {
		return nil, nil
	}
	now, err := p.o.Layout.Now(ctx, numbers[0])
	if err != nil {
		return nil, fmt.Errorf("counting tasks: %w", err)
	}
	pipe := p.o.Layout.DB.Pipeline()
	type reply struct{ wheel, overdue, queued, running, expiry, schedules, ticks, overdueTicks *redis.IntCmd }
	replies := make([]reply, len(numbers))
	by := strconv.FormatInt(now.UnixMilli(), 10)
	for i, number := range numbers {
		k := p.o.Layout.Keys.Partition(number)
		replies[i] = reply{
			wheel: pipe.ZCard(ctx, string(k.Wheel())), overdue: pipe.ZCount(ctx, string(k.Wheel()), "-inf", by),
			queued: pipe.ZCard(ctx, string(k.Queued())), running: pipe.ZCard(ctx, string(k.Running())), expiry: pipe.ZCard(ctx, string(k.Expiry())),
			schedules: pipe.ZCard(ctx, string(k.Schedules())),
			ticks:     pipe.ZCard(ctx, string(k.Ticks())), overdueTicks: pipe.ZCount(ctx, string(k.Ticks()), "-inf", by),
		}
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("counting tasks: %w", err)
	}
	backlog, err := p.o.Layout.BacklogOf(ctx, numbers)
	if err != nil {
		return nil, fmt.Errorf("counting tasks that are due: %w", err)
	}
	depths := make(map[int]Depth, len(numbers))
	for i, number := range numbers {
		r, ready := replies[i], int64(backlog[number])
		depths[number] = Depth{
			Scheduled: r.wheel.Val() + ready, Overdue: r.overdue.Val() + ready, Queued: r.queued.Val(), Running: r.running.Val(),
			Finished:  r.expiry.Val(),
			Schedules: r.schedules.Val(), ActiveSchedules: r.ticks.Val(), OverdueSchedules: r.overdueTicks.Val(),
		}
	}
	return depths, nil
}

func (p *Partition) delivery(d task.Definition, attempt int, due, claimed time.Time) task.Delivery {
	return task.Delivery{
		Ref: d.Ref, Attempt: attempt, Type: d.Type, Queue: d.Queue, Timeout: p.o.Types.Timeout(d), DueAt: due, ClaimedAt: claimed,
	}
}
