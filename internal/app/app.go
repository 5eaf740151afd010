// Package app is dtsd as a library: it builds the parts that a node's roles need, and starts and stops them in order.
package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/edge"
	"github.com/dts-sched/dts/internal/events"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/remote"
	"github.com/dts-sched/dts/internal/rollup"
	"github.com/dts-sched/dts/internal/scheduler"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/telemetry"
	"github.com/dts-sched/dts/internal/tracing"
	"github.com/dts-sched/dts/internal/worker"
	"github.com/dts-sched/dts/internal/worker/executor"
)

// Options describes a node. Config, Executors and Log are required.
type Options struct {
	Config    config.Config
	Executors executor.Table // the task types, and how this node runs them
	Version   string
	Log       *slog.Logger
	Embedded  bool // Redis is one inside the process
	Uncounted bool // nothing is counted by minute: for those who measure what that costs

	RunLease time.Duration // how long a worker's word holds that it runs an attempt; 0 means the default

	// The rest is passed in by dtsd, so that other programs do not link it. nil means that there is none, whatever Config says.
	// Monitor makes the page, below a path, at which people watch the queues of db. Profiles is served at
	// Config.DebugListen.
	Monitor  func(db *redisx.DB, path string, writable bool) http.Handler
	Profiles http.Handler
	Docs     http.Handler // the reference of the API, at /docs
	// Pages registers the pages for browsers; nil: there are none. monitor says that asynqmon is served.
	Pages func(s *edge.Server, c *control.Control, monitor bool) error
	// Traces makes what takes the spans of the node with that id, and stop, which has it send the last ones. The provider
	// may be nil: no spans are made then.
	Traces func(node string, log *slog.Logger) (provider trace.TracerProvider, stop func() error, err error)
}

// App is one node.
//
// Its parts start in the order profiles, watch of the data, record of losses, reported ends, registry, counts, event hub,
// succession, watch of the memory, remote workers, API, watch of the servers, worker, scheduler, and stop in the opposite order:
//
//  1. The scheduler releases its partitions, so that other nodes take them over at once.
//  2. The worker drains. Meanwhile the API still answers, and the registry still beats, so that no other node takes the
//     running attempts for lost. Then nobody watches any more which servers Redis has.
//  3. The API stops and ends its streams of events.
//  4. The sessions of remote workers end. The workers go on through other nodes.
//  5. The watch of the memory stops, and the succession: nothing runs here any more that a new primary has to be told about.
//  6. The event hub stops. It has no readers left. What the node has counted is written for the last time.
//  7. The registry takes the node off the list.
//  8. The reported ends, the record of losses and the watch of the data stop: nobody tells them anything any more.
//  9. The profiles, if they are served, stop last: the start and the end of a node can be profiled, too.
//
// Last, the executors, the listeners and the connections to Redis are closed, and the last spans are sent.
type App struct {
	o        Options
	types    task.Types
	cleanups cleanups

	node       string
	succession *redisx.Succession
	losses     lossLog
	shortages  shortages
	metrics    *telemetry.Metrics
	tracer     *tracing.Tracer // nil: no spans are made
	link       *redisx.Link
	store      *store.Store
	tally      *rollup.Tally // nil: nothing is counted
	registry   *cluster.Registry
	machine    atomic.Pointer[cluster.Machine] // of the last heartbeat; nil before the first one
	events     *events.Hub
	scheduler  *scheduler.Scheduler // nil without the role
	worker     *worker.Worker       // nil without the role
	remote     *remote.Workers      // workers by HTTP; nil without the role api
	control    *control.Control
	executors  executor.Registry // of the worker
	network    string            // see cluster.Network
	neighbours atomic.Pointer[neighbours]
	obeys      atomic.Int64 // since when, in ms, the cordon of this node holds; 0 for none
	runs       []string     // the types of tasks that the worker runs
	queues     *queue.Queues
	listener   net.Listener
	waits      func(reason error) error                  // tells at the listener why the node waits for Redis; nil if it is headless
	reception  *reception                                // does so; nil if the node is headless
	serve      func(context.Context, net.Listener) error // runs the API; nil if the node is headless
	debug      net.Listener                              // of the profiles; nil without them
	rejoined   chan struct{}                             // signalled when the node was missing from the list of nodes
	forgotten  atomic.Bool                               // ... so that Redis did not know it at all
	delisted   atomic.Bool                               // ... though it had just sent a heartbeat
	findings   findings                                  // of checks of the data
	checked    chan struct{}                             // closed when the node has joined the list and found data that it can serve
	ready      chan struct{}                             // closed once every role runs
	draining   chan struct{}                             // closed when the node begins to stop

	serversPause time.Duration // between two looks which servers and sentinels a Redis has
	dataPause    time.Duration // between two checks of the data, and of the memory of Redis
}

