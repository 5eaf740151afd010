package control_test

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/handover"
	"github.com/dts-sched/dts/internal/limit"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/doctor"
	"github.com/dts-sched/dts/internal/store/locks"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

// fleet is a list of nodes.
type fleet []cluster.Node

func (f fleet) Nodes(context.Context) ([]cluster.Node, error) { return f, nil }
func (f fleet) View() cluster.View                            { return cluster.View{Nodes: f} }

// listed is the nodes on the list of a ward.
type listed struct{ w *ward }

func (l listed) Nodes(ctx context.Context) ([]cluster.Node, error) {
	return nil, l.w.DB.HGetAll(ctx, string(l.w.Keys.Nodes())).Err()
}
func (l listed) View() cluster.View { return cluster.View{} }

// ward is an installation that has something of everything, in good order.
type ward struct {
	*storetest.World
	t       *testing.T
	server  *redistest.Server
	control *control.Control
	queues  *queue.Queues
}

func newWard(t *testing.T, opts ...redistest.Option) *ward {
	t.Helper()
	server := redistest.Start(t, opts...)
	db := server.DB(t)
	w := &ward{World: storetest.On(t, db), t: t, server: server, queues: queue.New(queue.Options{DB: db})}
	w.employ(cluster.Node{ID: "tester", State: cluster.StateAlive, Roles: []string{config.RoleScheduler, config.RoleWorker}, Queues: map[string]int{"default": 1, "full": 1}})
	for p := range w.Partitions.Count() {
		testkit.Must(t, db.PExpire(w.Ctx, string(w.Keys.Partition(p).Term(storetest.Fence)), time.Hour).Err())
	}
	w.sweep()
	w.startFlow()
	for _, s := range task.States[1:] {
		w.Bring(string(s), s)
	}
	w.handOver("queued")
	w.holdSlot("slotted")
	w.Create(task.Definition{Ref: ref("waiting"), Delay: time.Hour})
	w.Create(task.Definition{Ref: ref("ready"), Queue: "full"})
	_, err := w.Leader(ref("ready")).Claim(w.Ctx, 100, handover.Grant{Lanes: handover.Quotas{{Queue: "full"}: {}}, Default: 0}, time.Second)
	testkit.Must(t, err)
	w.Create(task.Definition{Ref: ref("changed"), Delay: time.Hour})
	w.postpone("changed")
	w.Create(task.Definition{Ref: ref("retried")})
	testkit.Must(t, w.Begin(ref("retried")).Reattempt(w.Ctx, time.Hour, task.OutcomeFailed, "boom"))
	w.Create(task.Definition{Ref: ref("long"), Delay: time.Hour, Payload: []byte(`"` + strings.Repeat("x", 2*task.InlinePayloadLimit) + `"`)})
	once := &task.Once{Mode: task.OnceSingleton, Key: "other"}
	w.Create(task.Definition{Ref: ref("other@kwaits"), Delay: time.Hour, Once: once})
	w.Hourly(3, nil)
	w.Fire(storetest.Nightly)
	_, err = w.Locks.Acquire(w.Ctx, locks.Lock{Ref: ref("lock"), Holder: "me", TTL: time.Hour})
	testkit.Must(t, err)
	testkit.Must(t, w.NoteNamespaces(w.Ctx, []string{"default"}))
	w.pack()
	return w
}

// pack packs the index of lists until there is nothing more to do.
func (w *ward) pack() {
	w.t.Helper()
	for p := range w.Partitions.Count() {
		packer := w.Listing.Packer(p, storetest.Fence)
		for more := true; more; {
			var err error
			more, err = packer.Pack(w.Ctx)
			testkit.Must(w.t, err)
		}
	}
}

// employ replaces the nodes.
func (w *ward) employ(nodes ...cluster.Node) {
	w.control = control.New(control.Options{Store: w.Store, Queues: w.queues, Nodes: fleet(nodes)})
}

func ref(id string) task.Ref { return task.Ref{Namespace: "default", ID: id} }

// handOver enqueues the delivery of a queued task.
func (w *ward) handOver(id string) {
	w.t.Helper()
	t := w.Get(ref(id))
	handed := w.queues.HandOver(w.Ctx, []task.Delivery{{Ref: t.Ref, Attempt: t.Attempt, Type: t.Type, Queue: t.Queue, ClaimedAt: t.QueuedAt}}, nil)
	testkit.Must(w.t, handed.Failure())
}

// holdSlot queues a task that holds a slot of the limit key:shop.
func (w *ward) holdSlot(id string) {
	w.t.Helper()
	w.Create(task.Definition{Ref: ref(id), LimitKey: "shop"})
	l, name := w.Leader(ref(id)), limit.Name{Kind: limit.Key, Of: "shop"}
	counted, err := l.Recount(w.Ctx, []limit.Recount{{Limit: shop, Known: -1}})
	testkit.Must(w.t, err)
	rule, version := limit.Rule{Slots: 2, Rate: 5, Per: time.Minute}, counted[0].Version
	ask := limit.Ask{Limit: shop, Version: version, Want: 1, Tokens: 1, Rule: rule}
	_, err = l.Settle(w.Ctx, w.Partitions.HomeOf(shop), []limit.Ask{ask})
	testkit.Must(w.t, err)
	grant := storetest.Quotas
	grant.Limits = limit.NewTable(limit.Rules{name: rule})
	grant.Slots = []limit.Grant{{Limit: shop, Version: version, Count: 1, Tokens: 1}}
	_, err = l.Claim(w.Ctx, 100, grant, time.Second)
	testkit.Must(w.t, err)
}

const shop = "key:shop"

// sweep deletes a task, whose id is remembered.
func (w *ward) sweep() {
	w.t.Helper()
	deleted := w.Bring("deleted", task.Succeeded)
	w.do("ZADD", w.KeysOf(deleted).Expiry(), 1, deleted)
	_, err := w.Leader(deleted).Sweep(w.Ctx, partition.Keep{Tasks: 100, Remember: time.Hour, Names: 100}, 1)
	testkit.Must(w.t, err)
}

// keyed submits a task of the key mine that waits for the one before it.
func (w *ward) keyed(name string) {
	w.t.Helper()
	once := &task.Once{Mode: task.OnceLatest, Key: "mine"}
	w.Create(task.Definition{Ref: ref("mine@k" + name), Once: once})
}

// define writes another definition of a task, as it is stored behind the time of its creation.
func (w *ward) define(id, def string) {
	w.t.Helper()
	w.do("HSET", w.KeysOf(ref(id)).Defs(), ref(id), "1767366245120"+def)
}

// postpone changes when a task is due, which its state does not say.
func (w *ward) postpone(id string) {
	w.t.Helper()
	before := w.Get(ref(id)).Definition
	after, delay := before, 2*time.Hour
	after.Delay = delay
	_, err := w.Tasks.Change(w.Ctx, before, after, tasks.NewDue{Delay: &delay}, 0)
	testkit.Must(w.t, err)
}

// do runs a command. Keys, names of tasks and the like are arguments as they are.
func (w *ward) do(args ...any) {
	w.t.Helper()
	for i, arg := range args {
		args[i] = fmt.Sprint(arg)
	}
	testkit.Must(w.t, w.DB.Do(w.Ctx, args...).Err())
}

// state is the state of a task as it is stored.
func (w *ward) state(id string) string {
	return w.DB.HGet(w.Ctx, string(w.KeysOf(ref(id)).States()), ref(id).String()).Val()
}

// examine examines everything, one request after the other.
func (w *ward) examine(r control.DoctorRequest) map[string]doctor.Result {
	w.t.Helper()
	all := make(map[string]doctor.Result)
	for more := true; more; more = r.Cursor != "" {
		report, err := w.control.Examine(w.Ctx, control.Caller{Namespace: "default"}, r)
		testkit.Must(w.t, err)
		for _, result := range report.Results {
			before := all[result.Name]
			if before.Severity == doctor.Error {
				result.Severity = doctor.Error
			}
			result.Looked += before.Looked
			result.Found += before.Found
			result.Repaired += before.Repaired
			result.Examples = append(before.Examples, result.Examples...)
			all[result.Name] = result
		}
		r.Cursor = report.NextCursor
	}
	return all
}

// findings are the checks of the data that found something, with the first example of each.
func findings(results map[string]doctor.Result) map[string]string {
	found := make(map[string]string)
	for name, r := range results {
		if r.Found > 0 && r.OfData {
			found[name] = r.Examples[0]
		}
	}
	return found
}

// anAttempt is one as a task keeps it after its end.
const anAttempt = `{"number":1,"node":"n","started":1,"finished":2,"outcome":"failed"}`

// breakage is what somebody can have broken in a ward, by the check that finds it, and the example that the check shows.
type breakage struct {
	check, name string
	damage      func(w *ward)
	example     string
	stays       bool     // the repair does not mend it at once
	byHand      bool     // this one is not repaired, though the check repairs others
	also        []string // other checks that find it
	then        []string // other checks that find more once it is repaired
	aside       []string // texts that the repair keeps where it has put something aside; none if it puts nothing aside
}

