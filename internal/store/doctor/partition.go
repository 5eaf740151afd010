package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// leaseTTL is after what time a lease expires that never would: longer than its leader sleeps between two renewals.
const leaseTTL = 7 * time.Second

// queuedLong is how long a task may be queued before its queue must have a delivery of it: a leader looks after it in a few seconds, and
// another one some seconds after the death of its leader.
const queuedLong = time.Minute

var lockChecks = []string{"lock-unlimited", "lock-drift"}

// partitionRooms are the rooms of a partition.
func (e *examination) partitionRooms(ctx context.Context, p int) ([]room, error) {
	db, k := e.o.Layout.DB, e.o.Layout.Keys.Partition(p)
	ready, err := db.SMembers(ctx, string(k.Backlog())).Result()
	if err != nil {
		return nil, err
	}
	indexes, err := e.indexes(ctx, k)
	if err != nil {
		return nil, err
	}
	rooms := append(e.taskRooms(p, ready, indexes), e.scheduleRooms(p)...)
	return append(rooms,
		e.pageRoom("locks", lockChecks, db.ZScan, string(k.Locks()), examinePage, func(ctx context.Context, names []string) error {
			return e.examineLocks(ctx, p, names)
		}),
		e.pageRoom("deliveries", []string{"delivery-missing"}, db.ZScan, string(k.Queued()), examinePage, func(ctx context.Context, names []string) error {
			return e.lookForDeliveries(ctx, p, names)
		}),
		once("lease", "lease-unlimited", func(ctx context.Context) error { return e.examineLease(ctx, k) }),
		once("names", "id-never-forgotten", func(ctx context.Context) error { return e.examineNames(ctx, k) }),
		once("unconverted", "unconverted", func(ctx context.Context) error { return e.countUnconverted(ctx, k) }),
	), nil
}

// once is a room of one page.
func once(name, check string, look func(context.Context) error) room {
	return room{name: name, checks: []string{check}, look: func(ctx context.Context, _ uint64) (uint64, error) { return 0, look(ctx) }}
}

// indexes are the sets of a partition that list finished tasks of the known namespaces.
func (e *examination) indexes(ctx context.Context, k lua.Partition) ([]lua.IndexKey, error) {
	namespaces, err := e.o.Layout.Namespaces(ctx)
	if err != nil {
		return nil, err
	}
	var keys []lua.IndexKey
	for _, namespace := range namespaces {
		for _, state := range task.States {
			if state.Final() {
				keys = append(keys, k.Index(namespace.Name, state))
			}
		}
	}
	var exist []lua.IndexKey
	for some := range slices.Chunk(keys, orphansPage) {
		pipe := e.o.Layout.DB.Pipeline()
		found := make([]*redis.IntCmd, len(some))
		for i, key := range some {
			found[i] = pipe.Exists(ctx, string(key))
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return nil, err
		}
		for i, key := range some {
			if found[i].Val() > 0 {
				exist = append(exist, key)
			}
		}
	}
	return exist, nil
}

func (e *examination) examineLocks(ctx context.Context, p int, names []string) error {
	e.looked(len(names), lockChecks...)
	reply, err := redisx.Run(ctx, e.o.Layout.DB, lua.ExamineLocks{
		Locks: e.o.Layout.Keys.Partition(p).Locks(), Checks: e.wanted, Repair: e.Repair, Members: names,
	})
	for _, f := range reply.Found {
		e.found(f.Check, f.Member, f.Words)
	}
	return err
}

func (e *examination) examineLease(ctx context.Context, k lua.Partition) error {
	e.looked(1, "lease-unlimited")
	reply, err := redisx.Run(ctx, e.o.Layout.DB, lua.ExamineLease{Lease: k.Lease(), Checks: e.wanted, Repair: e.Repair, TTL: leaseTTL})
	for _, f := range reply.Found {
		e.found(f.Check, string(k.Lease())+" of "+f.Member, f.Words)
	}
	return err
}

func (e *examination) countUnconverted(ctx context.Context, k lua.Partition) error {
	e.looked(1, "unconverted")
	members, err := e.o.Layout.DB.ZRange(ctx, string(k.Unconverted()), 0, EntryLimit).Result()
	for _, member := range members {
		e.found("unconverted", member, "is in "+string(k.Unconverted()))
	}
	return err
}

