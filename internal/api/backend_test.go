package api

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/events"
	"github.com/dts-sched/dts/internal/handover"
	"github.com/dts-sched/dts/internal/lease/leasetest"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// fence is the lease on the partition of a backend.
const fence = "1:tester"

// backend is what a server under test works on: the use cases on a Redis of their own. Nobody else is at work there:
// tests do by hand what leaders and workers do.
type backend struct {
	t      *testing.T
	ctx    context.Context
	redis  *redistest.Server
	db     *redisx.DB // the test's own client
	store  *store.Store
	queues *queue.Queues
	runs   map[string]*running // by task
	faults *faults             // of the server's client
	source *stubSource         // of the events
	events *events.Hub
}

// running is an attempt that a test works on.
type running struct {
	*tasks.Run
	lines int // written to the log so far
}

func startBackend(t *testing.T, change ...func(*control.Options)) (*backend, *control.Control) {
	t.Helper()
	return startBackendOn(t, redistest.Start(t), change...)
}

// startBackendOn is a backend on a Redis, which may have data.
func startBackendOn(t *testing.T, server *redistest.Server, change ...func(*control.Options)) (*backend, *control.Control) {
	t.Helper()
	b := &backend{t: t, ctx: context.WithoutCancel(t.Context()), redis: server, db: server.DB(t), runs: map[string]*running{}, faults: &faults{}, source: &stubSource{}}
	b.events = b.source.startHub(t)
	b.queues = queue.New(queue.Options{DB: b.db})
	b.store = openStore(t, b.db)
	leasetest.Grant(t, b.db, b.store.Partitions.LeaseKey(0), fence, 0)

	db := server.DB(t)
	db.AddHook(b.faults)
	nodes := stubNodes{
		{ID: "n1", State: "alive", Roles: []string{"api"}, StartedAt: start, LastBeat: start},
		{ID: "n2", State: "dead", StartedAt: start, LastBeat: start},
	}
	o := control.Options{Store: openStore(t, db), Queues: queue.New(queue.Options{DB: db}), Nodes: nodes, Events: b.events}
	for _, f := range change {
		f(&o)
	}
	return b, control.New(o)
}

func openStore(t testing.TB, db *redisx.DB) *store.Store {
	t.Helper()
	partitions := 1
	if db.Exists(t.Context(), "dts:meta").Val() == 1 {
		partitions = 0 // as many as there are
	}
	s, err := store.Open(t.Context(), store.Options{DB: db, Partitions: partitions})
	testkit.Must(t, err)
	return s
}

type stubNodes []cluster.Node

func (n stubNodes) Nodes(context.Context) ([]cluster.Node, error) { return n, nil }

func (n stubNodes) View() cluster.View { return cluster.View{} } // nothing is known, so nobody is warned

// faults makes the commands of a client slow, or fail.
type faults struct {
	mu   sync.Mutex
	hold func(context.Context) // if set, called before every command
	err  error                 // if set, every command fails with it
}

func (f *faults) set(hold func(context.Context), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hold, f.err = hold, err
}

func (f *faults) before(ctx context.Context) error {
	f.mu.Lock()
	hold, err := f.hold, f.err
	f.mu.Unlock()
	if hold != nil {
		hold(ctx)
	}
	if err == nil {
		err = ctx.Err()
	}
	return err
}

func (f *faults) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f *faults) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := f.before(ctx); err != nil {
			return err
		}
		return next(ctx, cmd)
	}
}

func (f *faults) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if err := f.before(ctx); err != nil {
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
			return err
		}
		return next(ctx, cmds)
	}
}

// get reads a task as it is in Redis.
func (b *backend) get(ref task.Ref) task.Task {
	b.t.Helper()
	t, err := b.store.Tasks.Get(b.ctx, ref)
	testkit.Must(b.t, err)
	return t
}

// claim marks a task queued, as its leader does when it is due.
func (b *backend) claim(id string) {
	b.t.Helper()
	testkit.Must(b.t, b.db.ZAddXX(b.ctx, "dts:{0}:wheel", redis.Z{Member: ref(id).String()}).Err())
	_, err := b.store.Partitions.At(0).Lead(fence).Claim(b.ctx, 1, handover.Grant{Default: 1000}, time.Second)
	testkit.Must(b.t, err)
	if got := b.get(ref(id)); got.State != task.Queued {
		b.t.Fatalf("%s is %s", id, got.State)
	}
}

// begin starts the next attempt of a task on the node n1.
func (b *backend) begin(id string) *running {
	b.t.Helper()
	b.claim(id)
	run, err := b.store.Tasks.Begin(b.ctx, ref(id), b.get(ref(id)).Attempt, "n1#"+id)
	testkit.Must(b.t, err)
	b.runs[id] = &running{Run: run}
	return b.runs[id]
}

// log adds lines to the log of a task; its attempt begins with the first ones.
func (b *backend) log(id string, lines ...string) {
	b.t.Helper()
	run := b.runs[id]
	if run == nil {
		run = b.begin(id)
	}
	out := make([]tasks.Line, len(lines))
	for i, text := range lines {
		out[i] = tasks.Line{Stream: "stdout", Text: text}
	}
	testkit.Must(b.t, run.Log(b.ctx, run.lines+1, out))
	run.lines += len(lines)
}

// end ends the attempt of a task, and the task with it.
func (b *backend) end(id string, final task.State, reason string) {
	b.t.Helper()
	run := b.runs[id]
	if run == nil {
		run = b.begin(id)
	}
	outcome := map[task.State]task.Outcome{
		task.Succeeded: task.OutcomeSucceeded, task.Failed: task.OutcomeFailed, task.Cancelled: task.OutcomeCancelled,
	}[final]
	testkit.Must(b.t, run.Finish(b.ctx, final, outcome, "", reason))
	delete(b.runs, id)
}

// openQueue makes a queue known to asynq, with one delivery in it.
func (b *backend) openQueue(name string) {
	b.t.Helper()
	testkit.Must(b.t, b.queues.HandOver(b.ctx, []task.Delivery{{Ref: ref("some"), Attempt: 1, Type: "http", Queue: name, Timeout: time.Minute}}, nil).Failure())
}