var breakages = []breakage{
	{check: "meta-lost", name: "dts:meta is gone", damage: func(w *ward) {
		w.do("DEL", w.Keys.Meta())
	}, example: "partitions is missing in dts:meta"},
	{check: "meta-lost", name: "dts:meta lacks a field", damage: func(w *ward) {
		w.do("HDEL", w.Keys.Meta(), "layout")
	}, example: "layout is missing in dts:meta"},
	{check: "state-lost", name: "a task that has ended has no state", damage: func(w *ward) {
		w.do("HDEL", w.KeysOf(ref("failed")).States(), ref("failed"))
	}, example: "default:failed has no state, and is listed as one that runs or has ended"},
	{check: "state-lost", name: "a task that runs, and whose worker may live, has no state", damage: func(w *ward) {
		w.do("HDEL", w.KeysOf(ref("running")).States(), ref("running"))
	}, example: "default:running has no state, and is leased", stays: true, byHand: true},
	{check: "state-lost", name: "a task that runs, and whose lease is over, has no state", damage: func(w *ward) {
		w.do("HDEL", w.KeysOf(ref("running")).States(), ref("running"))
		w.do("ZADD", w.KeysOf(ref("running")).Held(), 1, ref("running"))
	}, example: "default:running has no state, and is listed as one that runs or has ended", then: []string{"finished-lost", "index-drift"}},
	{check: "state-lost", name: "a task that waits for its next attempt has no state", damage: func(w *ward) {
		w.do("HDEL", w.KeysOf(ref("retried")).States(), ref("retried"))
	}, example: "default:retried has no state, and waits for attempt 2"},
	{check: "state-lost", name: "a queued task has no state", damage: func(w *ward) {
		w.do("HDEL", w.KeysOf(ref("queued")).States(), ref("queued"))
	}, example: "default:queued has no state, and is queued", also: []string{"delivery-leftovers"}},
	{check: "state-lost", name: "a task that has begun is listed nowhere", damage: func(w *ward) {
		w.do("HDEL", w.KeysOf(ref("retried")).States(), ref("retried"))
		w.do("ZREM", w.KeysOf(ref("retried")).Wheel(), ref("retried"))
	}, example: "default:retried has no state, and is listed as one that runs or has ended", then: []string{"finished-lost"}},
	{check: "scheduled-lost", name: "a task is not on the wheel", damage: func(w *ward) {
		w.do("ZREM", w.KeysOf(ref("waiting")).Wheel(), ref("waiting"))
	}, example: "default:waiting is scheduled, and not in dts:{1}:wheel"},
	{check: "scheduled-lost", name: "a task is not in the set of ready tasks", damage: func(w *ward) {
		w.do("ZREM", w.KeysOf(ref("ready")).Ready("full"), ref("ready"))
	}, example: "default:ready is scheduled, and not in "},
	{check: "scheduled-lost", name: "a task waits on the wheel for ever", damage: func(w *ward) {
		w.do("ZADD", w.KeysOf(ref("waiting")).Wheel(), 1e15, ref("waiting"))
	}, example: "default:waiting is scheduled, and in dts:{1}:wheel at 33658-09-27T01:46:40.000Z instead of 20"},
	{check: "scheduled-lost", name: "a task starts before its time", damage: func(w *ward) {
		w.do("ZINCRBY", w.KeysOf(ref("waiting")).Wheel(), -time.Minute.Milliseconds(), ref("waiting"))
	}, example: "default:waiting is scheduled, and in dts:{1}:wheel at "},
	{check: "scheduled-lost", name: "the next attempt waits too long", damage: func(w *ward) {
		w.Create(task.Definition{Ref: ref("again")})
		testkit.Must(w.t, w.Begin(ref("again")).Reattempt(w.Ctx, time.Hour, task.OutcomeFailed, "boom"))
		w.do("ZINCRBY", w.KeysOf(ref("again")).Wheel(), time.Minute.Milliseconds(), ref("again"))
	}, example: "default:again is scheduled, and in dts:{"},
	{check: "scheduled-lost", name: "a changed task waits for ever", damage: func(w *ward) {
		w.postpone("waiting")
		w.do("ZADD", w.KeysOf(ref("waiting")).Wheel(), 1e15, ref("waiting"))
	}, example: "default:waiting is scheduled, and in dts:{1}:wheel at 33658-09-27T01:46:40.000Z instead of 20"},
	{check: "scheduled-lost", name: "a due task waits behind all others", damage: func(w *ward) {
		w.do("ZADD", w.KeysOf(ref("ready")).Ready("full"), 1e15, ref("ready"))
	}, example: "default:ready is scheduled, and in "},
	{check: "queued-lost", name: "nobody looks after a queued task before long", damage: func(w *ward) {
		w.do("ZADD", w.KeysOf(ref("queued")).Queued(), 1e15, ref("queued"))
	}, example: "default:queued is queued, and in "},
	{check: "running-lost", name: "a run lease does not end before long", damage: func(w *ward) {
		w.do("ZADD", w.KeysOf(ref("running")).Held(), 1e15, ref("running"))
	}, example: "default:running is running, and in "},
	{check: "queued-lost", name: "nobody looks after a queued task", damage: func(w *ward) {
		w.do("ZREM", w.KeysOf(ref("queued")).Queued(), ref("queued"))
	}, example: "default:queued is queued, and not in "},
	{check: "running-lost", name: "a run has no lease", damage: func(w *ward) {
		w.do("ZREM", w.KeysOf(ref("running")).Held(), ref("running"))
	}, example: "default:running is running, and not in "},
	{check: "running-lost", name: "a run is not listed", damage: func(w *ward) {
		w.do("ZREM", w.KeysOf(ref("running")).Running(), ref("running"))
	}, example: "default:running is running, and not in "},
	{check: "finished-lost", name: "a task would never be forgotten", damage: func(w *ward) {
		w.do("ZREM", w.KeysOf(ref("failed")).Expiry(), ref("failed"))
	}, example: "default:failed is failed, and not in "},
	{check: "finished-lost", name: "a finished task is not listed", damage: func(w *ward) {
		w.do("ZREM", w.KeysOf(ref("failed")).Index("default", task.Failed), ref("failed"))
	}, example: "default:failed is failed, and not in "},
	{check: "index-drift", name: "a finished task is on the wheel", damage: func(w *ward) {
		w.do("ZADD", w.KeysOf(ref("succeeded")).Wheel(), 1e15, ref("succeeded"))
	}, example: "default:succeeded is succeeded, and in "},
	{check: "index-drift", name: "a scheduled task would be forgotten", damage: func(w *ward) {
		w.do("ZADD", w.KeysOf(ref("waiting")).Expiry(), 1e15, ref("waiting"))
	}, example: "default:waiting is scheduled, and in "},
	{check: "index-drift", name: "a task waits for another queue", damage: func(w *ward) {
		w.do("ZADD", w.KeysOf(ref("ready")).Ready("other"), 1, ref("ready"))
		w.do("SADD", w.KeysOf(ref("ready")).Backlog(), "other")
	}, example: "default:ready is scheduled, and in "},
	{check: "index-drift", name: "a finished task has a run lease", damage: func(w *ward) {
		w.do("ZADD", w.KeysOf(ref("cancelled")).Held(), 1e15, ref("cancelled"))
	}, example: "default:cancelled is cancelled, and in "},
	{check: "backlog-unlisted", name: "leaders do not know of ready tasks", damage: func(w *ward) {
		w.do("SREM", w.KeysOf(ref("ready")).Backlog(), "full")
	}, example: "default:ready waits in "},
	{check: "task-lost", name: "the wheel has a task that does not exist", damage: func(w *ward) {
		w.do("ZADD", w.KeysOf(ref("ghost")).Wheel(), 1e15, ref("ghost"))
	}, example: "default:ghost does not exist, and is left in ", aside: []string{":wheel:1000000000000000"}},
	{check: "task-lost", name: "a run lease has no run", damage: func(w *ward) {
		w.do("ZADD", w.KeysOf(ref("ghost")).Held(), 1e15, ref("ghost"))
	}, example: "default:ghost does not exist, and is left in ", aside: []string{":held:1000000000000000"}},
	{check: "task-lost", name: "a task that waits has lost its definition", damage: func(w *ward) {
		w.do("HDEL", w.KeysOf(ref("waiting")).Defs(), ref("waiting"))
	}, example: "default:waiting does not exist, and is left in ", aside: []string{":wheel:17"}},
	{check: "task-lost", name: "only the state is left of a task", damage: func(w *ward) {
		w.do("HSET", w.KeysOf(ref("ghost")).States(), ref("ghost"), "scheduled 1 0 0 5")
	}, example: "default:ghost does not exist, and is left in ", aside: []string{":states:scheduled 1 0 0 5"}},
	{check: "task-leftovers", name: "a task has lost its definition", damage: func(w *ward) {
		w.do("HDEL", w.KeysOf(ref("failed")).Defs(), ref("failed"))
	}, example: "default:failed does not exist, and is left in "},
	{check: "task-leftovers", name: "a list of finished tasks has one that does not exist", damage: func(w *ward) {
		w.do("ZADD", w.KeysOf(ref("ghost")).Index("default", task.Succeeded), 1, ref("ghost"))
	}, example: "default:ghost does not exist, and is left in "},
	{check: "task-lost", name: "a log is left", damage: func(w *ward) {
		w.do("XADD", w.KeysOf(ref("ghost")).Log(ref("ghost")), "1-1", "text", "hello", "at", 1)
		w.do("RPUSH", w.KeysOf(ref("ghost")).Attempts(ref("ghost")), anAttempt)
	}, example: "default:ghost does not exist, and is left in ", aside: []string{"hello", anAttempt}},
	{check: "task-lost", name: "a ready task with a long payload has lost its definition", damage: func(w *ward) {
		k := w.KeysOf(ref("big"))
		w.Create(task.Definition{
			Ref: ref("big"), Queue: "full", Payload: []byte(`"` + strings.Repeat("y", 2*task.InlinePayloadLimit) + `"`),
		})
		w.do("ZREM", k.Wheel(), ref("big"))
		w.do("ZADD", k.Ready("full"), 1, ref("big"))
		w.do("SADD", k.Backlog(), "full")
		w.do("HDEL", k.Defs(), ref("big"))
	}, example: "default:big does not exist, and is left in ", aside: []string{`:payloads:"yyyy`, ":ready:full:1"}},
	{check: "task-lost", name: "a payload is left", damage: func(w *ward) {
		w.do("HSET", w.KeysOf(ref("ghost")).Payloads(), ref("ghost"), "17")
	}, example: "default:ghost does not exist, and is left in ", aside: []string{":payloads:17"}},
	{check: "task-leftovers", name: "the end of a task that does not exist is in the outbox", damage: func(w *ward) {
		w.do("ZADD", w.KeysOf(ref("gone")).Outbox(), 1, "end default:gone 1 failed")
		w.do("ZADD", w.KeysOf(ref("gone")).Outbox(), 1, "end default:succeeded 1 succeeded")
	}, example: "default:gone does not exist, and its end is in dts:{"},
	{check: "task-leftovers", name: "a result is left", damage: func(w *ward) {
		for _, hash := range []any{
			w.KeysOf(ref("ghost")).Results(), w.KeysOf(ref("ghost")).Errors(), w.KeysOf(ref("ghost")).Checkpoints(),
			w.KeysOf(ref("ghost")).Payloads(), w.KeysOf(ref("ghost")).Originals(),
		} {
			w.do("HSET", hash, ref("ghost"), "17")
		}
		w.do("HSET", w.KeysOf(ref("ghost")).States(), ref("ghost"), "failed 1")
	}, example: "default:ghost does not exist, and is left in "},
	{check: "key-type", name: "the wheel is a string", damage: func(w *ward) {
		w.do("SET", w.KeysOf(ref("waiting")).Wheel(), "no wheel")
	}, example: "dts:{1}:wheel is a string, and must be a zset", then: []string{"scheduled-lost"}, aside: []string{"no wheel"}},
	{check: "key-type", name: "a ledger is a list", damage: func(w *ward) {
		w.do("DEL", w.KeysOf(storetest.Nightly).Ledger(storetest.Nightly))
		w.do("RPUSH", w.KeysOf(storetest.Nightly).Ledger(storetest.Nightly), "no ledger")
	}, example: "dts:{", then: []string{"ledger-holes"}, aside: []string{"no ledger"}},
	{check: "key-type", name: "a log is a hash", damage: func(w *ward) {
		w.do("HSET", w.KeysOf(ref("waiting")).Log(ref("waiting")), "no", "log")
	}, example: "dts:{1}:log:default:waiting is a hash, and must be a stream", aside: []string{"no:log"}},
	{check: "key-type", name: "the limits are a string", damage: func(w *ward) {
		w.do("SET", w.Keys.Limits(), "no limits")
	}, example: "dts:limits is a string, and must be a hash", aside: []string{"no limits"}},
	{check: "task-unreadable", name: "a state cannot be read", damage: func(w *ward) {
		k := w.KeysOf(ref("queued"))
		w.do("HSET", k.States(), ref("queued"), "lost")
		w.do("XADD", k.Log(ref("queued")), "1-1", "at", "1", "text", "a line of its log")
		w.do("RPUSH", k.Attempts(ref("queued")), anAttempt)
	}, example: "default:queued cannot be read: its state is \"lost\"", also: []string{"delivery-leftovers"},
		aside: []string{":states:lost", ":defs:17", ":queued:17", "a line of its log", anAttempt}},
	{check: "task-unreadable", name: "a state is long", damage: func(w *ward) {
		w.do("HSET", w.KeysOf(ref("failed")).States(), ref("failed"), strings.Repeat("x", 1000))
	}, example: "default:failed cannot be read: its state is \"" + strings.Repeat("x", 100) + "...\"",
		aside: []string{strings.Repeat("x", 1000)}},
	{check: "task-unreadable", name: "a definition cannot be read", damage: func(w *ward) {
		w.do("HSET", w.KeysOf(ref("waiting")).Defs(), ref("waiting"), "17")
	}, example: "default:waiting cannot be read: its definition", aside: []string{":defs:17", ":wheel:17"}},
	{check: "task-unreadable", name: "an attempt has no number", damage: func(w *ward) {
		w.do("HSET", w.KeysOf(ref("running")).States(), ref("running"), "running x x x x x x x 777")
	}, example: "default:running cannot be read: its state is \"running x",
		aside: []string{":states:running x x", ":held:17", ":running:17"}},
	{check: "task-unreadable", name: "a task has ended at no time", damage: func(w *ward) {
		state := strings.Fields(w.state("failed"))
		state[10] = "yesterday"
		w.do("HSET", w.KeysOf(ref("failed")).States(), ref("failed"), strings.Join(state, " "))
	}, example: "default:failed cannot be read: its state is \"failed ",
		aside: []string{":states:failed 1 0 0 ", " yesterday failed"}},
	{check: "task-unreadable", name: "a type is no name", damage: func(w *ward) {
		w.do("HSET", w.KeysOf(ref("waiting")).Defs(), ref("waiting"), `1767366245120{"type":"a b"}`+"\n{}")
	}, example: "default:waiting cannot be read: its definition",
		aside: []string{`{"type":"a b"}`, ":wheel:17"}},
	{check: "task-unreadable", name: "a queue is no name", damage: func(w *ward) {
		w.define("waiting", `{"type":"http","queue":"a b:x"}`+"\n{}")
	}, example: "default:waiting cannot be read: its definition cannot be read: the type \"http\" or the queue \"a b:x\"",
		aside: []string{`"queue":"a b:x"`, ":wheel:17"}},
	{check: "task-unreadable", name: "a timeout is no number", damage: func(w *ward) {
		w.define("waiting", `{"type":"http","timeout":"zz"}`+"\n{}")
	}, example: "default:waiting cannot be read: its definition cannot be read: json",
		aside: []string{`"timeout":"zz"`, ":wheel:17"}},
	{check: "task-unreadable", name: "the retention of an ended task is no number", damage: func(w *ward) {
		w.define("succeeded", `{"type":"http","retention":"x"}`+"\n{}")
	}, example: "default:succeeded cannot be read: its definition cannot be read: json",
		aside: []string{`"retention":"x"`, ":expiry:1"}},
	{check: "task-unreadable", name: "labels of a ready task are a list", damage: func(w *ward) {
		w.define("ready", `{"type":"http","queue":"full","labels":[1]}`+"\n{}")
	}, example: "default:ready cannot be read: its definition cannot be read: json",
		aside: []string{`"labels":[1]`, ":ready:full:1"}},
	{check: "task-unreadable", name: "a payload is not JSON", damage: func(w *ward) {
		w.define("waiting", `{"type":"http"}`+"\nnotjson")
	}, example: `default:waiting cannot be read: its payload "notjson" is not JSON`,
		aside: []string{"notjson", ":wheel:17"}},
	{check: "task-unreadable", name: "a long payload is not JSON", damage: func(w *ward) {
		w.do("HSET", w.KeysOf(ref("long")).Payloads(), ref("long"), "notjson")
	}, example: `default:long cannot be read: its payload "notjson" is not JSON`,
		aside: []string{":payloads:notjson", ":wheel:17"}},
	{check: "task-unreadable", name: "a task has no name", damage: func(w *ward) {
		w.do("HSET", w.Keys.Partition(0).Defs(), "garbage", `1767366245120{"type":"http"}`+"\n{}")
	}, example: `garbage cannot be read: "garbage" is not the name of a task`, aside: []string{`{"type":"http"}`}},
	{check: "payload-lost", name: "a payload is lost", damage: func(w *ward) {
		w.do("HDEL", w.KeysOf(ref("long")).Payloads(), ref("long"))
	}, example: "default:long has no payload", stays: true},
	{check: "id-never-forgotten", name: "a remembered id is not in order", damage: func(w *ward) {
		w.do("DEL", w.KeysOf(ref("deleted")).RememberedOrder())
	}, example: "default:deleted is remembered, and not in "},
	{check: "entry-unreadable", name: "an attempt is garbage", damage: func(w *ward) {
		w.do("LPUSH", w.KeysOf(ref("retried")).Attempts(ref("retried")), "{")
	}, example: "dts:{1}:attempts:default:retried has an entry that cannot be read: \"0\" \"{\"", aside: []string{"[0:{]"}},
	{check: "entry-unreadable", name: "a revision is garbage", damage: func(w *ward) {
		w.change(2)
		w.do("LSET", w.KeysOf(ref("often")).History(ref("often")), 0, "garbage")
	}, example: "dts:{0}:history:default:often has an entry that cannot be read: \"0\" \"garbage\"",
		aside: []string{"[0:garbage]"}},
	{check: "entry-unreadable", name: "a revision has no number", damage: func(w *ward) {
		w.change(2)
		w.do("LSET", w.KeysOf(ref("often")).History(ref("often")), 0, `{"from":"1","def":"{}","task":"{}"}`)
	}, example: "dts:{0}:history:default:often has an entry that cannot be read: \"0\" \"{",
		aside: []string{`[0:{"from":"1",`}},
	{check: "entry-unreadable", name: "a record of a ledger is garbage", damage: func(w *ward) {
		w.do("ZADD", w.KeysOf(storetest.Nightly).Ledger(storetest.Nightly), 1, "garbage")
	}, example: "dts:{1}:ledger:default:nightly has an entry that cannot be read: \"garbage\" \"1\"",
		aside: []string{"[garbage:1]"}},
	{check: "entry-unreadable", name: "a limit is garbage", damage: func(w *ward) {
		w.do("HSET", w.Keys.Limits(), "default", "many")
	}, example: "dts:limits has an entry that cannot be read: \"default\" \"many\"", aside: []string{"[default:many]"}},
	{check: "entry-unreadable", name: "a limit is 0", damage: func(w *ward) {
		w.do("HSET", w.Keys.Limits(), "default", "0")
	}, example: "dts:limits has an entry that cannot be read: \"default\" \"0\"",
		aside: []string{"[default:0]"}},
	{check: "entry-unreadable", name: "a limit is of no queue", damage: func(w *ward) {
		w.do("HSET", w.Keys.Limits(), "a b", "7")
	}, example: "dts:limits has an entry that cannot be read: \"a b\" \"7\"", aside: []string{"[a b:7]"}},
	{check: "entry-unreadable", name: "an attempt has an odd outcome", damage: func(w *ward) {
		odd := strings.Replace(anAttempt, "failed", "odd", 1)
		w.do("LPUSH", w.KeysOf(ref("retried")).Attempts(ref("retried")), odd)
	}, example: "dts:{1}:attempts:default:retried has an entry that cannot be read: \"0\" ",
		aside: []string{`"outcome":"odd"`}},
	{check: "entry-unreadable", name: "a record of a ledger has an odd outcome", damage: func(w *ward) {
		w.do("ZADD", w.KeysOf(storetest.Nightly).Ledger(storetest.Nightly), 1, "20260101T000000Z odd 1 0 1 1 ")
	}, example: "dts:{1}:ledger:default:nightly has an entry that cannot be read: \"20260101T000000Z odd",
		aside: []string{"[20260101T000000Z odd 1 0 1 1 :1]"}},
	{check: "entry-unreadable", name: "a checkpoint is not JSON", damage: func(w *ward) {
		w.do("HSET", w.KeysOf(ref("running")).Checkpoints(), ref("running"), "{")
	}, example: "dts:{1}:checkpoints has an entry that cannot be read: \"default:running\" \"{\"",
		aside: []string{"[default:running:{]"}},
	{check: "entry-unreadable", name: "a line of a long log is none", damage: func(w *ward) {
		log := w.KeysOf(ref("running")).Log(ref("running"))
		for line := range 50 {
			w.do("XADD", log, fmt.Sprint("1-", line+1), "text", "hello", "at", 1)
		}
		w.do("XADD", log, "1-51", "x", "y")
		w.do("XADD", log, "1-52", "text", "hello", "at", 1)
	}, example: "dts:{1}:log:default:running has an entry that cannot be read: \"1-51\" \"{\\\"x\\\":\\\"y\\\"}\"",
		aside: []string{"1-51"}},
	{check: "entry-unreadable", name: "a tick that waits is garbage", damage: func(w *ward) {
		w.do("RPUSH", w.KeysOf(storetest.Nightly).Waiting(storetest.Nightly), "garbage")
	}, example: "dts:{1}:waiting:default:nightly has an entry that cannot be read: \"0\" \"garbage\"",
		aside: []string{"[0:garbage]"}},
	{check: "entry-unreadable", name: "how the runs of a schedule ended is garbage", damage: func(w *ward) {
		w.do("HSET", w.KeysOf(storetest.Nightly).Schedule(storetest.Nightly), "ends", "1 garbage")
	}, example: "dts:{1}:schedule:default:nightly has an entry that cannot be read: \"ends\" \"1 garbage\"",
		aside: []string{"[ends:1 garbage]"}},
	{check: "entry-unreadable", name: "counts of ticks are garbage", damage: func(w *ward) {
		w.do("HSET", w.KeysOf(storetest.Nightly).Schedule(storetest.Nightly), "days", "20260101s1 today")
	}, example: "dts:{1}:schedule:default:nightly has an entry that cannot be read: \"days\" \"20260101s1 today\"",
		aside: []string{"[days:20260101s1 today]"}},
	{check: "entry-unreadable", name: "a namespace is no name", damage: func(w *ward) {
		w.do("ZADD", w.Keys.Namespaces(), 1, "a b")
	}, example: "dts:namespaces has an entry that cannot be read: \"a b\" \"1\"", aside: []string{"[a b:1]"}},
	{check: "entry-unreadable", name: "the entry of a node is garbage", damage: func(w *ward) {
		w.do("HSET", w.Keys.Nodes(), "n", "garbage")
	}, example: "dts:nodes has an entry that cannot be read: \"n\" \"garbage\"",
		aside: []string{"[n:garbage]"}},
	{check: "entry-unreadable", name: "the cordon of a node is garbage", damage: func(w *ward) {
		w.do("HSET", w.Keys.Cordons(), "vm", "1 0 ann")
	}, example: "dts:cordons has an entry that cannot be read: \"vm\" \"1 0 ann\"", aside: []string{"[vm:1 0 ann]"}},
	{check: "entry-unreadable", name: "a limit allows everything", damage: func(w *ward) {
		w.do("HSET", w.Keys.Rules(), "all", "{}")
	}, example: "dts:rules has an entry that cannot be read: \"all\" \"{}\"", aside: []string{"[all:{}]"}},
	{check: "entry-unreadable", name: "a node has no start", damage: func(w *ward) {
		w.do("HSET", w.Keys.Nodes(), "n", "17 {}")
	}, example: "dts:nodes has an entry that cannot be read: \"n\" \"17 {}\"", aside: []string{"[n:17 {}]"}},
	{check: "entry-unreadable", name: "a backlog has no name", damage: func(w *ward) {
		w.do("SADD", w.KeysOf(ref("ready")).Backlog(), "{", "full a{")
	}, example: "dts:{", aside: []string{"full a{"}},
	{check: "list-index", name: "a program of an earlier release has created a task", damage: func(w *ward) {
		w.Create(task.Definition{Ref: ref("unnoted"), Delay: time.Hour})
		w.do("LREM", w.KeysOf(ref("unnoted")).ListedNew(), 0, ref("unnoted"))
	}, example: "default:unnoted is scheduled, and has no row in the index of lists"},
	{check: "list-index", name: "a program of an earlier release has cancelled a task", damage: func(w *ward) {
		_, err := w.Tasks.Cancel(w.Ctx, ref("waiting"), "")
		testkit.Must(w.t, err)
		w.do("LREM", w.KeysOf(ref("waiting")).ListedNew(), 0, ref("waiting"))
	}, example: "default:waiting is cancelled, and has no row in the index of lists"},
	{check: "list-index", name: "a summary of a segment cannot be read", damage: func(w *ward) {
		w.do("HSET", w.KeysOf(ref("waiting")).Listed(), 1, "x")
	}, example: "partition 1 has an index of lists that cannot be read: "},
	{check: "list-index", name: "a segment cannot be read", damage: func(w *ward) {
		w.do("HSET", w.KeysOf(ref("waiting")).ListedRows(), "1.0", "x")
	}, example: "partition 1 has an index of lists that cannot be read: "},
	{check: "unconverted", name: "a task was not converted", damage: func(w *ward) {
		w.do("ZADD", w.KeysOf(ref("old")).Unconverted(), 1, ref("old"))
		w.do("RPUSH", w.KeysOf(ref("old")).Attempts(ref("old")), anAttempt) // stays, with the task
	}, example: "default:old is in dts:{", stays: true},

	{check: "schedule-not-looked-at", name: "nobody plans a schedule's ticks", damage: func(w *ward) {
		w.do("ZREM", w.KeysOf(storetest.Nightly).Ticks(), storetest.Nightly)
	}, example: "default:nightly is active, and not in "},
	{check: "schedule-not-looked-at", name: "nobody plans a schedule's ticks before long", damage: func(w *ward) {
		w.do("ZADD", w.KeysOf(storetest.Nightly).Ticks(), 1e15, storetest.Nightly)
	}, example: "default:nightly is in dts:{"},
	{check: "schedule-not-looked-at", name: "a tick is planned too late", damage: func(w *ward) {
		w.do("ZINCRBY", w.KeysOf(storetest.Nightly).Ticks(), time.Minute.Milliseconds(), storetest.Nightly)
	}, example: "default:nightly is in dts:{"},
	{check: "schedule-not-looked-at", name: "nobody plans the ticks of an earlier revision", damage: func(w *ward) {
		w.Rewind(storetest.Nightly, 2*time.Hour)
		w.Put(storetest.Daily(nil))
		w.do("ZADD", w.KeysOf(storetest.Nightly).Ticks(), time.Now().Add(time.Hour).UnixMilli(), storetest.Nightly)
	}, example: "default:nightly is in dts:{"},
	{check: "schedule-not-looked-at", name: "nobody notices the end of a schedule", damage: func(w *ward) {
		w.Put(storetest.Daily(func(d *schedule.Definition) { d.EndAt = time.Now().Add(-time.Hour) }))
		w.do("ZADD", w.KeysOf(storetest.Nightly).Ticks(), 1e15, storetest.Nightly)
	}, example: "default:nightly is in dts:{"},
	{check: "schedule-not-looked-at", name: "a tick waits for nothing", damage: func(w *ward) {
		for _, tick := range w.DB.ZRange(w.Ctx, string(w.KeysOf(storetest.Nightly).Live(storetest.Nightly)), 0, -1).Val() {
			w.EndTick(storetest.Nightly, tick, task.Succeeded)
		}
		w.do("RPUSH", w.KeysOf(storetest.Nightly).Waiting(storetest.Nightly), "1795000000000 20261118T120640Z")
	}, example: "default:nightly has a tick that waits"},
	{check: "schedule-drift", name: "a schedule is not listed", damage: func(w *ward) {
		w.do("ZREM", w.KeysOf(storetest.Nightly).Schedules(), storetest.Nightly)
	}, example: "default:nightly is not in "},
	{check: "schedule-drift", name: "a leader looks at a paused schedule", damage: func(w *ward) {
		w.Pause(storetest.Nightly)
		w.do("ZADD", w.KeysOf(storetest.Nightly).Ticks(), 1e15, storetest.Nightly)
	}, example: "default:nightly is paused, and in "},
	{check: "schedule-leftovers", name: "a tick waits of a schedule that does not exist", damage: func(w *ward) {
		w.do("RPUSH", w.KeysOf(ref("ghost")).Waiting(ref("ghost")), "1 x")
	}, example: "default:ghost does not exist, and is left in "},
	{check: "schedule-unreadable", name: "a ledger is left alone", damage: func(w *ward) {
		w.do("ZADD", w.KeysOf(ref("ghost")).Ledger(ref("ghost")), 1, "20260101T000000Z fired 1 0 1 1 ")
	}, example: "default:ghost cannot be read: its definition is lost", stays: true, byHand: true},
	{check: "schedule-unreadable", name: "a schedule of one revision is lost", damage: func(w *ward) {
		w.do("DEL", w.KeysOf(storetest.Nightly).Schedule(storetest.Nightly))
	}, example: "default:nightly cannot be read: its definition is lost", stays: true, byHand: true},
	{check: "schedule-unreadable", name: "a schedule is lost, and its history is garbage", damage: func(w *ward) {
		w.do("DEL", w.KeysOf(storetest.Nightly).Schedule(storetest.Nightly))
		w.do("RPUSH", w.KeysOf(storetest.Nightly).History(storetest.Nightly), "{")
	}, example: "default:nightly cannot be read: its definition is lost", stays: true, byHand: true, also: []string{"entry-unreadable"}},
	{check: "schedule-lost", name: "a schedule is lost", damage: func(w *ward) {
		w.change(2)
		w.do("DEL", w.KeysOf(ref("often")).Schedule(ref("often")))
	}, example: "default:often has lost its definition, and revision 2 is left in "},
	{check: "schedule-lost", name: "a schedule is lost that has fired since its last change", damage: func(w *ward) {
		w.change(2)
		w.fireBySecond(ref("often"))
		w.do("DEL", w.KeysOf(ref("often")).Schedule(ref("often")))
	}, example: "default:often has lost its definition, and revision 2 is left in "},
	{check: "schedule-lost", name: "a history is left alone", damage: func(w *ward) {
		w.change(1)
		k := w.KeysOf(ref("often"))
		w.do("DEL", k.Schedule(ref("often")))
		w.do("ZREM", k.Schedules(), ref("often"))
		w.do("ZREM", k.Ticks(), ref("often"))
	}, example: "default:often has lost its definition, and revision 1 is left in "},
	{check: "schedule-leftovers", name: "a leader looks at a schedule that does not exist", damage: func(w *ward) {
		w.do("ZADD", w.KeysOf(ref("ghost")).Ticks(), 1e15, ref("ghost"))
	}, example: "default:ghost does not exist, and is left in "},
	{check: "schedule-lost", name: "a schedule is lost, and its ledger is a string", damage: func(w *ward) {
		w.change(2)
		w.do("DEL", w.KeysOf(ref("often")).Schedule(ref("often")))
		w.do("SET", w.KeysOf(ref("often")).Ledger(ref("often")), "x")
	}, example: "default:often has lost its definition, and revision 2 is left in ", also: []string{"key-type"}},
	{check: "schedule-unreadable", name: "a schedule is lost, and its history is a string", damage: func(w *ward) {
		w.do("DEL", w.KeysOf(storetest.Nightly).Schedule(storetest.Nightly))
		w.do("SET", w.KeysOf(storetest.Nightly).History(storetest.Nightly), "x")
	}, example: "default:nightly cannot be read: its definition is lost", stays: true, byHand: true,
		also: []string{"key-type"}},
	{check: "schedule-unreadable", name: "a schedule has no revision", damage: func(w *ward) {
		w.do("HDEL", w.KeysOf(storetest.Nightly).Schedule(storetest.Nightly), "revision")
	}, example: "default:nightly cannot be read: ", aside: []string{" def:{", " cursor:17", "Z fired 1 "}},
	{check: "schedule-unreadable", name: "a schedule's cursor is no time", damage: func(w *ward) {
		w.do("HSET", w.KeysOf(storetest.Nightly).Schedule(storetest.Nightly), "cursor", "yesterday")
	}, example: "default:nightly cannot be read: ", aside: []string{"cursor:yesterday", "Z fired 1 "}},
	{check: "schedule-unreadable", name: "a schedule with earlier revisions cannot be read", damage: func(w *ward) {
		w.change(2)
		w.do("HSET", w.KeysOf(ref("often")).Schedule(ref("often")), "def", "{")
	}, example: "default:often cannot be read: ", then: []string{"schedule-lost"}, aside: []string{"def:{ "}},
	{check: "schedule-unreadable", name: "a name is none", damage: func(w *ward) {
		w.do("ZADD", w.KeysOf(storetest.Nightly).Schedules(), 0, "garbage")
	}, example: "garbage is not a valid name of a schedule"},
	{check: "schedule-unreadable", name: "a schedule's definition is no definition", damage: func(w *ward) {
		w.do("HSET", w.KeysOf(storetest.Nightly).Schedule(storetest.Nightly), "def", "{")
	}, example: "default:nightly cannot be read: ", aside: []string{"def:{ ", "Z fired 1 "}},
	{check: "schedule-unreadable", name: "ticks of a schedule cannot be computed", damage: func(w *ward) {
		w.do("HSET", w.KeysOf(storetest.Nightly).Schedule(storetest.Nightly), "def", `{"rules":[{"cron":"x"}]}`)
	}, example: "default:nightly cannot be read: its definition cannot be read",
		aside: []string{`{"rules":[{"cron":"x"}]}`}},
	{check: "schedule-unreadable", name: "a schedule's task has no type", damage: func(w *ward) {
		w.do("HSET", w.KeysOf(storetest.Nightly).Schedule(storetest.Nightly), "task", "{}\n{}")
	}, example: "default:nightly cannot be read: ", aside: []string{"task:{}"}},
	{check: "schedule-unreadable", name: "a schedule cannot be read, and its history can", damage: func(w *ward) {
		w.change(2)
		w.do("HSET", w.KeysOf(ref("often")).Schedule(ref("often")), "def", "{")
	}, example: "default:often cannot be read: ", aside: []string{"def:{"}},
	{check: "live-lost", name: "a task does not count as live", damage: func(w *ward) {
		w.do("DEL", w.KeysOf(storetest.Nightly).Live(storetest.Nightly))
	}, example: "default:nightly@"},
	{check: "live-lost", name: "the list of live tasks is a string", damage: func(w *ward) {
		w.do("SET", w.KeysOf(storetest.Nightly).Live(storetest.Nightly), "no live ticks")
	}, example: "default:nightly@", also: []string{"key-type"}, aside: []string{"no live ticks"}},
	{check: "live-ended", name: "a live tick has no task", damage: func(w *ward) {
		w.do("ZADD", w.KeysOf(storetest.Nightly).Live(storetest.Nightly), 1, "20260101T000000Z")
	}, example: "default:nightly@20260101T000000Z does not exist, and is in "},
	{check: "live-ended", name: "a live tick has ended", damage: func(w *ward) {
		live := w.DB.ZRange(w.Ctx, string(w.KeysOf(storetest.Nightly).Live(storetest.Nightly)), 0, 0).Val()
		w.EndTick(storetest.Nightly, live[0], task.Succeeded)
		w.do("ZADD", w.KeysOf(storetest.Nightly).Live(storetest.Nightly), 1, live[0])
	}, example: "default:nightly@"},

	{check: "lock-unlimited", name: "a lock never expires", damage: func(w *ward) {
		w.do("PERSIST", w.KeysOf(ref("lock")).Lock(ref("lock")))
	}, example: "default:lock never expires"},
	{check: "lock-unreadable", name: "a lock has no end", damage: func(w *ward) {
		w.do("HDEL", w.KeysOf(ref("lock")).Lock(ref("lock")), "ttl")
	}, example: "default:lock cannot be read", aside: []string{"holder:me"}},
	{check: "lock-unreadable", name: "a lock has the token 0", damage: func(w *ward) {
		w.do("HSET", w.KeysOf(ref("lock")).Lock(ref("lock")), "fence", 0)
	}, example: "default:lock cannot be read", aside: []string{"fence:0"}},
	{check: "lock-drift", name: "a lock is not listed", damage: func(w *ward) {
		w.do("ZREM", w.KeysOf(ref("lock")).Locks(), ref("lock"))
	}, example: "default:lock is held, and not in "},
	{check: "lock-drift", name: "a lock is listed that nobody holds", damage: func(w *ward) {
		w.do("DEL", w.KeysOf(ref("lock")).Lock(ref("lock")))
	}, example: "default:lock is not held, and in "},
	{check: "key-drift", name: "a key is known, and its task is gone", damage: func(w *ward) {
		w.do("HSET", w.KeysOf(ref("mine")).Once(), ref("mine"), "gone @ 0 0 @")
	}, example: "default:mine is known, and has no task that exists"},
	{check: "key-drift", name: "a task waits for one that is gone", damage: func(w *ward) {
		w.keyed("first")
		w.Begin(ref("mine@kfirst"))
		w.keyed("second")
		w.do("HSET", w.KeysOf(ref("mine")).Once(), ref("mine"), "gone second 0 0 @")
	}, example: "default:mine has a task that waits, default:mine@ksecond, and none that has not ended"},
	{check: "slot-leaked", name: "a task that has ended holds a slot", damage: func(w *ward) {
		w.do("SADD", w.KeysOf(ref("failed")).Holds(shop), ref("failed"))
	}, example: "default:failed is failed without this limit, and is in "},
	{check: "slot-leaked", name: "a task holds a slot of another limit", damage: func(w *ward) {
		w.do("SADD", w.KeysOf(ref("slotted")).Holds("all"), ref("slotted"))
	}, example: "default:slotted is queued without this limit, and is in "},
	{check: "slot-leaked", name: "a task that does not exist holds a slot", damage: func(w *ward) {
		w.do("SADD", w.KeysOf(ref("ghost")).Holds(shop), ref("ghost"))
	}, example: "default:ghost does not exist, and is in "},
	{check: "slot-lost", name: "a task has lost its slot", damage: func(w *ward) {
		w.do("SREM", w.KeysOf(ref("slotted")).Holds(shop), ref("slotted"))
	}, example: "default:slotted is queued, and not in "},
	{check: "slot-lost", name: "the set of those that hold slots is a string", damage: func(w *ward) {
		w.do("SET", w.KeysOf(ref("slotted")).Holds(shop), "no slots")
	}, example: "default:slotted is queued, and not in ", also: []string{"key-type"}, aside: []string{"no slots"}},
	{check: "entry-unreadable", name: "the slots of a limit in a partition are garbage", damage: func(w *ward) {
		w.do("HSET", w.KeysOf(ref("slotted")).Caps(), shop, "many")
	}, example: "dts:{1}:caps has an entry that cannot be read: ", aside: []string{"many"}},
	{check: "entry-unreadable", name: "the use of a limit is garbage", damage: func(w *ward) {
		w.do("HSET", w.Keys.Partition(w.Partitions.HomeOf(shop)).Use(shop), "1", "much")
	}, example: "dts:{", aside: []string{"much"}},
	{check: "lease-unlimited", name: "a lease never expires", damage: func(w *ward) {
		w.do("PERSIST", w.Keys.Partition(1).Term(storetest.Fence))
	}, example: "dts:{1}:lease of 1:tester never expires"},

	{check: "delivery-missing", name: "a queued task has no delivery for long", damage: func(w *ward) {
		fields := strings.Fields(w.state("queued"))
		fields[5] = "1"
		w.do("HSET", w.KeysOf(ref("queued")).States(), ref("queued"), strings.Join(fields, " "))
		testkit.Must(w.t, w.queues.Drop(w.Ctx, "default", []string{"default:queued:1"}))
	}, example: "default:queued has been queued since 1970", stays: true},
	{check: "delivery-lost", name: "a delivery waits in no list", damage: func(w *ward) {
		w.do("DEL", "asynq:{default}:pending")
	}, example: "default:queued:1 has the state pending, and is not in the list of that name"},
	{check: "delivery-lost", name: "a worker has a delivery that is in no list", damage: func(w *ward) {
		w.do("DEL", "asynq:{default}:pending")
		w.do("HSET", "asynq:{default}:t:default:queued:1", "state", "active")
	}, example: "default:queued:1 has the state active, and is not in the list of that name"},
	{check: "delivery-unleased", name: "a worker has a delivery without a lease", damage: func(w *ward) {
		w.do("LMOVE", "asynq:{default}:pending", "asynq:{default}:active", "RIGHT", "LEFT")
		w.do("HSET", "asynq:{default}:t:default:queued:1", "state", "active")
	}, example: "default:queued:1 is active, and not in asynq:{default}:lease"},
	{check: "delivery-leftovers", name: "a list has a delivery that does not exist", damage: func(w *ward) {
		w.do("LPUSH", "asynq:{default}:pending", "default:ghost:1")
	}, example: "default:ghost:1 does not exist, and is in a list of its queue"},
	{check: "delivery-leftovers", name: "a delivery waits of an attempt that is not queued", damage: func(w *ward) {
		d := task.Delivery{Ref: ref("waiting"), Attempt: 1, Type: "http", Queue: "default"}
		testkit.Must(w.t, w.queues.HandOver(w.Ctx, []task.Delivery{d}, nil).Failure())
	}, example: "default:waiting:1 waits in queue default, and its attempt is not queued"},
	{check: "queue-unlisted", name: "asynq does not know a queue", damage: func(w *ward) {
		w.do("SREM", "asynq:queues", "default")
	}, example: "default is not in asynq's list of queues"},
	{check: "queue-misnamed", name: "asynq lists what is no name", damage: func(w *ward) {
		w.do("SADD", "asynq:queues", "a b")
	}, example: `"a b" is in asynq's list of queues`, stays: true},
	{check: "server-leftovers", name: "asynq lists a dead server", damage: func(w *ward) {
		w.do("ZADD", "asynq:servers", 1, "asynq:servers:{a:1:x}")
	}, example: "asynq:servers:{a:1:x} has been dead since 1970-01-01T00:00:01Z"},
	{check: "schedule-held-back", name: "the queue of a schedule is full", damage: func(w *ward) {
		for id, queueName := range map[string]string{"often": "small", "goes-on": "large"} {
			w.Put(storetest.Daily(func(d *schedule.Definition) {
				d.Ref, d.Rules, d.Task.Queue = ref(id), []schedule.Rule{{Every: time.Hour}}, queueName
			}))
			w.Rewind(ref(id), 90*time.Minute)
			w.do("ZADD", w.KeysOf(ref(id)).Ticks(), time.Now().UnixMilli(), ref(id)) // as after a look of its leader
		}
		w.do("HSET", w.Keys.Limits(), "small", 1)
	}, example: "default:often has ticks that are held back since ", stays: true},
	{check: "ledger-holes", name: "a record is lost", damage: func(w *ward) {
		w.Put(storetest.Daily(func(d *schedule.Definition) {
			d.Ref = ref("often")
			d.Rules = []schedule.Rule{{Every: time.Minute}}
			d.Misfire = schedule.Misfire{Policy: schedule.MisfireSkip}
		}))
		w.Rewind(ref("often"), 10*time.Minute)
		w.Fire(ref("often"))
		w.do("ZREMRANGEBYRANK", w.KeysOf(ref("often")).Ledger(ref("often")), 3, 3)
	}, example: "default:often has no record of ", stays: true},
}

