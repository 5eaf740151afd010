package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// outlineLimit is the most queues in one pipeline of outlines: two commands each.
const outlineLimit = 1000

// uncounted is what redisx.LeavingOut notes of a queue.
const uncounted = "the deliveries of queue %s are not counted, as one of its keys has the wrong type"

// List reads all queues of this installation, sorted by name: the figures that asynq's inspector has. What nodes have
// for themselves of a queue counts as of that queue. It takes three or four round trips, and more if there are more than
// 1,000 queues, or if more than 250 hold something; a queue that holds nothing costs two commands. Under
// redisx.LeavingOut, the deliveries of a queue that has a key of the wrong type are not counted. Error: *task.Error with
// CodeUnavailable; then the result has the queues that could be read: those on the servers that answer, if the list
// could be.
func (q *Queues) List(ctx context.Context) ([]Info, error) {
	all, err := q.all(ctx)
	if err != nil {
		return nil, unavailable(err)
	}
	keys := make([]string, len(all))
	for i, asynqName := range all {
		keys[i] = string(lua.AsynqQueue(asynqName).Pending())
	}
	var mu sync.Mutex
	infos, failures := make([]Info, 0, len(all)), []error(nil)
	err = q.db.EachServer(ctx, keys, func(_ redis.Cmdable, places []int) {
		for chunk := range slices.Chunk(places, outlineLimit) {
			some := make([]string, len(chunk))
			for k, i := range chunk {
				some[k] = all[i]
			}
			read, err := q.read(ctx, some)
			mu.Lock()
			infos, failures = append(infos, read...), append(failures, err)
			mu.Unlock()
		}
	})
	infos = withNodes(infos)
	if err := errors.Join(append(failures, err)...); err != nil {
		return infos, unavailable(err)
	}
	return infos, nil
}

// Get is List for one queue: nothing if asynq does not list it. It takes three round trips.
func (q *Queues) Get(ctx context.Context, name string) ([]Info, error) {
	asynqName := q.names.asynq(name)
	listed, err := q.db.SMembers(ctx, string(lua.AsynqQueues)).Result()
	if err != nil && !redisx.LeaveOutKey(ctx, string(lua.AsynqQueues), err) {
		return nil, unavailable(fmt.Errorf("reading asynq's list of queues: %w", err))
	}
	var names []string
	if slices.Contains(listed, asynqName) {
		names = append(names, asynqName)
	}
	for _, node := range q.ofNodes(name, listed) {
		names = append(names, q.names.asynq(node))
	}
	if len(names) == 0 {
		return nil, nil
	}
	infos, err := q.read(ctx, names)
	infos = withNodes(infos)
	if err != nil {
		return infos, unavailable(err)
	}
	return infos, nil
}

// withNodes adds what nodes have for themselves of queues to these queues, and sorts them by name. A queue is added
// if only nodes have something of it.
func withNodes(infos []Info) []Info {
	of := func(i Info) string { name, _ := task.SplitNodeQueue(i.Name); return name }
	slices.SortFunc(infos, func(a, b Info) int { return cmp.Or(cmp.Compare(of(a), of(b)), cmp.Compare(a.Name, b.Name)) })
	all := infos[:0]
	for _, i := range infos {
		switch name := of(i); {
		case name == i.Name:
			all = append(all, i)
			continue
		case len(all) == 0 || all[len(all)-1].Name != name:
			all = append(all, Info{Name: name})
		}
		all[len(all)-1].add(i)
	}
	return all
}

// add adds what another queue holds, and what became of its deliveries.
func (i *Info) add(o Info) {
	if o.Size > 0 {
		i.OfAsynq = o.OfAsynq && (i.OfAsynq || i.Size == 0)
	}
	i.Size, i.Pending, i.Active, i.Archived = i.Size+o.Size, i.Pending+o.Pending, i.Active+o.Active, i.Archived+o.Archived
	i.Processed, i.Failed, i.MemoryUsage = i.Processed+o.Processed, i.Failed+o.Failed, i.MemoryUsage+o.MemoryUsage
	i.Latency = max(i.Latency, o.Latency)
}

