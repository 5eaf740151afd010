package migration

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
	"github.com/dts-sched/dts/lua/contract"
)

const (
	pageSize  = 100     // tasks or schedules that are read in one round trip
	callBytes = 1 << 20 // of definitions and results in one run of the script, unless one task has more
)

// policyFields are the fields of a schedule's hash in which layout 1 repeats parts of its definition.
var policyFields = []string{"overlap", "max_runs", "breaker", "retention"}

// counts says how much was converted.
type counts struct{ tasks, unreadable, schedules int }

func (c *counts) add(other counts) {
	c.tasks, c.unreadable, c.schedules = c.tasks+other.tasks, c.unreadable+other.unreadable, c.schedules+other.schedules
}

// partition is a partition that is converted.
type partition struct {
	*migration
	number int
	keys   lua.Partition
	lock   *lock
	counts
}

// convert converts the schedules, and then the tasks until no task is left, which the last pass over all tasks finds out.
func (p *partition) convert(ctx context.Context) error {
	began := clock.Now()
	if err := p.eachPage(ctx, string(p.keys.Schedules()), p.convertSchedules); err != nil {
		return fmt.Errorf("schedules: %w", err)
	}
	for before := -1; before != p.tasks+p.unreadable; {
		before = p.tasks + p.unreadable
		if err := p.convertTasks(ctx); err != nil {
			return err
		}
	}
	if err := p.DB.Del(ctx, string(p.keys.OldInFlight())).Err(); err != nil {
		return err
	}
	if err := p.convertEpoch(ctx); err != nil {
		return fmt.Errorf("fencing token: %w", err)
	}
	p.Log.InfoContext(ctx, "converted a partition", "partition", p.number, "of", p.Partitions, "tasks", p.tasks,
		"unreadable", p.unreadable, "schedules", p.schedules, "took", clock.Since(began).Round(time.Millisecond))
	return nil
}

// convertTasks converts the tasks that the sorted sets of the partition name.
func (p *partition) convertTasks(ctx context.Context) error {
	sets := []string{string(p.keys.Wheel()), string(p.keys.Queued()), string(p.keys.Running()), string(p.keys.Expiry())}
	for _, set := range sets {
		if err := p.eachPage(ctx, set, p.convertPage); err != nil {
			return fmt.Errorf("%s: %w", set, err)
		}
	}
	return p.eachPage(ctx, string(p.keys.OldInFlight()), func(ctx context.Context, deliveries []string) (int, error) {
		var members []string
		for _, d := range deliveries {
			if ref, _, err := task.ParseDelivery(d); err == nil {
				members = append(members, ref.String())
			}
		}
		_, err := p.convertPage(ctx, members)
		return 0, err
	})
}

// convertEpoch has the tokens of leases go on from where they are. In layouts 1 and 2, a lease is held while its key exists; as the
// key stays now, a node of the older version that was only paused does not lead again.
func (p *partition) convertEpoch(ctx context.Context) error {
	epoch, err := p.DB.Get(ctx, string(p.keys.OldEpoch())).Int64()
	if errors.Is(err, redis.Nil) { // converted before, or never led
		return p.DB.SetNX(ctx, string(p.keys.Lease()), "0:", 0).Err()
	}
	if err != nil {
		return err
	}
	nobody := lua.Fence(strconv.FormatInt(epoch, 10) + ":")
	if err := p.DB.Set(ctx, string(p.keys.Lease()), string(nobody), 0).Err(); err != nil {
		return err
	}
	return p.DB.Del(ctx, string(p.keys.OldEpoch())).Err()
}

// eachPage calls do for the members of a sorted set, a page at a time. do returns how many of them it has removed.
func (p *partition) eachPage(ctx context.Context, set string, do func(context.Context, []string) (int, error)) error {
	for start := int64(0); ; {
		if err := p.lock.keep(ctx); err != nil {
			return err
		}
		members, err := p.DB.ZRange(ctx, set, start, start+pageSize-1).Result()
		if err != nil || len(members) == 0 {
			return err
		}
		removed, err := do(ctx, members)
		if err != nil {
			return err
		}
		start += int64(len(members) - removed)
	}
}