func TestExamine_FindsNothingWhereAllIsInOrder(t *testing.T) {
	t.Parallel()
	w := newWard(t, redistest.AOF())
	results := w.examine(control.DoctorRequest{})
	if found := findings(results); len(found) > 0 {
		t.Errorf("it found %v", found)
	}
	for name, r := range results {
		if r.Severity == doctor.Error {
			t.Errorf("%s: %s %v", name, r.Detail, r.Examples)
		}
		if r.Looked == 0 && name != "server-leftovers" && name != "delivery-missing" {
			t.Errorf("%s looked at nothing", name)
		}
	}
}

// change puts the schedule often, and changes it so many times: revision n is every n days, for a queue of that number.
func (w *ward) change(times int) {
	w.t.Helper()
	for n := range times + 1 {
		w.Put(storetest.Daily(func(d *schedule.Definition) {
			d.Ref, d.Rules, d.Task.Queue = ref("often"), []schedule.Rule{{Every: time.Duration(n+1) * 24 * time.Hour}}, fmt.Sprint(n+1)
		}))
	}
}

// fireBySecond lets a tick of the present revision fire, as a leader records it: one that no other revision has.
func (w *ward) fireBySecond(often task.Ref) {
	w.t.Helper()
	s := w.Schedule(often)
	testkit.Eventually(w.t, "the revision is old enough", func() bool {
		return time.Since(s.UpdatedAt) > 20*time.Millisecond
	})
	at := s.UpdatedAt.Add(5 * time.Millisecond)
	w.do("ZADD", w.KeysOf(often).Ledger(often), at.UnixMilli(),
		fmt.Sprintf("%s fired 1 0 %d %d ", schedule.TickName(at), at.UnixMilli(), s.Revision))
	w.do("HSET", w.KeysOf(often).Schedule(often), "cursor", at.UnixMilli()+5)
}

