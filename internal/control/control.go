package control

import (
	"context"
	"log/slog"
	"time"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/events"
	"github.com/dts-sched/dts/internal/fresh"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/remote"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/store/limits"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/tracing"
)

// NodeLister knows the nodes.
type NodeLister interface {
	// Nodes reads the list of nodes. Error: CodeUnavailable.
	Nodes(ctx context.Context) ([]cluster.Node, error)
	// View is the list as it was at the last heartbeat.
	View() cluster.View
}

// Cordoner keeps nodes from taking tasks.
type Cordoner interface {
	// Cordon keeps the workers of a node from taking tasks. Errors: cluster.CodeTooManyCordons, CodeUnavailable.
	Cordon(ctx context.Context, node string, c cluster.Cordon, lasts time.Duration) error
	// Uncordon ends a cordon. It returns whether there was one. Error: CodeUnavailable.
	Uncordon(ctx context.Context, node string) (was bool, _ error)
}

// Options says what the use cases work on.
type Options struct {
	Store   *store.Store
	Queues  *queue.Queues // nil: for callers that use no queues; deliveries in asynq are not cleaned up then
	Nodes   NodeLister    // nil: for callers that do not list nodes; nobody is warned of what no node runs then
	Cordons Cordoner      // nil: for callers that cordon no node
	// Now is the time by Redis's clock, as heartbeats tell it; zero before the first one. nil: for processes
	// without heartbeats, which ask Redis.
	Now    func() time.Time
	Events *events.Hub // nil: for callers that follow none
	Types  task.Types  // checks the payload of every new or changed task and schedule; nil knows no type
	// Workers take attempts for workers that reach DTS by HTTP; nil: for callers that have none.
	Workers *remote.Workers
	Tracer  *tracing.Tracer // nil: submissions, and the attempts of such workers, have no spans
	Log     *slog.Logger    // nil: nothing is logged
	// MaxSubmissions is how many tasks, and other things that make work, may be in requests that have not been answered;
	// 0: any number.
	MaxSubmissions int
	// Keyed is called for each submission with a key that was answered; nil: nobody counts them.
	Keyed func(task.OnceMode, task.OnceOutcome)
	// Forgetting is for tasks that somebody has deleted.
	Forgetting Forgetting
	// Embedded says that Redis is one inside a process, which has no settings to examine.
	Embedded bool
}

// Control holds the use cases. It keeps no state that it could not lose, and is safe for concurrent use.
type Control struct {
	store        *store.Store
	queues       *queue.Queues
	nodes        NodeLister
	cordons      Cordoner
	beatTime     func() time.Time // Options.Now
	clock        redisClock
	events       *events.Hub
	types        task.Types
	workers      *remote.Workers
	tracer       *tracing.Tracer
	embedded     bool // Options.Embedded
	log          *slog.Logger
	namespaces   namespaceNotes
	foreign      fresh.Value[map[string]int] // slots of asynq's own servers, by queue
	warned       keptWarnings
	rules        knownRules
	latestNames  fresh.Value[[]string]                    // of namespaces, the newest first
	crowdedNames fresh.Value[map[int]layout.WaitingNames] // of partitions that have many
	paused       pausedQueues
	admission    admission                             // of what makes work
	turns        turns                                 // of what makes work and shares no call
	keyed        func(task.OnceMode, task.OnceOutcome) // Options.Keyed
	pages        turns
	costly       turns // pages that take seconds
	forecasts    turns
	recent       recentForecasts
	estimates    turns // of memory
	statuses     statuses
	limits       *limits.Limits // nil without queues
	forgetting   Forgetting
}

// New makes the use cases. There is nothing to close.
func New(o Options) *Control {
	c := &Control{
		store: o.Store, queues: o.Queues, nodes: o.Nodes, cordons: o.Cordons, beatTime: o.Now, events: o.Events,
		types: o.Types, workers: o.Workers, tracer: o.Tracer, log: o.Log, admission: admission{limit: o.MaxSubmissions},
		turns: make(turns, turnsLimit), pages: make(turns, PagesLimit), costly: make(turns, CostlyLimit),
		forecasts: make(turns, 1), estimates: make(turns, 1), embedded: o.Embedded, forgetting: o.Forgetting, keyed: o.Keyed,
	}
	if o.Queues != nil {
		c.limits = limits.New(o.Store.Layout, o.Queues)
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	return c
}
