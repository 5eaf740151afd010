// Package partition has what a leader does to its partition, a fixed share of the tasks and schedules. A Partition only
// reads. A Leader exists for the term of a lease and writes: every script it runs compares its fence with the lease.
package partition

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/dts-sched/dts/internal/store/codec"
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

// LeaseKeys are the keys of a partition's lease and of the counter that its fencing tokens come from.
func (p *Partitions) LeaseKeys(number int) (lua.LeaseKey, lua.EpochKey) {
	k := p.o.Layout.Keys.Partition(number)
	return k.Lease(), k.Epoch()
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
	Scheduled, Overdue, Queued, InFlight, Running, Finished int64 // Overdue tasks are also Scheduled, InFlight ones also Queued
	Schedules, ActiveSchedules, OverdueSchedules            int64 // active: neither paused nor ended
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
	queued, inflight := pipe.ZCard(ctx, string(k.Queued())), pipe.ZCard(ctx, string(k.InFlight()))
	running, finished := pipe.ZCard(ctx, string(k.Running())), pipe.ZCard(ctx, string(k.Expiry()))
	if _, err := pipe.Exec(ctx); err != nil {
		return Depth{}, fmt.Errorf("partition %d: %w", p.number, err)
	}
	return Depth{
		Scheduled: scheduled.Val(), Overdue: overdue.Val(), Queued: queued.Val(), InFlight: inflight.Val(),
		Running: running.Val(), Finished: finished.Val(),
		Schedules: all.Val(), ActiveSchedules: active.Val(), OverdueSchedules: overdueSchedules.Val(),
	}, nil
}

// InFlight reads the deliveries that were claimed and not confirmed: those to repeat, and the names of the settled ones,
// whose attempt is not queued any more. Error: one of Redis.
func (p *Partition) InFlight(ctx context.Context) (repeat []task.Delivery, settled []string, _ error) {
	names, err := p.o.Layout.DB.ZRange(ctx, string(p.keys.InFlight()), 0, -1).Result()
	if err != nil || len(names) == 0 {
		return nil, nil, err
	}
	queued, err := p.queuedDeliveries(ctx, names)
	if err != nil {
		return nil, nil, err
	}
	for i, name := range names {
		if queued[i] == nil {
			settled = append(settled, name)
		} else {
			repeat = append(repeat, *queued[i])
		}
	}
	return repeat, settled, nil
}

// queuedDeliveries returns, for each name of a delivery, the delivery, or nil if its attempt is not queued.
func (p *Partition) queuedDeliveries(ctx context.Context, names []string) ([]*task.Delivery, error) {
	var members []string
	for _, name := range names {
		if ref, _, err := task.ParseDelivery(name); err == nil {
			members = append(members, ref.String())
		}
	}
	read, err := p.tasks(ctx, members)
	if err != nil {
		return nil, err
	}
	queued := make(map[string]*task.Delivery, len(read))
	for _, t := range read {
		if d := p.delivery(t.Definition, t.Attempt, t.DueAt); t.State == task.Queued {
			queued[d.String()] = &d
		}
	}
	found := make([]*task.Delivery, len(names))
	for i, name := range names {
		found[i] = queued[name]
	}
	return found, nil
}

// Queued reads a page of up to limit queued tasks, oldest claim first, from the position after (0 is the first). It
// returns the deliveries of those that were claimed longer than age ago, and the position of the next page: 0 if no task
// on it can be that old. Error: one of Redis.
func (p *Partition) Queued(ctx context.Context, age time.Duration, after, limit int64) ([]task.Delivery, int64, error) {
	entries, err := p.o.Layout.DB.ZRangeWithScores(ctx, string(p.keys.Queued()), after, after+limit-1).Result()
	if err != nil || len(entries) == 0 {
		return nil, 0, err
	}
	now, err := p.Now(ctx)
	if err != nil {
		return nil, 0, err
	}
	var old []string
	for _, e := range entries {
		if int64(e.Score) <= now.Add(-age).UnixMilli() {
			old = append(old, codec.Text(e.Member))
		}
	}
	read, err := p.tasks(ctx, old)
	if err != nil {
		return nil, 0, err
	}
	var found []task.Delivery
	for _, t := range read {
		if t.State == task.Queued {
			found = append(found, p.delivery(t.Definition, t.Attempt, t.DueAt))
		}
	}
	if int64(len(old)) < limit {
		return found, 0, nil
	}
	return found, after + limit, nil
}

// Running reads the running tasks of the partition, oldest start first. Error: one of Redis.
func (p *Partition) Running(ctx context.Context) ([]task.Task, error) {
	members, err := p.o.Layout.DB.ZRange(ctx, string(p.keys.Running()), 0, -1).Result()
	if err != nil {
		return nil, err
	}
	return p.tasks(ctx, members)
}

// tasks reads the tasks that members name. Tasks that do not exist any more or cannot be read are left out.
func (p *Partition) tasks(ctx context.Context, members []string) ([]task.Task, error) {
	refs := make([]task.Ref, 0, len(members))
	for _, m := range members {
		ref, err := task.ParseRef(m)
		if err != nil {
			p.o.Layout.Log.ErrorContext(ctx, "skipping unreadable entry", "partition", p.number, "error", err)
			continue
		}
		refs = append(refs, ref)
	}
	return p.o.Tasks.GetEach(ctx, refs)
}

func (p *Partition) delivery(d task.Definition, attempt int, due time.Time) task.Delivery {
	return task.Delivery{Ref: d.Ref, Attempt: attempt, Type: d.Type, Queue: d.Queue, Timeout: p.o.Types.Timeout(d), DueAt: due}
}