// Nobody knows the ticks of a revision that was lost: an audit says so, and blames no record of that time.
func TestAuditSchedule_BlamesNothingOnALostRevision(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	w.change(2)
	w.fireBySecond(ref("often"))
	w.do("DEL", w.KeysOf(ref("often")).Schedule(ref("often")))
	w.examine(control.DoctorRequest{Checks: []string{"schedule-lost"}, Repair: true})
	who := control.Caller{Namespace: "default"}
	audit, err := w.control.AuditSchedule(w.Ctx, who, "often", time.Time{}, time.Time{})
	testkit.Must(t, err)
	if len(audit.Strays) > 0 || audit.Proved || len(audit.Warnings) != 1 ||
		!strings.HasPrefix(audit.Warnings[0], "revision 3 is missing or cannot be read") {
		t.Errorf("strays %v, proved %t, warnings %q", audit.Strays, audit.Proved, audit.Warnings)
	}
}

// What comes back is paused, has the last definition that is left, keeps its ledger and history, and ticks from then on.
func TestExamine_BringsALostScheduleBack(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	often := ref("often")
	w.change(2)
	w.Rewind(often, 25*time.Hour*3)
	w.Fire(often)
	before, recorded := w.Schedule(often), w.Recorded(often)
	history, err := w.Schedules.History(w.Ctx, often)
	testkit.Must(t, err)
	w.do("DEL", w.KeysOf(often).Schedule(often))
	w.examine(control.DoctorRequest{Checks: []string{"schedule-lost"}, Repair: true})
	s := w.Schedule(often)
	if s.Revision != 4 || s.Task.Queue != "2" || s.PausedAt.IsZero() || s.Cursor.Before(before.Cursor) || s.UpdatedAt != s.Cursor {
		t.Errorf("it is back as %+v", s)
	}
	if !s.CreatedAt.Equal(history[len(history)-1].From) || s.Runs != before.Runs || !s.EndedAt.IsZero() {
		t.Errorf("it was created at %s, before %s, has %d runs, before %d, and ended at %s", s.CreatedAt, history[1].From, s.Runs, before.Runs, s.EndedAt)
	}
	if !strings.Contains(s.PauseNote, "revision 2: check it") || !strings.HasSuffix(s.PauseNote, "it is not known whether it had ended") {
		t.Errorf("the note says %q", s.PauseNote)
	}
	after, err := w.Schedules.History(w.Ctx, often)
	testkit.Must(t, err)
	if diff := cmp.Diff(history, after); diff != "" || len(recorded) == 0 || !slices.Equal(recorded, w.Recorded(often)) {
		t.Errorf("history (-before +after):\n%s\nledger %v, before %v", diff, w.Recorded(often), recorded)
	}
	_, err = w.Schedules.Resume(w.Ctx, often, "")
	testkit.Must(t, err)
	w.Fire(often)
	if now := w.Recorded(often); len(now) != len(recorded) {
		t.Errorf("after it was resumed, the ledger has %v, before %v", now, recorded)
	}
}