// convertPage converts tasks, and puts aside those that cannot be read, whose number it returns.
func (p *partition) convertPage(ctx context.Context, members []string) (removed int, _ error) {
	old, err := p.read(ctx, members)
	if err != nil {
		return 0, err
	}
	var tasks []lua.ConvertTask
	var aside []string
	for _, o := range old {
		t, err := o.convert()
		if err != nil {
			p.Log.ErrorContext(ctx, "leaving an unreadable task unconverted", "key", o.key, "error", err)
			aside = append(aside, o.member)
			continue
		}
		tasks = append(tasks, t)
	}
	if err := p.noteTasks(ctx, tasks); err != nil {
		return 0, err
	}
	if err := p.write(ctx, tasks); err != nil {
		return 0, err
	}
	p.unreadable += len(aside)
	return len(aside), p.putAside(ctx, aside)
}

// write writes tasks in the new form, in several calls if they are long.
func (p *partition) write(ctx context.Context, tasks []lua.ConvertTask) error {
	for len(tasks) > 0 {
		n, bytes := 0, 0
		for n < len(tasks) && (n == 0 || bytes < callBytes) {
			bytes += len(tasks[n].Def) + len(tasks[n].Result)
			n++
		}
		reply, err := redisx.Run(ctx, p.DB, lua.Convert{Defs: p.keys.Defs(), Tasks: tasks[:n]})
		if err != nil {
			return err
		}
		p.tasks, tasks = p.tasks+reply.Converted, tasks[n:]
	}
	return nil
}

func (p *partition) putAside(ctx context.Context, members []string) error {
	if len(members) == 0 {
		return nil
	}
	_, err := redisx.Run(ctx, p.DB, lua.PutAside{Unconverted: p.keys.Unconverted(), Members: members})
	return err
}

// convertSchedules removes the fields that layout 1 repeats, and notes the namespaces.
func (p *partition) convertSchedules(ctx context.Context, members []string) (removed int, _ error) {
	pipe := p.DB.Pipeline()
	var refs []task.Ref
	var times []*redis.StringCmd
	for _, member := range members {
		ref, err := task.ParseRef(member)
		if err != nil {
			p.Log.ErrorContext(ctx, "leaving an unreadable schedule unconverted", "schedule", member, "error", err)
			continue
		}
		key := string(p.keys.Schedule(ref))
		refs, times = append(refs, ref), append(times, pipe.HGet(ctx, key, "from"))
		pipe.HDel(ctx, key, policyFields...)
	}
	if _, err := pipe.Exec(ctx); err != nil && !isReplyFor(err) {
		return 0, err
	}
	latest := map[string]int64{}
	for i, ref := range refs {
		from, _ := strconv.ParseInt(times[i].Val(), 10, 64) // 0 if the schedule cannot be read
		latest[ref.Namespace] = max(latest[ref.Namespace], from)
	}
	p.schedules += len(refs)
	return 0, p.noteNamespaces(ctx, latest, nil)
}

// noteTasks notes the namespaces of tasks. Those of ticks are noted only if nothing else was found in the namespace, because
// ticks are no submissions.
func (p *partition) noteTasks(ctx context.Context, tasks []lua.ConvertTask) error {
	latest, ticks := map[string]int64{}, map[string]int64{}
	for _, t := range tasks {
		found := latest
		if t.Member.Root() != t.Member.ID {
			found = ticks
		}
		found[t.Member.Namespace] = max(found[t.Member.Namespace], int64(t.Created))
	}
	return p.noteNamespaces(ctx, latest, ticks)
}

// noteNamespaces registers namespaces, with the ms of the last submission to them; missing are registered unless they are.
func (m *migration) noteNamespaces(ctx context.Context, latest, missing map[string]int64) error {
	if len(latest)+len(missing) == 0 {
		return nil
	}
	key := string(m.Keys.Namespaces())
	pipe := m.DB.Pipeline()
	if len(latest) > 0 {
		pipe.ZAddGT(ctx, key, scored(latest)...)
	}
	if len(missing) > 0 {
		pipe.ZAddNX(ctx, key, scored(missing)...)
	}
	_, err := pipe.Exec(ctx)
	return err
}

func scored(times map[string]int64) []redis.Z {
	members := make([]redis.Z, 0, len(times))
	for name, at := range times {
		members = append(members, redis.Z{Member: name, Score: float64(at)})
	}
	return members
}

// trimNamespaces keeps the namespaces with the newest submissions, as lua/note_namespaces.lua does.
func (m *migration) trimNamespaces(ctx context.Context) error {
	return m.DB.ZRemRangeByRank(ctx, string(m.Keys.Namespaces()), 0, -contract.NamespacesLimit-1).Err()
}
