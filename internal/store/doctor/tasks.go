package doctor

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

const (
	examinePage = 50   // tasks that one script examines: Redis does nothing else for some ms meanwhile
	readyPage   = 200  // the same of ready tasks, most of which the script only has to recognize
	orphansPage = 500  // entries of which one pipeline asks whether there is a task
	valuesPage  = 100  // entries whose values may be long, and are read with their names
	longPage    = 20   // the same of payloads, and of definitions of workflows
	orderPage   = 5000 // ids that are read at once from the order in which they are forgotten: there may be 225,000
)

// restLease is the lease of a run that had none.
const restLease = time.Minute

var taskChecks = []string{
	taskUnreadable, "state-lost", "payload-lost", "scheduled-lost", "queued-lost", "running-lost", "finished-lost",
	"index-drift", "backlog-unlisted", "live-lost", slotLost, runAhead, stepOrphan, stepExpires,
}

const (
	leftovers      = "task-leftovers"
	taskUnreadable = "task-unreadable"
)

// lossChecks are those of tasks that have no definition.
var lossChecks = []string{"task-lost", leftovers}

// readyChecks are those that need the sets of ready tasks.
var readyChecks = slices.Concat(lossChecks, taskChecks)

// scan reads a page of a hash or a sorted set: the names of its fields or its members.
type scan func(ctx context.Context, key string, from uint64, match string, count int64) *redis.ScanCmd

// page reads a page and counts it.
func (e *examination) page(
	ctx context.Context, read scan, key string, from uint64, count int64,
) (names []string, next uint64, _ error) {
	pairs, next, err := read(ctx, key, from, "", count).Result()
	for i := 0; i < len(pairs); i += 2 {
		names = append(names, pairs[i])
	}
	e.entries += len(names)
	return names, next, err
}

// pages is a collection whose pages are passed to look.
func (e *examination) pages(
	name string, checks []string, read scan, key string, count int64, look func(ctx context.Context, names []string) error,
) collection {
	return e.leading(name, checks, read, key, count, func(ctx context.Context, names []string) ([]collection, error) {
		return nil, look(ctx, names)
	})
}

// leading is a collection whose pages are passed to look, which returns the collections to which the page leads.
func (e *examination) leading(
	name string, checks []string, read scan, key string, count int64,
	look func(ctx context.Context, names []string) ([]collection, error),
) collection {
	lookAt := func(ctx context.Context, from uint64) ([]collection, uint64, error) {
		names, next, err := e.page(ctx, read, key, from, count)
		if err != nil || len(names) == 0 {
			return nil, next, err
		}
		inner, err := look(ctx, names)
		return inner, next, err
	}
	return collection{name: name, checks: checks, look: lookAt}
}

// taskCollections are the collections of a partition that have tasks.
func (e *examination) taskCollections(p int, ready []string, indexes []lua.IndexKey) []collection {
	db, k := e.o.Layout.DB, e.o.Layout.Keys.Partition(p)
	orphans := func(ctx context.Context, names []string) error { return e.lookForOrphans(ctx, p, names) }
	all := []collection{e.definitions(p), e.checkpoints(p), e.payloads(p)}
	for _, hash := range []string{string(k.States()), string(k.Originals())} {
		all = append(all, e.pages(hash, lossChecks, db.HScan, hash, orphansPage, orphans))
	}
	for _, hash := range []string{string(k.Results()), string(k.Errors()), string(k.Runs()), string(k.Asks())} {
		all = append(all, e.pages(hash, lossChecks, db.HScan, hash, valuesPage, orphans))
	}
	all = append(all, e.pages(string(k.Plans()), lossChecks, db.HScan, string(k.Plans()), longPage, orphans))
	sets := []string{string(k.Wheel()), string(k.Queued()), string(k.Running()), string(k.Held()), string(k.Expiry())}
	for _, index := range indexes {
		sets = append(sets, string(index))
	}
	for _, set := range sets {
		all = append(all, e.pages(set, lossChecks, db.ZScan, set, orphansPage, orphans))
	}
	for _, name := range ready {
		all = append(all, e.readyTasks(p, name))
	}
	return all
}

// readyTasks is the set of ready tasks of a queue or lane. It comes before what else tasks have, as its name begins
// with a blank: of a task without a definition, nothing else says in which set it is.
func (e *examination) readyTasks(p int, name string) collection {
	set := string(e.o.Layout.Keys.Partition(p).Ready(name))
	examine := func(ctx context.Context, names []string) error {
		return e.examineTasks(ctx, p, name, names, nil, readyChecks)
	}
	return e.pages(" "+set, readyChecks, e.o.Layout.DB.ZScan, set, readyPage, examine)
}

// defect is why something of a task cannot be read, and the SHA-1 of what was read.
type defect struct{ why, digest string }