// Every check finds what somebody has broken, and nothing else does; repair mends it, and finds nothing more.
func TestExamine_FindsAndRepairs(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	tested := make(map[string]bool)
	for _, b := range slices.Concat(breakages, flowBreakages) {
		tested[b.check] = true
		t.Run(b.check+"/"+b.name, func(t *testing.T) {
			t.Parallel()
			w := newWard(t)
			b.damage(w)
			expect := func(results map[string]doctor.Result) {
				t.Helper()
				found := findings(results)
				if !strings.HasPrefix(found[b.check], b.example) {
					t.Errorf("the example is %q, want %q", found[b.check], b.example)
				}
				delete(found, b.check)
				if all := slices.Sorted(slices.Values(results[b.check].Examples)); len(slices.Compact(slices.Clone(all))) < len(all) {
					t.Errorf("it found the same more than once: %q", all)
				}
				for _, other := range b.also {
					delete(found, other)
				}
				if b.check != "list-index" { // which compares everything with the tasks
					delete(found, "list-index")
				}
				if len(found) > 0 {
					t.Errorf("others find %v", found)
				}
			}
			before := redistest.Dump(t, w.DB)
			expect(w.examine(control.DoctorRequest{}))
			after := redistest.Dump(t, w.DB)
			delete(after, "dts:{0}:examined") // for the status
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("the look has changed something (-before +after):\n%s", diff)
			}
			repaired := w.examine(control.DoctorRequest{Checks: []string{b.check}, Repair: true})
			expect(repaired)
			if r := repaired[b.check]; (r.Repairs && !b.byHand) != (r.Repaired == r.Found) || len(repaired) != 1 {
				t.Errorf("repaired %+v", repaired)
			}
			left := findings(w.examine(control.DoctorRequest{}))
			maps.DeleteFunc(left, func(name, _ string) bool { return slices.Contains(slices.Concat(b.also, b.then), name) })
			if !b.stays && len(left) > 0 {
				t.Errorf("after the repair it finds %v", left)
			}
			w.expectAside(b.aside)
		})
	}
	for _, c := range doctor.Checks {
		if !tested[c.Name] && c.OfData {
			t.Errorf("nothing is broken for check %s", c.Name)
		}
	}
}