// New binds the API's port, connects to Redis and builds the node, whose parts Run starts. It waits for a Redis that does not answer, until
// ctx ends; meanwhile, and until Run serves, /healthz answers, and /readyz says why the node is not ready. If it fails, it closes what it opened. Errors: Redis
// cannot be used (redisx.ErrUnusable) or holds other data, the port is taken, an executor cannot be built, or ctx has ended.
func New(ctx context.Context, o Options) (*App, error) {
	return newApp(ctx, o, port{open: (*App).listen, build: (*App).buildServer})
}

// NewHeadless is New for a node inside another program. It serves nothing, neither health checks nor metrics, so that the program does not
// link what serves them.
func NewHeadless(ctx context.Context, o Options) (*App, error) {
	return newApp(ctx, o, port{open: func(*App, context.Context) error { return nil }, build: func(*App) error { return nil }})
}

// port is where a node serves: open binds it before Redis answers, and build builds what is served there.
type port struct {
	open  func(*App, context.Context) error
	build func(*App) error
}

// newApp builds the node.
func newApp(ctx context.Context, o Options, p port) (*App, error) {
	o.Log = telemetry.Throttle(o.Log)
	o.Embedded = o.Embedded || o.Config.Redis.Embedded()
	a := &App{
		network: cluster.Network(), serversPause: serversPause, dataPause: dataPause,
		o: o, types: o.Executors.Types(), metrics: telemetry.New(), succession: redisx.NewSuccession(settleTime),
		rejoined: make(chan struct{}, 1), checked: make(chan struct{}), ready: make(chan struct{}), draining: make(chan struct{}),
	}
	a.succession.Join(false)
	if a.unhurried() {
		a.o.Config, a.dataPause = a.o.Config.Unhurried(), unhurriedPause
	}
	a.node = cluster.NewNodeID(a.name())
	a.o.Log = o.Log.With("node", a.node)
	a.link = redisx.NewLink(a.o.Log)
	a.metrics.ShowRedis(a.link.Up)
	a.metrics.ShowBuild(o.Version)
	err := a.buildTracer()
	if err == nil {
		err = p.open(a, ctx)
	}
	if err == nil {
		err = a.build(ctx)
	}
	if err == nil {
		err = p.build(a)
	}
	if err == nil && a.control == nil { // nothing is served
		a.control = a.buildControl()
	}
	if err != nil {
		return nil, errors.Join(err, a.close())
	}
	return a, nil
}

// vitalPool is the number of connections for leases and heartbeats.
const vitalPool = 8

// Node is this node's id.
func (a *App) Node() string { return a.node }

// unhurriedPause is between two looks at a Redis inside the process, which nobody else changes.
const unhurriedPause = 24 * time.Hour

// unhurried reports whether the Redis is inside the process, and in a test.
func (a *App) unhurried() bool { return a.o.Config.Redis.Embedded() }

// runLease is how long a worker's word holds that it runs an attempt; 0 means the default.
func (a *App) runLease() time.Duration {
	if a.unhurried() {
		return time.Hour // nobody else could take over
	}
	return a.o.RunLease
}

// name is the configured name of the node, or that of its machine.
func (a *App) name() string { return cmp.Or(a.o.Config.NodeName, cluster.Host()) }

// Addr is the address, host:port, of the API; on a node without that role, of its health checks and metrics. A headless node has
// none.
func (a *App) Addr() string { return a.listener.Addr().String() }

// Ready is closed once every role runs.
func (a *App) Ready() <-chan struct{} { return a.ready }

func (a *App) build(ctx context.Context) error {
	db, err := a.open(ctx, redisx.Options{})
	if err != nil {
		return err
	}
	vital, err := a.open(ctx, redisx.Options{PoolSize: vitalPool, Vital: true})
	if err != nil {
		return err
	}
	if err := a.buildDebug(ctx); err != nil {
		return err
	}
	if err := a.openStore(ctx, db, vital); err != nil {
		return err
	}
	a.metrics.ShowPartitions(a.store.Layout.Partitions())
	a.findings = findings{store: a.store, log: a.o.Log}
	if err := a.buildRegistry(); err != nil {
		return err
	}
	a.events = events.New(events.Options{Source: a.store.Tasks, Log: a.o.Log, Linger: events.DefaultLinger})
	a.queues = queue.New(queue.Options{DB: db, Prefix: a.o.Config.Prefix})
	a.buildScheduler(db)
	a.noteReplicas(ctx)
	a.lookAtMemory(ctx)
	return a.buildWorker(ctx)
}

// openStore opens what is in Redis, and has what this node records be counted.
func (a *App) openStore(ctx context.Context, db, vital *redisx.DB) error {
	mayHaveLost, awaitsReports := lossWindows(a.succession)
	counters := []tasks.Counter{a.metrics}
	if !a.unhurried() && !a.o.Uncounted {
		a.tally = rollup.NewTally(func() time.Time { return a.registry.Now() }) // there is a registry before anything runs
		counters = append(counters, a.tally)
	}
	return a.await(ctx, func() (err error) {
		a.store, err = store.Open(ctx, store.Options{
			DB: db, Vital: vital, Prefix: a.o.Config.Prefix, Partitions: a.o.Config.Partitions, RunLease: a.runLease(),
			Types: a.types, Log: a.o.Log, Durability: a.o.Config.Durability, Lost: a.noticeLoss, MayHaveLost: mayHaveLost,
			AwaitsReports: awaitsReports, Counters: counters,
			HasOlder: func() bool { return a.registry.View().HasOlder() },
		})
		if err != nil && !waitingHelps(err, a.link.Up()) {
			return fmt.Errorf("%w: %w", redisx.ErrUnusable, err)
		}
		return err
	})
}