// examineNames looks for ids that are remembered for ever. Mostly it only compares how many are remembered and how many are in order.
func (e *examination) examineNames(ctx context.Context, k lua.Partition) error {
	db := e.o.Layout.DB
	pipe := db.TxPipeline()
	kept, ordered := pipe.HLen(ctx, string(k.Remembered())), pipe.LLen(ctx, string(k.RememberedOrder()))
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	if e.looked(int(kept.Val()), "id-never-forgotten"); kept.Val() <= ordered.Val() {
		return nil
	}
	known := make(map[string]bool, ordered.Val())
	for from := int64(0); from < ordered.Val(); from += examinePage {
		names, err := db.LRange(ctx, string(k.RememberedOrder()), from, from+examinePage-1).Result()
		if err != nil {
			return err
		}
		for _, name := range names {
			known[name] = true
		}
	}
	for from, first := uint64(0), true; first || from != 0; first = false {
		names, next, err := e.page(ctx, db.HScan, string(k.Remembered()), from, orphansPage)
		if err != nil {
			return err
		}
		from = next
		names = slices.DeleteFunc(names, func(name string) bool { return known[name] })
		if err := e.examineOrder(ctx, k, names); err != nil {
			return err
		}
	}
	return nil
}

// examineOrder examines ids that seem to be remembered for ever, one at a time: each takes a look through the whole order.
func (e *examination) examineOrder(ctx context.Context, k lua.Partition, names []string) error {
	for _, name := range names {
		reply, err := redisx.Run(ctx, e.o.Layout.DB, lua.ExamineNames{
			Remembered: k.Remembered(), RememberedOrder: k.RememberedOrder(), Checks: e.wanted, Repair: e.Repair, Members: []string{name},
		})
		if err != nil {
			return err
		}
		for _, f := range reply.Found {
			e.found(f.Check, f.Member, f.Words)
		}
	}
	return nil
}

// lookForDeliveries looks whether the queues have deliveries of tasks that have been queued for long. Those that have none have been so
// for long enough that no leader is about to enqueue them.
func (e *examination) lookForDeliveries(ctx context.Context, p int, members []string) error {
	queued, err := e.queuedLong(ctx, p, members)
	if err != nil || len(queued) == 0 {
		return err
	}
	e.looked(len(queued), "delivery-missing")
	missing, err := e.o.Queues.Missing(ctx, queued)
	for _, d := range missing {
		e.found("delivery-missing", d.Ref.String(), fmt.Sprintf("has been queued since %s, and queue %s has no delivery %s", d.ClaimedAt.Format(time.RFC3339), d.Queue, d))
		if e.Repair {
			k := e.o.Layout.Keys.Partition(p)
			now := redis.Z{Score: 1, Member: d.Ref.String()} // XX: unless it is not queued any more
			err = errors.Join(err, e.o.Layout.DB.ZAddXX(ctx, string(k.Queued()), now).Err(), e.wake(ctx, p))
		}
	}
	return err
}

// wake has the leader of a partition look at what is due.
func (e *examination) wake(ctx context.Context, p int) error {
	pipe := e.o.Layout.DB.Pipeline()
	pipe.Incr(ctx, string(e.o.Layout.Keys.Partition(p).Wakes()))
	pipe.Publish(ctx, string(e.o.Layout.Keys.Wake(p)), "task")
	_, err := pipe.Exec(ctx)
	return err
}

// queuedLong returns the deliveries of those tasks that have been queued for long.
func (e *examination) queuedLong(ctx context.Context, p int, members []string) ([]task.Delivery, error) {
	now, err := e.o.Layout.Now(ctx, p)
	if err != nil {
		return nil, err
	}
	states, err := e.o.Layout.DB.HMGet(ctx, string(e.o.Layout.Keys.Partition(p).States()), members...).Result()
	if err != nil {
		return nil, err
	}
	var refs []task.Ref
	for i, member := range members {
		f := strings.Fields(codec.Text(states[i]))
		ref, err := task.ParseRef(member)
		if err == nil && len(f) > 5 && f[0] == string(task.Queued) && now.Sub(codec.FromMS(codec.Number(f[5]))) > queuedLong {
			refs = append(refs, ref)
		}
	}
	found, err := e.o.Tasks.GetEach(ctx, refs)
	var queued []task.Delivery
	for _, t := range found {
		if t.State == task.Queued && now.Sub(t.QueuedAt) > queuedLong {
			queued = append(queued, task.Delivery{Ref: t.Ref, Attempt: t.Attempt, Queue: t.Queue, ClaimedAt: t.QueuedAt})
		}
	}
	return queued, err
}