// expectAside checks that these texts were put aside, and nothing else, and that they stay for a while.
func (w *ward) expectAside(texts []string) {
	w.t.Helper()
	all := redistest.Dump(w.t, w.DB)
	kept := make(map[string]any)
	for _, key := range w.aside() {
		kept[key] = all[key]
		if left := w.DB.TTL(w.Ctx, key).Val(); left < task.AsideKept-time.Hour || left > task.AsideKept {
			w.t.Errorf("%s stays for %s", key, left)
		}
	}
	if len(texts) == 0 && len(kept) > 0 {
		w.t.Errorf("aside is %v", kept)
	}
	for _, text := range texts {
		if !strings.Contains(fmt.Sprint(kept), text) {
			w.t.Errorf("%q is not aside: %v", text, kept)
		}
	}
}

// A definition that nobody can read is one finding and one repair, with or without the check for lost ones.
func TestExamine_BringsBackWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	often := ref("often")
	for _, checks := range [][]string{{"schedule-unreadable"}, nil} {
		w := newWard(t)
		w.change(2)
		w.do("HSET", w.KeysOf(often).Schedule(often), "def", "{")
		found := w.examine(control.DoctorRequest{Checks: checks, Repair: true})
		if r := found["schedule-unreadable"]; r.Found != 1 || r.Repaired != 1 || found["schedule-lost"].Found > 0 {
			t.Errorf("%v: %+v, and %+v", checks, r, found["schedule-lost"])
		}
		if s := w.Schedule(often); s.Revision != 4 || s.Task.Queue != "2" || s.PausedAt.IsZero() {
			t.Errorf("%v: it is back as %+v", checks, s)
		}
		if kept := w.aside(); len(kept) != 1 || w.DB.HGet(w.Ctx, kept[0], "def").Val() != "{" {
			t.Errorf("%v: aside are %q", checks, kept)
		}
	}
}

