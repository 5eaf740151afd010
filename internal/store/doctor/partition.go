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

// leaseTTL is how long a lease lives that never expires and does not say for how long its leader asked, as one of an older version: longer than any
// leader sleeps between two renewals.
const leaseTTL = time.Minute

// queuedLong is how long a task may be queued before its queue must have a delivery of it: a leader looks after it in a few seconds, and
// another one some seconds after the death of its leader.
const queuedLong = time.Minute

const deliveryMissing = "delivery-missing"

var (
	lockChecks = []string{"lock-unlimited", "lock-unreadable", "lock-drift"}
	keyChecks  = []string{"key-drift"}
)

// partitionCollections are the collections of a partition.
func (e *examination) partitionCollections(ctx context.Context, p int) ([]collection, error) {
	db, k := e.o.Layout.DB, e.o.Layout.Keys.Partition(p)
	fixed := e.fixedKeys(lua.OfPartition, strings.TrimSuffix(string(k.Defs()), "defs"))
	if err := e.examineTypesFirst(ctx, fixed); err != nil {
		return nil, err
	}
	ready, err := db.SMembers(ctx, string(k.Backlog())).Result()
	if err = e.passOver(string(k.Backlog()), err, readyChecks...); err != nil {
		return nil, err
	}
	if e.Repair { // their tasks are examined next; else they are found among all keys
		var sets []string
		for _, name := range ready {
			sets = append(sets, string(k.Ready(name)))
		}
		if err := e.examineTypesFirst(ctx, sets); err != nil {
			return nil, err
		}
	}
	indexes, err := e.indexes(ctx, k)
	if err = e.passOver("the list of namespaces", err, lossChecks...); err != nil {
		return nil, err
	}
	all := append(e.taskCollections(p, ready, indexes), e.scheduleCollections(p)...)
	slots, err := e.cappedLimits(ctx, p)
	if err != nil {
		return nil, err
	}
	all = append(append(all, e.runningRuns(p), e.listedWorkflows(p)), slots...)
	return append(all,
		e.pages("locks", lockChecks, db.ZScan, string(k.Locks()), examinePage, func(ctx context.Context, names []string) error {
			return e.examineLocks(ctx, p, names)
		}),
		e.pages("deliveries", []string{deliveryMissing}, db.ZScan, string(k.Queued()), examinePage, func(ctx context.Context, names []string) error {
			return e.lookForDeliveries(ctx, p, names)
		}),
		e.pages("keys", keyChecks, db.HScan, string(k.Once()), examinePage, func(ctx context.Context, names []string) error {
			return e.examineKeys(ctx, p, names)
		}),
		e.pages("outbox", []string{leftovers}, db.ZScan, string(k.Outbox()), examinePage,
			func(ctx context.Context, some []string) error { return e.examineOutbox(ctx, p, some) }),
		once("lease", "lease-unlimited", func(ctx context.Context) error { return e.examineLease(ctx, k) }),
		e.rememberedIDs(k),
		e.unconverted(k),
		e.listed(p),
	), nil
}

// examineTypesFirst examines the types of keys before anything of a partition needs them.
func (e *examination) examineTypesFirst(ctx context.Context, keys []string) error {
	if len(e.at.Path) > 0 {
		return nil
	}
	return e.tryRepair(func() error { return e.examineTypes(ctx, keys) })
}

// once is a collection of one page.
func once(name, check string, look func(context.Context) error) collection {
	return collection{name: name, checks: []string{check}, look: func(ctx context.Context, _ uint64) ([]collection, uint64, error) {
		return nil, 0, look(ctx)
	}}
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
		if err := e.rest(ctx); err != nil {
			return nil, err
		}
	}
	return exist, nil
}

