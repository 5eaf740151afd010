package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/lease/leasetest"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/telemetry"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

const (
	beat  = 400 * time.Millisecond // of every node's heart
	never = time.Hour              // for what must not be waited for
)

func TestMain(m *testing.M) { testkit.Main(m) }

// world is a Redis with tasks.
type world struct {
	t     *testing.T
	srv   *redistest.Server // nil of a cluster
	url   string
	db    *redisx.DB
	store *store.Store
	lease time.Duration // of runs
	slots int           // of each node as a worker of the queue default
	types []string      // that these run; none if they do not say
	lossy bool          // Redis may have lost writes lately
}

func newWorld(t *testing.T, opts ...redistest.Option) *world {
	t.Helper()
	return newWorldWith(t, runLease, opts...)
}

// newWorldWith is a world in which runs are leased for so long.
func newWorldWith(t *testing.T, lease time.Duration, opts ...redistest.Option) *world {
	t.Helper()
	srv := redistest.Start(t, opts...)
	w := &world{t: t, srv: srv, url: srv.URL(), db: srv.DB(t), lease: lease, slots: 1000}
	w.store = w.open(w.db)
	return w
}

// newAdvanced is a world whose data has the newest layout, as no node of an earlier release lives.
func newAdvanced(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	testkit.Must(t, w.store.Advance(t.Context(), func(context.Context) ([]cluster.Node, error) { return nil, nil }))
	return w
}

func (w *world) open(db *redisx.DB) *store.Store {
	w.t.Helper()
	s, err := store.Open(w.t.Context(), store.Options{
		DB: db, RunLease: w.lease, MayHaveLost: func() bool { return w.lossy },
	})
	testkit.Must(w.t, err)
	return s
}

// runLease is how long runs are leased in most tests.
const runLease = 500 * time.Millisecond

// registry is a node's view of the others that counts how often the node looks at its share of the partitions.
type registry struct {
	*cluster.Registry
	looks atomic.Int64
}

func (r *registry) View() cluster.View {
	if caller, _, _, _ := runtime.Caller(1); strings.HasSuffix(runtime.FuncForPC(caller).Name(), ".(*balancer).adjust") {
		r.looks.Add(1)
	}
	return r.Registry.View()
}

// node is one that plays the scheduler, and reaches Redis, unless that is a cluster, through a proxy of its own.
type node struct {
	*Scheduler
	t         *testing.T
	proxy     *redistest.Proxy
	members   *registry
	metrics   *telemetry.Metrics
	stop      context.CancelFunc // of the scheduler
	ended     chan error
	leave     context.CancelFunc // of the registry
	left      chan error
	finishing bool
}

// start runs a node with leases of that length.
func (w *world) start(id string, ttl time.Duration, change ...func(*node)) *node {
	w.t.Helper()
	n := &node{t: w.t, metrics: telemetry.New(), ended: make(chan error, 1), left: make(chan error, 1)}
	url := w.url
	if w.srv != nil {
		n.proxy = redistest.NewProxy(w.t, w.srv.Addr())
		url = n.proxy.URL()
	}
	db, err := redisx.Open(w.t.Context(), redisx.Options{URL: url, Observe: n.metrics.ObserveScript})
	testkit.Must(w.t, err)
	w.t.Cleanup(func() { testkit.Must(w.t, db.Close()) })
	n.members = &registry{Registry: w.member(id, config.RoleScheduler, db)}
	s := w.open(db)
	n.Scheduler = New(Options{
		DB: db, Store: s, Queues: queue.New(queue.Options{DB: db}), Members: n.members, Node: id, LeaseTTL: ttl, Keep: partition.Keep{Tasks: 10_000}, HandOver: 4,
		Metrics: n.metrics, Log: slog.New(slog.DiscardHandler),
	})
	n.pace = pace{maintenance: never, lookFirst: defaultPace.lookFirst, lookAgain: never, tend: never, ask: never,
		names: never, pack: never, lossy: never, peek: never, limits: never}
	n.contact = unbroken()
	for _, c := range change {
		c(n)
	}
	n.plan = newPlan(n.Scheduler) // of that pace
	n.run()
	return n
}

// unbroken is the contact of a node that has reached Redis for long and asks no more.
func unbroken() *contact {
	const long = 1000 * 24 * time.Hour
	w := &witness{settled: clock.Now(), last: reading{clock.Now(), clock.Now(), clock.Now()}, wrote: clock.Now()}
	return &contact{lease: long, known: map[int]*witness{0: w}, probe: func(context.Context, func(int, reading)) {}}
}

func (w *world) member(id, role string, db *redisx.DB) *cluster.Registry {
	return cluster.New(cluster.Options{
		DB: db, Key: w.store.Keys.Nodes(), Channel: w.store.Keys.Members(), ID: id, Beat: beat,
		Self: func() cluster.Node {
			n := serving(role, w.slots)
			n.Types = w.types
			return n
		},
	})
}

// serving is a node of that role that also serves the queue default, as a worker with so many slots.
func serving(role string, slots int) cluster.Node {
	return cluster.Node{Roles: []string{role, config.RoleWorker}, Queues: map[string]int{"default": 1}, Capacity: slots}
}