// buildTracer makes the tracer first, so that it is closed last: until then, there may be spans.
func (a *App) buildTracer() error {
	if a.o.Traces == nil {
		return nil
	}
	provider, stop, err := a.o.Traces(a.node, a.o.Log)
	if err != nil {
		return fmt.Errorf("traces: %w", err)
	}
	if stop != nil {
		a.cleanup(stop)
	}
	a.tracer = tracing.New(provider)
	return nil
}

// open connects to the Redis of the node, whatever the options say of it, and closes the connection when the app closes.
func (a *App) open(ctx context.Context, o redisx.Options) (db *redisx.DB, err error) {
	o = a.toRedis(o)
	err = a.await(ctx, func() error { db, err = redisx.Open(ctx, o); return err })
	if err != nil {
		return nil, err
	}
	a.cleanup(db.Close)
	return db, nil
}

// openLater is open for what may never be used: it connects with the first command.
func (a *App) openLater(o redisx.Options) (*redisx.DB, error) {
	db, err := redisx.New(a.toRedis(o))
	if err != nil {
		return nil, err
	}
	a.cleanup(db.Close)
	return db, nil
}

// toRedis completes the options of a connection to the Redis of the node.
func (a *App) toRedis(o redisx.Options) redisx.Options {
	o.URL, o.Link, o.Observe, o.Succession = string(a.o.Config.Redis), a.link, a.metrics.ObserveScript, a.succession
	return o
}

// cleanup has close call f.
func (a *App) cleanup(f func() error) { a.cleanups = append(a.cleanups, f) }

// close closes what build opened, the last one first.
func (a *App) close() error { return a.cleanups.run() }

func (a *App) buildScheduler(db *redisx.DB) {
	if !a.o.Config.Roles.Has(config.RoleScheduler) {
		return
	}
	chores := func(ctx context.Context, told scheduler.Told) {
		a.control.Chores(ctx, told.Status, told.Bulk, told.Look)
	}
	if a.unhurried() {
		// Nobody watches a Redis inside the process.
		chores = func(ctx context.Context, told scheduler.Told) { a.control.KeepBulks(ctx, told.Bulk) }
	}
	a.scheduler = scheduler.New(scheduler.Options{
		DB: db, Store: a.store, Queues: a.queues, Members: a.registry, Node: a.node,
		LeaseTTL: a.o.Config.LeaseTTL, HandOver: a.o.Config.HandOver, Unhurried: a.unhurried(), Metrics: a.metrics, Log: a.o.Log,
		Tracer: a.tracer, Chores: chores,
		Keep: partition.Keep{
			Tasks: a.o.Config.RetentionMaxTasks, Remember: a.o.Config.Remember, Names: a.o.Config.RememberMaxIDs,
		},
	})
	a.metrics.Registry.MustRegister(newDepthCollector(a.scheduler, a.o.Log), &fleetCollector{
		leads: func() bool { return a.scheduler.Leads(0) }, nodes: a.registry.Nodes, memory: a.shortages.inUse,
		limits: a.store.Rules.Totals,
	})
}

func (a *App) buildWorker(ctx context.Context) error {
	if !a.o.Config.Roles.Has(config.RoleWorker) {
		return nil
	}
	var pools []worker.Pool
	for _, p := range a.o.Config.AllPools() {
		db, err := a.open(ctx, redisx.Options{FailFast: true})
		if err != nil {
			return err
		}
		pools = append(pools, worker.Pool{Name: p.Name, Concurrency: p.Concurrency, Queues: p.Queues, DB: db})
	}
	executors, err := a.o.Executors.Build(executor.Options{
		Version: a.o.Version, Redis: string(a.o.Config.Redis), Prefix: a.o.Config.Prefix, Log: a.o.Log, Own: a.own,
	})
	if err != nil {
		return err
	}
	a.cleanup(executors.Close)
	a.executors = executors
	a.runs = executors.Types()
	a.worker = worker.New(worker.Options{
		Store: a.store, Prefix: a.o.Config.Prefix, Node: a.node,
		Capacity: a.o.Config.Concurrency, Pools: pools, Executors: executors, Types: a.types,
		Unhurried: a.unhurried(), DrainTimeout: a.o.Config.DrainTimeout, OutageTolerance: a.o.Config.OutageTolerance, Grace: executors.Grace(), Random: rand.Float64, Metrics: a.metrics, Log: a.o.Log,
		Tracer: a.tracer,
	})
	return nil
}
