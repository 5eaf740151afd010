// Package partition has what a leader does to its partition, a fixed share of the tasks and schedules. A Partition only
// reads. A Leader exists for the term of a lease and writes: every script it runs compares its fence with the lease.
package partition

import (
	"context"
	"fmt"
	"strconv"
	"time"

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

// Now is the time of Redis. Error: one of Redis.
func (p *Partition) Now(ctx context.Context) (time.Time, error) {
	return p.o.Layout.DB.Time(ctx).Result()
}

// Depth counts the tasks and schedules of a partition.
type Depth struct {
	Scheduled, Overdue, Queued, Running, Finished int64 // Overdue tasks are also Scheduled
	Schedules, ActiveSchedules, OverdueSchedules  int64 // active: neither paused nor ended
}

// Depth counts the tasks and schedules of the partition. Error: one of Redis.
func (p *Partition) Depth(ctx context.Context) (Depth, error) {
	now, err := p.Now(ctx)
	if err != nil {
		return Depth{}, fmt.Errorf("partition %d: %w", p.number, err)
	}
	k, by := p.keys, strconv.FormatInt(now.UnixMilli(), 10)
	pipe := p.o.Layout.DB.Pipeline()
	scheduled, overdue := pipe.ZCard(ctx, string(k.Wheel())), pipe.ZCount(ctx, string(k.Wheel()), "-inf", by)
	all, active := pipe.ZCard(ctx, string(k.Schedules())), pipe.ZCard(ctx, string(k.Ticks()))
	overdueSchedules := pipe.ZCount(ctx, string(k.Ticks()), "-inf", by)
	queued := pipe.ZCard(ctx, string(k.Queued()))
	running, finished := pipe.ZCard(ctx, string(k.Running())), pipe.ZCard(ctx, string(k.Expiry()))
	if _, err := pipe.Exec(ctx); err != nil {
		return Depth{}, fmt.Errorf("partition %d: %w", p.number, err)
	}
	backlog, err := p.o.Layout.Backlog(ctx, p.number)
	if err != nil {
		return Depth{}, fmt.Errorf("partition %d: %w", p.number, err)
	}
	ready := int64(0)
	for _, n := range backlog {
		ready += int64(n)
	}
	return Depth{
		Scheduled: scheduled.Val() + ready, Overdue: overdue.Val() + ready, Queued: queued.Val(),
		Running: running.Val(), Finished: finished.Val(),
		Schedules: all.Val(), ActiveSchedules: active.Val(), OverdueSchedules: overdueSchedules.Val(),
	}, nil
}

func (p *Partition) delivery(d task.Definition, attempt int, due, created time.Time) task.Delivery {
	return task.Delivery{
		Ref: d.Ref, Attempt: attempt, Type: d.Type, Queue: d.Queue, Timeout: p.o.Types.Timeout(d), DueAt: due, CreatedAt: created,
	}
}