func (e *examination) examineLocks(ctx context.Context, p int, names []string) error {
	looked, err := e.inTurn(ctx, names, examinePage, lockChecks, func(some []string) error {
		reply, err := redisx.Run(ctx, e.o.Layout.DB, lua.ExamineLocks{
			Locks: e.o.Layout.Keys.Partition(p).Locks(), Checks: e.wanted, Repair: e.Repair, Members: some,
		})
		for _, f := range reply.Found {
			e.found(f.Check, f.Member, f.Words)
		}
		return err
	})
	e.looked(looked, lockChecks...)
	return err
}

func (e *examination) examineKeys(ctx context.Context, p int, names []string) error {
	looked, err := e.inTurn(ctx, names, examinePage, keyChecks, func(some []string) error {
		reply, err := redisx.Run(ctx, e.o.Layout.DB, lua.ExamineKeys{
			Once: e.o.Layout.Keys.Partition(p).Once(), Checks: e.wanted, Repair: e.Repair,
			Events: e.o.Layout.Keys.Events(), Wake: e.o.Layout.Keys.Wake(p), Members: some,
		})
		for _, f := range reply.Found {
			e.found(f.Check, f.Member, f.Words)
		}
		return err
	})
	e.looked(looked, keyChecks...)
	return err
}

func (e *examination) examineOutbox(ctx context.Context, p int, entries []string) error {
	looked, err := e.inTurn(ctx, entries, examinePage, []string{leftovers}, func(some []string) error {
		k := e.o.Layout.Keys.Partition(p)
		reply, err := redisx.Run(ctx, e.o.Layout.DB, lua.ExamineOutbox{
			Defs: k.Defs(), Outbox: k.Outbox(), Checks: e.wanted, Repair: e.Repair, Entries: some,
		})
		for _, f := range reply.Found {
			e.found(f.Check, f.Member, f.Words)
		}
		return err
	})
	e.looked(looked, leftovers)
	return err
}

func (e *examination) examineLease(ctx context.Context, k lua.Partition) error {
	reply, err := redisx.Run(ctx, e.o.Layout.DB, lua.ExamineLease{Lease: k.Lease(), Checks: e.wanted, Repair: e.Repair, TTL: leaseTTL})
	if err == nil {
		e.looked(1, "lease-unlimited")
	}
	for _, f := range reply.Found {
		e.found(f.Check, string(k.Lease())+" of "+f.Member, f.Words)
	}
	return err
}

// unconverted is the tasks of an older layout that could not be converted.
func (e *examination) unconverted(k lua.Partition) collection {
	set := string(k.Unconverted())
	return collection{name: "unconverted", checks: []string{"unconverted"}, look: func(ctx context.Context, from uint64) ([]collection, uint64, error) {
		names, next, err := e.page(ctx, e.o.Layout.DB.ZScan, set, from, orphansPage)
		if from == 0 && err == nil {
			e.looked(1, "unconverted")
		}
		for _, member := range names {
			e.found("unconverted", member, "is in "+set)
		}
		return nil, next, err
	}}
}

// rememberedIDs is the ids that are remembered, some of them maybe for ever. Mostly it only compares how many are remembered and how many are in
// order. Else each request reads the order, whole, before it looks at ids: nothing but the order says which of them are in it.
func (e *examination) rememberedIDs(k lua.Partition) collection {
	var ordered map[string]bool
	return collection{name: "names", checks: []string{"id-never-forgotten"}, look: func(ctx context.Context, from uint64) ([]collection, uint64, error) {
		if ordered == nil {
			kept, inOrder, err := e.countRemembered(ctx, k)
			if err != nil {
				return nil, 0, err
			}
			if from == 0 {
				e.looked(kept, "id-never-forgotten")
			}
			if kept <= inOrder {
				return nil, 0, nil
			}
			if ordered, err = e.readOrder(ctx, k, inOrder); err != nil {
				return nil, 0, err
			}
		}
		names, next, err := e.page(ctx, e.o.Layout.DB.HScan, string(k.Remembered()), from, orphansPage)
		if err != nil {
			return nil, 0, err
		}
		names = slices.DeleteFunc(names, func(name string) bool { return ordered[name] })
		return nil, next, e.examineOrder(ctx, k, names)
	}}
}