// read reads the figures of queues, by asynq's names, and leaves out those that it cannot read. Errors: those of Redis, joined; each
// names its queue.
func (q *Queues) read(ctx context.Context, asynqNames []string) ([]Info, error) {
	infos, occupied, failures := q.outlines(ctx, asynqNames)
	calls := make([]lua.MeasureQueue, len(occupied))
	for i, at := range occupied {
		calls[i] = measuring(asynqNames[at])
	}
	for i, r := range redisx.RunEach[lua.MeasureQueueReply](ctx, q.db, calls) {
		at := occupied[i]
		switch {
		case r.Err == nil:
			infos[at].fill(r.Reply)
		case redisx.IsDamage(r.Err) && redisx.LeaveOut(ctx, uncounted, infos[at].Name):
		default:
			failures = append(failures, fmt.Errorf("queue %s: %w", asynqNames[at], r.Err))
			infos[at].Name = ""
		}
	}
	infos = slices.DeleteFunc(infos, func(i Info) bool { return i.Name == "" })
	return infos, errors.Join(failures...)
}

// outlines reads what there is to say of queues that hold nothing, by asynq's names, and which of them hold something, by place. Those that
// cannot be read have no name, and an error in failures.
func (q *Queues) outlines(ctx context.Context, asynqNames []string) (infos []Info, occupied []int, failures []error) {
	pipe, day := q.db.Pipeline(), today()
	holds, counters := make([]*redis.IntCmd, len(asynqNames)), make([]*redis.SliceCmd, len(asynqNames))
	for i, name := range asynqNames {
		k := lua.AsynqQueue(name)
		holds[i] = pipe.Exists(ctx, measuring(name).Keys()...)
		counters[i] = pipe.MGet(ctx, string(k.Paused()), string(k.ProcessedToday(day)), string(k.FailedToday(day)))
	}
	_, _ = pipe.Exec(ctx) // each command has its error
	infos = make([]Info, len(asynqNames))
	for i, asynqName := range asynqNames {
		if err := cmp.Or(holds[i].Err(), counters[i].Err()); err != nil {
			failures = append(failures, fmt.Errorf("queue %s: %w", asynqName, err))
			continue
		}
		values := counters[i].Val()
		infos[i] = Info{Paused: values[0] != nil, Processed: counter(values[1]), Failed: counter(values[2])}
		infos[i].PausedAt, infos[i].PausedBy, infos[i].PauseNote = pauseOf(text(values[0]))
		infos[i].Name, _ = q.names.queue(asynqName)
		if holds[i].Val() > 0 {
			occupied = append(occupied, i)
		}
	}
	return infos, occupied, failures
}

// counter reads a number; 0 for none.
func counter(value any) int {
	n, _ := strconv.Atoi(text(value))
	return n
}

// text is a value of a reply; "" if it is no text.
func text(value any) string {
	s, _ := value.(string)
	return s
}

// measuring returns the call that measures a queue, by asynq's name.
func measuring(asynqName string) lua.MeasureQueue {
	k := lua.AsynqQueue(asynqName)
	return lua.MeasureQueue{
		Active: k.Active(), Pending: k.Pending(), Scheduled: k.Scheduled(), Retry: k.Retry(), Archived: k.Archived(), Completed: k.Completed(),
		Groups: k.Groups(),
	}
}

// fill adds the figures of a queue that holds something.
func (i *Info) fill(r lua.MeasureQueueReply) {
	i.Size, i.Pending, i.Active, i.Archived, i.MemoryUsage = r.Size, r.PendingCount, r.ActiveCount, r.ArchivedCount, int64(r.Memory)
	i.Latency, i.OfAsynq = r.Waited, ofAsynq(r.Example)
}
