// Package app is dtsd as a library: it builds the parts that a node's roles need and runs them in order.
package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/api"
	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/events"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/scheduler"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/telemetry"
	"github.com/dts-sched/dts/internal/worker"
	"github.com/dts-sched/dts/internal/worker/executor"
)

// Options says which node to be.
type Options struct {
	Config    config.Config
	Executors executor.Table // the task types, and how this node runs them
	Version   string
	Log       *slog.Logger
	Embedded  bool // keep everything in a Redis inside the process, instead of at Config.Redis
}

// App is one node.
//
// The order in which it stops matters: the scheduler gives its partitions back first, so that the others go on at
// once; then the worker drains, while the API still answers and the node still beats, so that nobody takes its
// work for lost; then the API, which ends its streams; then the event hub, which has no readers left; then the node
// leaves the registry; and the connections close last. It starts in the opposite order.
type App struct {
	o        Options
	types    task.Types
	cleanups []func() error // last in, first out

	node      string
	metrics   *telemetry.Metrics
	store     *store.Store
	registry  *cluster.Registry
	events    *events.Hub
	scheduler *scheduler.Scheduler // nil without the role
	worker    *worker.Worker       // nil without the role
	api       *api.Server
	listener  net.Listener
	ready     chan struct{} // closed once every role runs
	draining  chan struct{} // closed when the node begins to stop
}

// New connects to Redis, binds the API's port and builds the node; nothing runs yet. If it fails, nothing is left
// behind.
func New(ctx context.Context, o Options) (*App, error) {
	a := &App{
		o: o, types: o.Executors.Types(), node: cluster.NewNodeID(cmp.Or(o.Config.NodeName, cluster.Host())), metrics: telemetry.New(), ready: make(chan struct{}), draining: make(chan struct{}),
	}
	a.o.Log = o.Log.With("node", a.node)
	if err := a.build(ctx); err != nil {
		return nil, errors.Join(err, a.close())
	}
	return a, nil
}

// Node is this node's id.
func (a *App) Node() string { return a.node }

// Addr is the address of the API, or of the health checks and metrics of a node without that role.
func (a *App) Addr() string { return a.listener.Addr().String() }

// Ready is closed once every role runs.
func (a *App) Ready() <-chan struct{} { return a.ready }

func (a *App) build(ctx context.Context) error {
	url := string(a.o.Config.Redis)
	if a.o.Embedded {
		embedded, err := redisx.StartEmbedded()
		if err != nil {
			return err
		}
		a.cleanup(func() error { embedded.Close(); return nil })
		url = embedded.URL()
	}
	db, err := a.open(ctx, url)
	if err != nil {
		return err
	}
	a.store, err = store.Open(ctx, store.Options{
		DB: db, Prefix: a.o.Config.Prefix, Partitions: a.o.Config.Partitions, Types: a.types, Log: a.o.Log,
	})
	if err != nil {
		return err
	}
	if err := a.buildRegistry(db); err != nil {
		return err
	}
	a.events = events.New(events.Options{Source: a.store.Tasks, Log: a.o.Log})
	queues := queue.New(queue.Options{DB: db, Prefix: a.o.Config.Prefix})
	a.buildScheduler(db, queues)
	if err := a.buildWorker(ctx, url); err != nil {
		return err
	}
	return a.buildAPI(ctx, url, queues)
}

// open connects to Redis and sees to it that the connection is closed in the end.
func (a *App) open(ctx context.Context, url string) (*redisx.DB, error) {
	return a.openWith(ctx, redisx.Options{URL: url, Observe: a.metrics.ObserveScript})
}

func (a *App) openWith(ctx context.Context, o redisx.Options) (*redisx.DB, error) {
	db, err := redisx.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	a.cleanup(db.Close)
	return db, nil
}

func (a *App) cleanup(f func() error) { a.cleanups = append(a.cleanups, f) }

func (a *App) close() error {
	var failures []error
	for _, f := range slices.Backward(a.cleanups) {
		failures = append(failures, f())
	}
	a.cleanups = nil
	return errors.Join(failures...)
}

func (a *App) buildRegistry(db *redisx.DB) error {
	meter, err := cluster.NewMeter()
	if err != nil {
		return fmt.Errorf("measuring this process: %w", err)
	}
	started := clock.Now()
	a.registry = cluster.New(cluster.Options{
		DB: db, Key: a.store.Keys.Nodes(), Channel: a.store.Keys.Members(), ID: a.node, Beat: a.o.Config.Heartbeat,
		Log: a.o.Log, Self: func() cluster.Node { return a.describe(meter, started) },
	})
	return nil
}

// describe is this node as the others see it.
func (a *App) describe(meter *cluster.Meter, started time.Time) cluster.Node {
	usage, _ := meter.Read() // what cannot be read is 0
	n := cluster.Node{
		Host: cmp.Or(a.o.Config.NodeName, cluster.Host()), IP: cmp.Or(a.o.Config.NodeIP, cluster.IP()), Version: a.o.Version, Roles: a.o.Config.Roles, StartedAt: started,
		CPU: usage.CPU, Memory: usage.Memory, Queues: map[string]int{}, Partitions: []int{},
	}
	if a.worker != nil {
		n.Capacity, n.Running = a.o.Config.Concurrency, a.worker.Running()
		for _, p := range a.o.Config.AllPools() {
			for name, weight := range p.Queues {
				n.Queues[name] = max(n.Queues[name], weight)
			}
		}
	}
	if a.scheduler != nil {
		n.Partitions = a.scheduler.Led()
	}
	return n
}

func (a *App) buildScheduler(db *redisx.DB, queues *queue.Queues) {
	if !a.o.Config.Roles.Has(config.RoleScheduler) {
		return
	}
	a.scheduler = scheduler.New(scheduler.Options{
		DB: db, Store: a.store, Queues: queues, Members: a.registry, Node: a.node,
		LeaseTTL: a.o.Config.LeaseTTL, Keep: a.o.Config.RetentionMaxTasks, Metrics: a.metrics, Log: a.o.Log, Types: a.types,
	})
	a.metrics.Registry.MustRegister(newDepthCollector(a.scheduler))
}

func (a *App) buildWorker(ctx context.Context, url string) error {
	if !a.o.Config.Roles.Has(config.RoleWorker) {
		return nil
	}
	var pools []worker.Pool
	for _, p := range a.o.Config.AllPools() {
		db, err := a.openWith(ctx, redisx.Options{URL: url, Observe: a.metrics.ObserveScript, FailFast: true})
		if err != nil {
			return err
		}
		pools = append(pools, worker.Pool{Name: p.Name, Concurrency: p.Concurrency, Queues: p.Queues, DB: db})
	}
	executors, err := a.o.Executors.Build(executor.Options{Version: a.o.Version})
	if err != nil {
		return err
	}
	a.cleanup(executors.Close)
	a.worker = worker.New(worker.Options{
		Store: a.store, Prefix: a.o.Config.Prefix, Members: a.registry, Node: a.node, Capacity: a.o.Config.Concurrency, Pools: pools,
		Executors: executors, Types: a.types, DrainTimeout: a.o.Config.DrainTimeout, Grace: executors.Grace(),
		Random: rand.Float64, Metrics: a.metrics, Log: a.o.Log,
	})
	return nil
}