// countRemembered returns how many ids are remembered, and how many of them are in the order in which they are forgotten.
func (e *examination) countRemembered(ctx context.Context, k lua.Partition) (kept, inOrder int, _ error) {
	pipe := e.o.Layout.DB.ReadTogether()
	all, order := pipe.HLen(ctx, string(k.Remembered())), pipe.LLen(ctx, string(k.RememberedOrder()))
	_, err := pipe.Exec(ctx)
	return int(all.Val()), int(order.Val()), err
}

// readOrder returns the ids that are in the order in which they are forgotten, but for those that come or go meanwhile.
func (e *examination) readOrder(ctx context.Context, k lua.Partition, count int) (map[string]bool, error) {
	ordered := make(map[string]bool, count)
	for from := 0; from < count; from += orderPage {
		names, err := e.o.Layout.DB.LRange(ctx, string(k.RememberedOrder()), int64(from), int64(from+orderPage-1)).Result()
		for _, name := range names {
			ordered[name] = true
		}
		if err := errors.Join(err, e.rest(ctx)); err != nil {
			return nil, err
		}
	}
	return ordered, nil
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
		if err := e.rest(ctx); err != nil {
			return err
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
	missing, err := e.o.Queues.Missing(ctx, queued)
	if err == nil {
		e.looked(len(queued), deliveryMissing)
	}
	for _, d := range missing {
		e.found(deliveryMissing, d.Ref.String(), fmt.Sprintf("has been queued since %s, and queue %s has no delivery %s", d.ClaimedAt.Format(time.RFC3339), d.Via(), d))
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
	isLong := func(t task.Task) bool { // runs of workflows have no delivery
		return t.State == task.Queued && now.Sub(t.QueuedAt) > queuedLong && t.Queue != task.WorkflowQueue
	}
	refs, stateless, err := e.maybeLong(ctx, p, members, isLong)
	if err != nil {
		return nil, err
	}
	found, err := e.o.Tasks.Briefs(ctx, refs)
	var queued []task.Delivery
	for _, t := range found {
		switch {
		case t.Damage != "":
			e.notLooked(t.Ref.String()+" was not looked at: "+t.Damage, deliveryMissing)
		case stateless[t.Ref] && t.State == task.Scheduled && t.Attempt == 0:
			e.notLooked(t.Ref.String()+" was not looked at: it has no state", deliveryMissing)
		case isLong(t):
			queued = append(queued, task.Delivery{Ref: t.Ref, Attempt: t.Attempt, Queue: t.Queue, Node: t.Placed, ClaimedAt: t.QueuedAt})
		}
	}
	return queued, err
}

// maybeLong returns which tasks have been queued for long by their states, or have no state: those are scheduled, for
// all that is known.
func (e *examination) maybeLong(
	ctx context.Context, p int, members []string, isLong func(task.Task) bool,
) (refs []task.Ref, stateless map[task.Ref]bool, _ error) {
	states, err := e.o.Layout.DB.HMGet(ctx, string(e.o.Layout.Keys.Partition(p).States()), members...).Result()
	if err != nil {
		return nil, nil, err
	}
	stateless = make(map[task.Ref]bool)
	for i, member := range members {
		ref, err := task.ParseRef(member)
		if err != nil {
			continue
		}
		t := task.Task{Definition: task.Definition{Ref: ref}}
		if err := codec.DecodeState(&t, codec.Text(states[i])); err != nil {
			e.notLooked(member+" was not looked at: "+err.Error(), deliveryMissing)
		}
		stateless[ref] = states[i] == nil
		if stateless[ref] || isLong(t) {
			refs = append(refs, ref)
		}
	}
	return refs, stateless, nil
}
