package worker

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/handover"
	"github.com/dts-sched/dts/internal/lease/leasetest"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/telemetry"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor"
)

const (
	node  = "node-a"
	fence = "1:tester"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// work is an executor made of a function.
type work func(ctx context.Context, a executor.Attempt) (string, error)

func (w work) Execute(ctx context.Context, a executor.Attempt) (string, error) { return w(ctx, a) }

// untilStopped is an executor that goes on until its context ends; it tells when it has begun and why it ended.
func untilStopped() (_ work, begun chan executor.Attempt, ended chan error) {
	begun, ended = make(chan executor.Attempt, 10), make(chan error, 10)
	return func(ctx context.Context, a executor.Attempt) (string, error) {
		begun <- a
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return "", context.Cause(ctx)
	}, begun, ended
}

// world is a Redis with tasks, and a worker that reaches it through proxies of its own.
type world struct {
	t       *testing.T
	srv     *redistest.Server
	db      *redisx.DB
	store   *store.Store
	queues  *queue.Queues
	metrics *telemetry.Metrics
	said    *records
	reports *redistest.Proxy // between the worker and the tasks
	asynq   *redistest.Proxy // between the worker and its queue
	lease   time.Duration    // of the runs of workers that start from now on; 0: the default
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return worldOn(t, redistest.Start(t))
}

// worldOn is a world on a Redis that is there.
func worldOn(t *testing.T, srv *redistest.Server) *world {
	t.Helper()
	db := srv.DB(t)
	w := &world{
		t: t, srv: srv, db: db, queues: queue.New(queue.Options{DB: db}), metrics: telemetry.New(), said: &records{},
		reports: redistest.NewProxy(t, srv.Addr()), asynq: redistest.NewProxy(t, srv.Addr()),
	}
	w.store = w.open(db)
	for p := range w.store.Partitions.Count() {
		leasetest.Grant(t, db, w.store.Partitions.LeaseKey(p), fence, 0)
	}
	return w
}

func (w *world) open(db *redisx.DB) *store.Store {
	w.t.Helper()
	s, err := store.Open(w.t.Context(), store.Options{DB: db, Partitions: 2, RunLease: w.lease})
	testkit.Must(w.t, err)
	return s
}

// reap ends the run of a task as a leader does whose lease is over. A worker that extends the lease in between makes it
// try again.
func (w *world) reap(ref task.Ref) {
	w.t.Helper()
	leader := w.store.Partitions.At(w.store.PartitionOf(ref)).Lead(fence)
	lapsed := redis.Z{Score: 1, Member: ref.String()}
	testkit.Eventually(w.t, "the run is reaped", func() bool {
		testkit.Must(w.t, w.db.ZAdd(w.t.Context(), string(w.store.KeysOf(ref).Held()), lapsed).Err())
		err := leader.Reap(w.t.Context(), w.get(ref), time.Now(), time.Time{}, partition.Loss{Reason: "the lease is over"})
		if err != nil && !errors.Is(err, tasks.ErrStale) {
			w.t.Fatal(err)
		}
		return w.get(ref).State != task.Running
	})
}

// running is a worker that runs.
type running struct {
	*Worker
	t     *testing.T
	stop  context.CancelFunc
	ended chan error
}

// start runs a worker whose tasks of type "echo" are done by do.
func (w *world) start(do work, change ...func(*Options)) *running {
	w.t.Helper()
	o := Options{
		Store: w.open(redistest.Open(w.t, w.reports.URL())), Node: node, Capacity: 4,
		Pools: []Pool{{
			Name: "test", Concurrency: 8, Queues: map[string]int{"default": 1}, DB: redistest.Open(w.t, w.asynq.URL()),
		}},
		Executors: executor.Registry{"echo": do}, DrainTimeout: 100 * time.Millisecond, Grace: testkit.Limit,
		Random: func() float64 { return 0.5 }, Metrics: w.metrics, Log: slog.New(w.said),
	}
	for _, c := range change {
		c(&o)
	}
	ctx, stop := context.WithCancel(w.t.Context())
	r := &running{Worker: New(o), t: w.t, stop: stop, ended: make(chan error, 1)}
	go func() { r.ended <- r.Run(ctx) }()
	w.t.Cleanup(func() { r.end() })
	testkit.Receive(w.t, r.Ready(), "the worker")
	return r
}

// end stops the worker and waits for its end.
func (r *running) end() {
	r.t.Helper()
	r.stop()
	if err := testkit.Receive(r.t, r.ended, "the worker's end"); err != nil {
		r.t.Errorf("the worker ended with %v", err)
	}
	r.ended <- nil // for whoever asks again
}

// runUntilStopped has a new worker begin a task that goes on until it is stopped; ended tells why it was.
func (w *world) runUntilStopped(change ...func(*Options)) (ref task.Ref, ended <-chan error) {
	w.t.Helper()
	do, begun, ended := untilStopped()
	w.start(do, change...)
	ref = w.submit(task.Definition{})
	testkit.Receive(w.t, begun, "the attempt")
	return ref, ended
}

// submit makes a task and hands its first attempt to asynq.
func (w *world) submit(d task.Definition) task.Ref {
	w.t.Helper()
	ref := w.create(d)
	w.dispatch()
	return ref
}

func (w *world) create(d task.Definition) task.Ref {
	w.t.Helper()
	if d.Type == "" {
		d.Type = "echo"
	}
	c, err := w.useCases().Submit(w.t.Context(), caller, d)
	testkit.Must(w.t, err)
	return c.Task.Ref
}

// dispatch does what leaders do.
func (w *world) dispatch() {
	w.t.Helper()
	for _, d := range w.claim() {
		testkit.Must(w.t, w.queues.HandOver(w.t.Context(), []task.Delivery{d}, nil).Failure())
	}
}

func (w *world) claim() []task.Delivery {
	w.t.Helper()
	var all []task.Delivery
	for p := range w.store.Partitions.Count() {
		c, err := w.store.Partitions.At(p).Lead(fence).Claim(w.t.Context(), 100, handover.Grant{Default: 1000}, time.Second)
		testkit.Must(w.t, err)
		all = append(all, c.Deliveries...)
	}
	return all
}

func (w *world) get(ref task.Ref) task.Task {
	w.t.Helper()
	found, err := w.store.Tasks.Get(w.t.Context(), ref)
	testkit.Must(w.t, err)
	return found
}

// reaches waits until a task is in a state and answers it.
func (w *world) reaches(ref task.Ref, s task.State) task.Task {
	w.t.Helper()
	testkit.Eventually(w.t, "task "+ref.ID+" is "+string(s), func() bool { return w.get(ref).State == s })
	return w.get(ref)
}

func (w *world) attempts(ref task.Ref) []task.Attempt {
	w.t.Helper()
	all, err := w.store.Tasks.Attempts(w.t.Context(), ref)
	testkit.Must(w.t, err)
	return all
}

// last is the newest attempt, which has to have ended so.
func (w *world) last(ref task.Ref, want task.Outcome) task.Attempt {
	w.t.Helper()
	all := w.attempts(ref)
	if len(all) == 0 {
		w.t.Fatalf("task %s has no attempts", ref)
	}
	a := all[len(all)-1]
	if a.Outcome != want {
		w.t.Errorf("attempt %d of %s is %q (%s), want %s", a.Number, ref, a.Outcome, a.Error, want)
	}
	return a
}

// delivery is where asynq keeps a delivery, "" if it does not.
func (w *world) delivery(ref task.Ref, attempt int) string {
	w.t.Helper()
	id := task.Delivery{Ref: ref, Attempt: attempt}.String()
	values, err := w.db.HMGet(w.t.Context(), "asynq:{default}:t:"+id, "state").Result()
	testkit.Must(w.t, err)
	s, _ := values[0].(string)
	return s
}

// records keeps what was logged.
type records struct {
	mu   sync.Mutex
	text strings.Builder
}

func (r *records) Enabled(context.Context, slog.Level) bool { return true }
func (r *records) WithAttrs([]slog.Attr) slog.Handler       { return r }
func (r *records) WithGroup(string) slog.Handler            { return r }
func (r *records) Handle(_ context.Context, rec slog.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.text.WriteString(rec.Message + "\n")
	return nil
}

func (r *records) contain(text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Contains(r.text.String(), text)
}

func count(t *testing.T, c prometheus.Metric) float64 {
	t.Helper()
	var m dto.Metric
	testkit.Must(t, c.Write(&m))
	return m.GetCounter().GetValue()
}