// definitions are the tasks of a partition, with their definitions. They come before the schedules: a tick that waits
// must not go on before it is known which tasks are live.
func (e *examination) definitions(p int) collection {
	hash := string(e.o.Layout.Keys.Partition(p).Defs())
	look := func(ctx context.Context, from uint64) ([]collection, uint64, error) {
		pairs, next, err := e.o.Layout.DB.HScan(ctx, hash, from, "", examinePage).Result()
		var names []string
		broken := make(map[string]defect)
		for pair := range slices.Chunk(pairs, 2) {
			names = append(names, pair[0])
			ref, errRef := task.ParseRef(pair[0])
			if err := cmp.Or(errRef, codec.CheckRecord(ref, pair[1])); err != nil {
				broken[pair[0]] = defect{err.Error(), codec.Digest(pair[1])}
			}
		}
		e.entries += len(names)
		if err != nil || len(names) == 0 {
			return nil, next, err
		}
		return nil, next, e.examineTasks(ctx, p, "", names, broken, taskChecks)
	}
	return collection{name: "definitions", checks: taskChecks, look: look}
}

// payloads are the long payloads of a partition.
func (e *examination) payloads(p int) collection {
	hash, checks := string(e.o.Layout.Keys.Partition(p).Payloads()), append([]string{taskUnreadable}, lossChecks...)
	look := func(ctx context.Context, from uint64) ([]collection, uint64, error) {
		pairs, next, err := e.o.Layout.DB.HScan(ctx, hash, from, "", longPage).Result()
		var names, damaged []string
		broken := make(map[string]defect)
		for pair := range slices.Chunk(pairs, 2) {
			names = append(names, pair[0])
			if err := codec.CheckPayload(pair[1]); err != nil && e.wants(taskUnreadable) {
				damaged = append(damaged, pair[0])
				broken[pair[0]] = defect{err.Error(), codec.Digest(pair[1])}
			}
		}
		e.entries += len(names)
		if err == nil && len(names) > 0 && e.wants(lossChecks...) {
			err = e.lookForOrphans(ctx, p, names)
		}
		if err == nil {
			err = e.examineTasks(ctx, p, "", damaged, broken, nil)
		}
		return nil, next, err
	}
	return collection{name: hash, checks: checks, look: look}
}

// checkpoints are the checkpoints of a partition. Their pages have the values, too.
func (e *examination) checkpoints(p int) collection {
	hash := string(e.o.Layout.Keys.Partition(p).Checkpoints())
	look := func(ctx context.Context, from uint64) ([]collection, uint64, error) {
		pairs, next, err := e.o.Layout.DB.HScan(ctx, hash, from, "", valuesPage).Result()
		if err != nil {
			return nil, 0, err
		}
		var names []string
		for pair := range slices.Chunk(pairs, 2) {
			names = append(names, pair[0])
			if err := e.examineEntry(ctx, hash, entryOf{name: pair[0], value: pair[1]}); err != nil {
				return nil, 0, err
			}
		}
		e.entries += len(names)
		if len(names) == 0 || !e.wants(lossChecks...) {
			return nil, next, nil
		}
		return nil, next, e.lookForOrphans(ctx, p, names)
	}
	return collection{name: hash, checks: slices.Concat(lossChecks, []string{entryUnreadable}), look: look}
}

// examineTasks examines tasks of a partition, and repairs them. name is the queue or lane in whose set of ready tasks
// they were found; "" if they were found elsewhere. broken are those that cannot be read. checks are those that need
// to look at them.
func (e *examination) examineTasks(
	ctx context.Context, p int, name string, members []string, broken map[string]defect, checks []string,
) error {
	page, counts := examinePage, checks
	if name != "" {
		page, counts = readyPage, lossChecks
	}
	looked, err := e.inTurn(ctx, members, page, checks, func(some []string) error {
		reply, err := redisx.Run(ctx, e.o.Layout.DB, lua.ExamineTasks{
			Defs: e.o.Layout.Keys.Partition(p).Defs(), Checks: e.wanted, Repair: e.Repair, Lease: restLease, Name: name,
			Wake: e.o.Layout.Keys.Wake(p), Members: examined(some, broken),
		})
		for _, f := range reply.Found {
			e.found(f.Check, f.Member, f.Words)
		}
		return err
	})
	e.looked(looked, counts...)
	return err
}

// examined is what the script needs to know of tasks.
func examined(members []string, broken map[string]defect) []lua.ExamineTasksMember {
	all := make([]lua.ExamineTasksMember, len(members))
	for i, member := range members {
		all[i].Member, all[i].Broken, all[i].Digest = member, broken[member].why, broken[member].digest
		if _, name, isTick := strings.Cut(member, "@"); isTick {
			all[i].Tick, _, _ = schedule.ParseTickName(name) // zero, and so none, if it is no name of a tick
		}
	}
	return all
}

// lookForOrphans examines those of the members of which there is no task.
func (e *examination) lookForOrphans(ctx context.Context, p int, members []string) error {
	defs := string(e.o.Layout.Keys.Partition(p).Defs())
	pipe := e.o.Layout.DB.Pipeline()
	exist := make([]*redis.BoolCmd, len(members))
	for i, member := range members {
		exist[i] = pipe.HExists(ctx, defs, member)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	if err := e.rest(ctx); err != nil {
		return err
	}
	var orphans []string
	for i, member := range members {
		if !exist[i].Val() {
			orphans = append(orphans, member)
		}
	}
	e.looked(len(members)-len(orphans), lossChecks...)
	return e.examineTasks(ctx, p, "", orphans, nil, lossChecks)
}
