package app

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"go.opentelemetry.io/otel/trace"

	"github.com/dts-sched/dts/internal/api"
	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/edge"
	"github.com/dts-sched/dts/internal/events"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/telemetry"
	"github.com/dts-sched/dts/internal/tracing"
)

// DirectOptions says which Redis holds the data. Config, Types and Log are required; of Config, only what concerns the data
// counts.
type DirectOptions struct {
	Config config.Config
	Types  task.Types // payloads of other types are not checked
	// Traces takes the spans of submissions; nil: none are made.
	Traces trace.TracerProvider
	Log    *slog.Logger
}

// Direct is the API without a node and without a port, for programs that talk to Redis themselves.
type Direct struct {
	link        *redisx.Link
	nodes       *cluster.Observer
	submissions api.Submissions
	server      *edge.Server
	cleanups    cleanups
}

// OpenDirect connects to Redis. Errors: Redis does not answer or holds other data.
func OpenDirect(ctx context.Context, o DirectOptions) (*Direct, error) {
	d := &Direct{}
	if err := d.build(ctx, o); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Submissions is the use case that the API's handlers call for submissions.
func (d *Direct) Submissions() api.Submissions { return d.submissions }

// Handler serves the API.
func (d *Direct) Handler() http.Handler { return d.server.Echo() }

// Close ends streams that are followed, and closes the connections.
func (d *Direct) Close() error { return d.cleanups.run() }

func (d *Direct) build(ctx context.Context, o DirectOptions) error {
	if o.Config.Redis.Embedded() {
		o.Config = o.Config.Unhurried()
	}
	o.Log = telemetry.Throttle(o.Log)
	d.link = redisx.NewLink(o.Log)
	succession := redisx.NewSuccession(settleTime) // a request that is repeated is for what nodes put back
	mayHaveLost, awaitsReports := lossWindows(succession)
	db, err := redisx.Open(ctx, redisx.Options{URL: string(o.Config.Redis), Link: d.link, Succession: succession})
	if err != nil {
		return err
	}
	d.cleanups = append(d.cleanups, db.Close)
	data, err := store.Open(ctx, store.Options{
		DB: db, Prefix: o.Config.Prefix, Partitions: o.Config.Partitions, Durability: o.Config.Durability, Types: o.Types, Log: o.Log,
		MayHaveLost: mayHaveLost, AwaitsReports: awaitsReports, HasOlder: func() bool { return d.nodes.View().HasOlder() },
	})
	if err != nil {
		return err
	}
	hub := events.New(events.Options{Source: data.Tasks, Log: o.Log})
	said := &findings{store: data, log: o.Log}
	d.nodes = cluster.NewObserver(cluster.Options{
		DB: db, Key: data.Keys.Nodes(), Cordons: data.Keys.Cordons(), Channel: data.Keys.Members(), Beat: o.Config.Heartbeat, Log: o.Log,
		Check: func(ctx context.Context) { checkFrom(ctx, said, d.link) },
	})
	d.cleanups = append(d.cleanups, func() error { d.nodes.Close(); return nil })
	useCases := control.New(control.Options{
		Store: data, Queues: queue.New(queue.Options{DB: db, Prefix: o.Config.Prefix}), Types: o.Types, Log: o.Log,
		Tracer: tracing.New(o.Traces), Nodes: d.nodes, Cordons: d.nodes, Events: hub, Embedded: o.Config.Redis.Embedded(),
		Forgetting: forgettingOf(o.Config),
	})
	d.submissions = api.Submissions{Control: useCases, Types: o.Types}
	d.server, err = newServer(edge.Options{Log: o.Log}, api.Options{Control: useCases, Types: o.Types})
	if err != nil {
		return err
	}
	d.follow(hub)
	return nil
}

// errNodesSettle says that the nodes on the list settle what is missing.
var errNodesSettle = errors.New("the nodes settle it")

// checkFrom is checkData for a client, which is not on the list of nodes. Unless a partition has a mark, all data is
// lost if that list is gone, too; else the nodes settle it.
func checkFrom(ctx context.Context, f *findings, link *redisx.Link) {
	found, err := f.store.Check(ctx, func(ctx context.Context) (bool, error) {
		listed, err := f.store.DB.Exists(ctx, string(f.store.Keys.Nodes())).Result()
		if listed > 0 {
			err = errNodesSettle
		}
		return true, err
	})
	if err != nil && !errors.Is(err, layout.ErrOther) {
		if !errors.Is(err, errNodesSettle) {
			f.tellGone(found, err)
		}
		return
	}
	f.tell(found)
	refuseOther(link, f.log, err)
}

// follow runs the event hub until Close, which ends the streams of its readers.
func (d *Direct) follow(hub *events.Hub) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- hub.Run(ctx) }()
	d.cleanups = append(d.cleanups, func() error { stop(); return <-ended })
}