// ailments are what can be wrong with the deployment, by the check that sees it, how bad it is, and what the check says.
var ailments = []struct {
	check, name string
	damage      func(w *ward)
	severity    doctor.Severity
	detail      string
}{
	{"redis-reachable", "Redis answers", func(*ward) {}, doctor.OK, "answers in "},
	{"redis-reachable", "Redis is dead", func(w *ward) { w.server.Kill() }, doctor.Error, "does not answer this node"},
	{"redis-version", "Redis is new enough", func(*ward) {}, doctor.OK, "."},
	{"redis-version", "Redis is just new enough", func(w *ward) { w.says("redis_version", "6.2.7") }, doctor.OK, "6.2.7"},
	{"redis-version", "Redis is much newer", func(w *ward) { w.says("redis_version", "10.0") }, doctor.OK, "10.0"},
	{"redis-version", "Redis is too old", func(w *ward) { w.says("redis_version", "6.0.16") }, doctor.Error, "6.0.16"},
	{"redis-version", "Redis is a patch too old", func(w *ward) { w.says("redis_version", "6.2.6") }, doctor.Error, "6.2.6"},
	{"redis-version", "Redis is far too old", func(w *ward) { w.says("redis_version", "5.4.0") }, doctor.Error, "5.4.0"},
	{"redis-version", "Redis does not say", func(w *ward) { w.says("redis_version", "") }, doctor.Unknown, "does not say which version"},
	{"eviction", "Redis throws keys away", func(w *ward) {
		w.do("CONFIG", "SET", "maxmemory-policy", "allkeys-lru", "maxmemory", "1gb")
	}, doctor.Error, "allkeys-lru: it loses tasks, schedules, locks"},
	{"eviction", "Redis throws locks away", func(w *ward) {
		w.do("CONFIG", "SET", "maxmemory-policy", "volatile-ttl", "maxmemory", "1gb")
	}, doctor.Error, "volatile-ttl: it loses locks that are held"},
	{"eviction", "Redis keeps all", func(w *ward) { w.do("CONFIG", "SET", "maxmemory", "1gb") }, doctor.OK, "noeviction"},
	{"eviction", "Redis would throw keys away", func(w *ward) {
		w.do("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	}, doctor.Warning, "allkeys-lru, without a limit"},
	{"persistence", "nothing is written", func(*ward) {}, doctor.Error, "nothing is written to disk"},
	{"persistence", "snapshots are written", func(w *ward) { w.do("CONFIG", "SET", "save", "60 1") }, doctor.Warning, "snapshots only"},
	{"persistence", "everything is written", func(w *ward) {
		w.do("CONFIG", "SET", "appendfsync", "always", "appendonly", "yes")
	}, doctor.OK, "append-only file, appendfsync always"},
	{"persistence", "a snapshot could not be written", func(w *ward) {
		file := filepath.Join(w.DB.ConfigGet(w.Ctx, "dir").Val()["dir"], w.DB.ConfigGet(w.Ctx, "dbfilename").Val()["dbfilename"])
		testkit.Must(w.t, os.Mkdir(file, 0o700)) // a snapshot does not take the place of a directory
		w.do("BGSAVE")
		testkit.Eventually(w.t, "the snapshot has failed", func() bool {
			return strings.Contains(w.DB.Info(w.Ctx, "persistence").Val(), "rdb_last_bgsave_status:err")
		})
	}, doctor.Error, "rdb_last_bgsave_status is err"},
	{"persistence", "the append-only file could not be written", func(w *ward) {
		w.do("CONFIG", "SET", "appendonly", "yes")
		w.says("aof_last_write_status", "err")
	}, doctor.Error, "aof_last_write_status is err"},
	{"persistence", "the append-only file could not be written anew", func(w *ward) {
		w.do("CONFIG", "SET", "appendonly", "yes")
		w.says("aof_last_bgrewrite_status", "err")
	}, doctor.Error, "aof_last_bgrewrite_status is err"},
	{"replication", "there is no replica", func(*ward) {}, doctor.Note, "no replica"},
	{"replication", "writes wait for a replica, and there is none", func(w *ward) {
		w.do("CONFIG", "SET", "min-replicas-to-write", 1)
	}, doctor.Error, "replicas: 0, of which 0 follow closely: fewer than min-replicas-to-write asks for, so Redis refuses every write"},
	{"replication", "writes wait for more replicas than there are", func(w *ward) {
		w.replicate()
		w.do("CONFIG", "SET", "min-replicas-to-write", 2)
	}, doctor.Error, "replicas: 1, of which 1 follow closely"},
	{"replication", "nobody waits for the replica", func(w *ward) { w.replicate() }, doctor.Warning, "min-replicas-to-write 0"},
	{"replication", "writes wait for the replica", func(w *ward) {
		w.replicate()
		w.do("CONFIG", "SET", "min-replicas-to-write", 1, "min-replicas-max-lag", 2)
	}, doctor.OK, "replicas: 1, min-replicas-to-write 1, min-replicas-max-lag 2"},
	{"replication", "the replica may be far behind", func(w *ward) {
		w.replicate()
		w.do("CONFIG", "SET", "min-replicas-to-write", 1)
	}, doctor.Warning, "min-replicas-max-lag 10: a failover may lose the acknowledged writes of 11 s"},
	{"replication", "the replica may be behind without limit", func(w *ward) {
		w.replicate()
		w.do("CONFIG", "SET", "min-replicas-to-write", 1, "min-replicas-max-lag", 0)
	}, doctor.Warning, "min-replicas-max-lag 0, which switches it off"},
	{"password", "there is none", func(*ward) {}, doctor.Warning, "it takes commands without a password"},
	{"password", "there is one", func(w *ward) { w.do("CONFIG", "SET", "requirepass", "secret") }, doctor.OK, "no commands without"},
	{"password", "strangers may only say hello", func(w *ward) {
		w.do("ACL", "SETUSER", "default", "-dbsize")
	}, doctor.OK, "no commands without"},
	{"memory", "Redis is full", func(w *ward) { w.do("CONFIG", "SET", "maxmemory", 1) }, doctor.Error, "% of maxmemory"},
	{"memory", "there is room", func(w *ward) { w.do("CONFIG", "SET", "maxmemory", "1gb") }, doctor.OK, "% of maxmemory"},
	{"memory", "there is no limit", func(*ward) {}, doctor.Note, "maxmemory is not set"},
	{"latency", "Redis is near", func(*ward) {}, doctor.OK, "11 pings"},
	{"latency", "Redis is far", func(w *ward) { w.DB.AddHook(&pings{slow: 6, by: 30 * time.Millisecond}) }, doctor.Warning, "11 pings"},
	{"latency", "Redis stalls", func(w *ward) { w.DB.AddHook(&pings{slow: 1, by: 250 * time.Millisecond}) }, doctor.Warning, "11 pings"},
	{"clock", "the clocks agree", func(*ward) {}, doctor.OK, "the clocks of Redis and of this node agree, give or take"},
	{"listpacks", "large hashes are packed", func(w *ward) {
		w.do("CONFIG", "SET", "hash-max-listpack-entries", 5000)
	}, doctor.Warning, "hash-max-listpack-entries 5000, hash-max-listpack-value 64"},
	{"listpacks", "Redis may not say", func(w *ward) { w.do("ACL", "SETUSER", "default", "-config") }, doctor.Unknown, "Redis does not say: NOPERM"},
	{"nodes", "nobody schedules", func(w *ward) { w.employ(cluster.Node{ID: "a", State: cluster.StateAlive}) }, doctor.Error, "1 alive, 0 with the role scheduler"},
	{"nodes", "nobody works", func(w *ward) {
		w.employ(cluster.Node{ID: "a", State: cluster.StateAlive, Roles: []string{config.RoleScheduler}})
	}, doctor.Warning, "0 with the role worker"},
	{"nodes", "all that work are cordoned", func(w *ward) {
		w.employ(cluster.Node{ID: "a", State: cluster.StateAlive, Roles: []string{config.RoleScheduler}},
			cluster.Node{ID: "b", State: cluster.StateAlive, Roles: []string{config.RoleWorker}, Cordon: &cluster.Cordon{}})
	}, doctor.Warning, "1 with the role worker, 0 dead, 1 cordoned"},
	{"nodes", "one of two is cordoned", func(w *ward) {
		both := []string{config.RoleScheduler, config.RoleWorker}
		w.employ(cluster.Node{ID: "a", State: cluster.StateAlive, Roles: both},
			cluster.Node{ID: "b", State: cluster.StateAlive, Roles: both, Cordon: &cluster.Cordon{}})
	}, doctor.Note, "2 alive, 2 with the role scheduler, 2 with the role worker, 0 dead, 1 cordoned"},
	{"nodes", "an upgrade stopped half-way", func(w *ward) {
		both := []string{config.RoleScheduler, config.RoleWorker}
		w.employ(cluster.Node{ID: "a", State: cluster.StateAlive, Roles: both, Version: "1"}, cluster.Node{ID: "b", State: cluster.StateAlive, Roles: both, Version: "2"})
	}, doctor.Note, "versions 1, 2"},
	{"nodes", "their list is a string", func(w *ward) {
		w.do("SET", w.Keys.Nodes(), "x")
		w.control = control.New(control.Options{Store: w.Store, Queues: w.queues, Nodes: listed{w}})
	}, doctor.Unknown, ""},
	{"leaders", "all partitions have one", func(*ward) {}, doctor.OK, "all 2 partitions have one"},
	{"leaders", "nobody leads a partition", func(w *ward) { w.do("DEL", w.Keys.Partition(1).Term(storetest.Fence)) }, doctor.Warning, "no leader: partition 1"},
	{"leaders", "a leader has died", func(w *ward) { w.employ() }, doctor.Warning, "led by no living node: partition 0, 1"},
	{"overdue", "nobody claims a task", func(w *ward) { w.do("ZADD", w.KeysOf(ref("waiting")).Wheel(), 1, ref("waiting")) }, doctor.Error, "default:waiting is overdue by "},
	{"overdue", "the wheel of another partition is a string", func(w *ward) {
		p := w.PartitionOf(ref("waiting"))
		w.do("SET", w.Keys.Partition(p).Wheel(), "x")
		w.do("ZADD", w.Keys.Partition(1-p).Wheel(), 1, ref("ghost"))
	}, doctor.Error, "default:ghost is overdue"},
	{"overdue", "nothing is overdue", func(*ward) {}, doctor.OK, "nothing"},
	{"unserved-queues", "the set of tasks without a name is a string", func(w *ward) {
		w.do("SET", w.Keys.Partition(0).Ready(lua.Unnamed), "x")
	}, doctor.Unknown, "all of which are served"},
	{"unserved-queues", "nobody serves a queue", func(w *ward) { w.employ() }, doctor.Warning, "full (1)"},
}

func TestExamine_JudgesTheDeployment(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	tested := make(map[string]bool)
	for _, a := range ailments {
		tested[a.check] = true
		t.Run(a.check+"/"+a.name, func(t *testing.T) {
			t.Parallel()
			w := newWard(t)
			a.damage(w)
			got := w.examine(control.DoctorRequest{Checks: []string{a.check}})[a.check]
			if got.Severity != a.severity || !strings.Contains(got.Detail, a.detail) || (got.Found > 0 || got.PassedOver != "") != (a.severity != doctor.OK) {
				t.Errorf("got %s, %q, found %d, passed over %q", got.Severity, got.Detail, got.Found, got.PassedOver)
			}
		})
	}
	for _, c := range doctor.Checks {
		if !tested[c.Name] && !c.OfData {
			t.Errorf("nothing is tested of check %s", c.Name)
		}
	}
}

// Tasks follow the clock of Redis. By how much those of the nodes differ is for people to know.
func TestExamine_SaysByHowMuchClocksDiffer(t *testing.T) {
	t.Parallel()
	w := newWard(t, redistest.MovableClock(t))
	for _, c := range []struct {
		ahead    time.Duration
		severity doctor.Severity
		detail   string
	}{
		{500 * time.Millisecond, doctor.OK, "ms ahead of this node's, "},
		{5*time.Second + 500*time.Millisecond, doctor.Warning, "s ahead of this node's, "},
		{-5*time.Second - 500*time.Millisecond, doctor.Warning, "s behind this node's, "},
	} {
		w.server.MoveClock(c.ahead)
		got := w.examine(control.DoctorRequest{Checks: []string{"clock"}})["clock"]
		if got.Severity != c.severity || !strings.Contains(got.Detail, c.detail) || (got.Found > 0) != (c.severity != doctor.OK) {
			t.Errorf("ahead by %s: %s, %q, found %d", c.ahead, got.Severity, got.Detail, got.Found)
		}
	}
}

// says has Redis answer INFO with another value of a field.
func (w *ward) says(field, value string) {
	w.DB.AddHook(info{line: regexp.MustCompile("(?m)^" + field + ":.*$"), instead: field + ":" + value})
}

// info replaces a line of what INFO answers.
type info struct {
	line    *regexp.Regexp
	instead string
}

func (i info) DialHook(next redis.DialHook) redis.DialHook { return next }

func (i info) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if answer, ok := cmd.(*redis.StringCmd); ok && cmd.Name() == "info" {
			answer.SetVal(i.line.ReplaceAllString(answer.Val(), i.instead))
		}
		return err
	}
}

func (i info) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// pings has so many of them, the first ones, take longer.
type pings struct {
	slow int
	by   time.Duration
}

func (p *pings) DialHook(next redis.DialHook) redis.DialHook { return next }

func (p *pings) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "ping" && p.slow > 0 {
			p.slow--
			_ = clock.Sleep(ctx, p.by)
		}
		return next(ctx, cmd)
	}
}

func (p *pings) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// replicate starts a replica and waits until it has what the ward has.
func (w *ward) replicate() {
	w.t.Helper()
	w.do("CONFIG", "SET", "repl-diskless-sync-delay", 0)
	host, port, err := net.SplitHostPort(w.DB.UniversalClient.(*redis.Client).Options().Addr)
	testkit.Must(w.t, err)
	redistest.Start(w.t, redistest.With("--replicaof", host+" "+port))
	testkit.Eventually(w.t, "the replica is there", func() bool {
		return strings.Contains(w.DB.Info(w.Ctx, "replication").Val(), "state=online")
	})
}