func (n *node) run() {
	n.t.Helper()
	var member, ctx context.Context
	member, n.leave = context.WithCancel(n.t.Context())
	ctx, n.stop = context.WithCancel(n.t.Context())
	go func() { n.left <- n.members.Run(member) }()
	n.t.Cleanup(n.end)
	testkit.Receive(n.t, n.members.Ready(), "the first beat")
	go func() { n.ended <- n.Run(ctx) }()
	testkit.Receive(n.t, n.Ready(), "the scheduler")
}

// end stops the node in good order.
func (n *node) end() {
	n.t.Helper()
	if n.finishing {
		return
	}
	n.finishing = true
	n.members.SetDraining(true)
	n.stop()
	if err := testkit.Receive(n.t, n.ended, "the scheduler's end"); err != nil {
		n.t.Errorf("the scheduler ended with %v", err)
	}
	n.leave()
	if err := testkit.Receive(n.t, n.left, "the registry's end"); err != nil {
		n.t.Errorf("the registry ended with %v", err)
	}
}

// leads waits until each node leads so many partitions, and together all of them.
func (w *world) leads(counts map[*node]int) {
	w.t.Helper()
	testkit.Eventually(w.t, "the partitions are shared as they should be", func() bool {
		total := 0
		for n, want := range counts {
			led := len(n.Led())
			if led != want {
				return false
			}
			total += led
		}
		return total == w.store.Partitions.Count()
	})
}

// fences are the leases as Redis has them, by partition; "" where there is none.
func (w *world) fences() []string {
	w.t.Helper()
	all := make([]string, w.store.Partitions.Count())
	for p := range all {
		all[p] = string(leasetest.Holder(w.t, w.db, w.store.Partitions.LeaseKey(p)))
	}
	return all
}

func (w *world) create(d task.Definition) task.Ref {
	w.t.Helper()
	d.Type = cmp.Or(d.Type, "echo")
	c, err := useCases(w.store).Submit(w.t.Context(), caller, d)
	testkit.Must(w.t, err)
	return c.Task.Ref
}

// createOverdue creates tasks and moves each to its own time in the past: every later one to step after the one before it, the last to
// now. A task cannot be submitted for the past. Returns the times by the ids of the first attempts' deliveries.
func (w *world) createOverdue(refs []task.Ref, step time.Duration) map[string]time.Time {
	w.t.Helper()
	due := make(map[string]time.Time, len(refs))
	at := w.db.Time(w.t.Context()).Val().Add(-time.Duration(len(refs)) * step)
	for _, ref := range refs {
		w.create(task.Definition{Ref: ref, Delay: time.Hour})
		at = at.Add(step)
		entry := redis.Z{Score: float64(at.UnixMilli()), Member: ref.String()}
		testkit.Must(w.t, w.db.ZAddXX(w.t.Context(), string(w.store.KeysOf(ref).Wheel()), entry).Err())
		due[task.Delivery{Ref: ref, Attempt: 1}.String()] = at
	}
	return due
}

// siblings names tasks that share a partition.
func (w *world) siblings(n int) []task.Ref {
	refs := make([]task.Ref, 0, n)
	for i := 0; len(refs) < n; i++ {
		ref := task.Ref{Namespace: task.DefaultNamespace, ID: fmt.Sprint(i)}
		if w.store.PartitionOf(ref) == 3 {
			refs = append(refs, ref)
		}
	}
	return refs
}

func (w *world) get(ref task.Ref) task.Task {
	w.t.Helper()
	found, err := w.store.Tasks.Get(w.t.Context(), ref)
	testkit.Must(w.t, err)
	return found
}

func (w *world) reaches(ref task.Ref, s task.State) {
	w.t.Helper()
	testkit.Eventually(w.t, "task "+ref.ID+" is "+string(s), func() bool { return w.get(ref).State == s })
}

// waits says whether a delivery waits in its queue.
func (w *world) waits(ref task.Ref, attempt int) bool {
	w.t.Helper()
	id := task.Delivery{Ref: ref, Attempt: attempt}.String()
	n, err := w.db.Do(w.t.Context(), "EXISTS", "asynq:{default}:t:"+id).Int()
	testkit.Must(w.t, err)
	return n == 1
}

// dispatched waits until an attempt is in asynq.
func (w *world) dispatched(ref task.Ref, attempt int) {
	w.t.Helper()
	testkit.Eventually(w.t, ref.String()+" is in asynq", func() bool { return w.waits(ref, attempt) })
}

// runs is how often a node ran a script.
func (n *node) runs(script string) uint64 {
	n.t.Helper()
	if lua.ByName(script) == nil {
		n.t.Fatalf("there is no script %q", script)
	}
	var m dto.Metric
	testkit.Must(n.t, n.metrics.ScriptSeconds.WithLabelValues(script).(prometheus.Metric).Write(&m))
	return m.GetHistogram().GetSampleCount()
}

// asleep waits until a node has looked at all wheels and dispatches nothing any more.
func (n *node) asleep() {
	n.t.Helper()
	n.quiet("claim")
}

// quiet waits until a node has not run a script for a while.
func (n *node) quiet(script string) {
	n.t.Helper()
	last, since := n.runs(script), time.After(300*time.Millisecond)
	testkit.Eventually(n.t, "it runs "+script+" no more", func() bool {
		if now := n.runs(script); now != last {
			last, since = now, time.After(300*time.Millisecond)
		}
		select {
		case <-since:
			return true
		default:
			return false
		}
	})
}
