package app

import (
	"context"
	"errors"
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/dts-sched/dts/internal/api"
	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/edge"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/remote"
)

// buildServer builds what serves the API. Without the role api it serves health checks and metrics only.
func (a *App) buildServer() error {
	serves := a.o.Config.Roles.Has(config.RoleAPI)
	if serves {
		if err := a.buildRemote(); err != nil {
			return err
		}
	}
	a.control = a.buildControl()
	a.metrics.Registry.MustRegister(queue.NewCollector(a.queues, a.servedQueues))
	server := edge.Options{
		Log: a.o.Log, Guard: a.guard(a.listener, a.o.Config.Listen),
		TransferMemory: int64(a.o.Config.TransferMemory), MaxConnections: a.o.Config.MaxConnectionsPerAddress,
		MaxStreams: a.o.Config.MaxStreams, StreamsPerAddr: a.o.Config.MaxStreamsPerAddress,
		Answered: a.metrics.Answered, BasePath: a.o.Config.BasePath,
	}
	o := api.Options{
		Control: a.control, Version: a.o.Version, Types: a.types,
		Refused: func(code string) { a.metrics.RefusedWork.WithLabelValues(code).Inc() },
		Metrics: a.metricsHandler(), Docs: a.o.Docs,
		Ready: []api.Check{
			{Name: "redis", Do: a.checkRedis},
			{Name: "roles", Do: a.checkRunning},
		},
		Warnings: a.shortages.warnings,
	}
	if serves {
		if err := a.beginCounters(); err != nil {
			return err
		}
	} else {
		server.Refusal = edge.ErrNoAPI
	}
	if a.o.Config.Monitor && a.o.Monitor != nil && serves {
		monitor, err := a.buildMonitor()
		if err != nil {
			return err
		}
		o.Monitor, o.MonitorWritable = monitor, a.o.Config.MonitorWritable
	}
	s, err := newServer(server, o)
	if err != nil {
		return err
	}
	if serves && a.o.Pages != nil {
		if err := a.o.Pages(s, a.control, o.Monitor != nil); err != nil {
			return err
		}
	}
	a.serve = s.Run
	return nil
}

// beginCounters makes the counters of the API, with 0: of refusals, and of each operation's success and failures.
func (a *App) beginCounters() error {
	for _, code := range api.Refusals {
		a.metrics.RefusedWork.WithLabelValues(string(code))
	}
	return api.EachOperation(func(route, method string, status int) {
		for _, s := range []int{status, http.StatusInternalServerError, http.StatusServiceUnavailable} {
			a.metrics.BeginRequest(route, method, s)
		}
	})
}

// newServer makes a server of the API.
func newServer(o edge.Options, served api.Options) (*edge.Server, error) {
	s, err := edge.New(o)
	if err != nil {
		return nil, err
	}
	return s, api.Register(s, served)
}

// servedQueues returns the queues that living nodes serve, apart from those that only workers by HTTP do.
func (a *App) servedQueues() map[string]bool {
	served := make(map[string]bool)
	for _, n := range a.registry.View().Nodes {
		for name := range n.Queues {
			served[name] = served[name] || n.State != cluster.StateDead && n.Via == "" && n.Has(config.RoleWorker)
		}
	}
	return served
}

// scrapesLimit is how many requests for metrics are answered at once.
const scrapesLimit = 10

func (a *App) metricsHandler() http.Handler {
	return promhttp.HandlerFor(a.metrics.Registry, promhttp.HandlerOpts{MaxRequestsInFlight: scrapesLimit})
}

// guard guards what is served at a listener, which was asked to listen at that address.
func (a *App) guard(l net.Listener, asked string) edge.Guard {
	return edge.NewGuard(l.Addr(), asked, a.o.Config.AllowedHosts)
}

// buildControl builds the use cases.
func (a *App) buildControl() *control.Control {
	return control.New(control.Options{
		Store: a.store, Queues: a.queues, Nodes: a.registry, Cordons: a.registry, Now: a.registry.Now, Types: a.types,
		Workers: a.remote, Log: a.o.Log,
		MaxSubmissions: a.o.Config.MaxSubmissions, Events: a.events, Embedded: a.o.Embedded, Tracer: a.tracer,
		Forgetting: forgettingOf(a.o.Config), Keyed: a.metrics.CountKeyed,
	})
}

// forgettingOf says how long the names of tasks stay taken that somebody has deleted.
func forgettingOf(c config.Config) control.Forgetting {
	return control.Forgetting{Remember: c.Remember, Names: c.RememberMaxIDs}
}

// buildRemote builds the sessions of workers by HTTP, which share a connection.
func (a *App) buildRemote() error {
	db, err := a.openLater(redisx.Options{FailFast: true})
	if err != nil {
		return err
	}
	a.remote = remote.New(remote.Options{
		DB: db, Prefix: a.o.Config.Prefix, Store: a.store, Members: a.registry, Types: a.types, Metrics: a.metrics,
		Log:        a.o.Log,
		PerAddress: a.o.Config.MaxWorkersPerAddress,
	})
	return nil
}

func (a *App) buildMonitor() (http.Handler, error) {
	db, err := a.openLater(redisx.Options{})
	if err != nil {
		return nil, err
	}
	base := a.o.Config.BasePath
	return edge.Below(base, a.o.Monitor(db, base+"/monitor", a.o.Config.MonitorWritable)), nil
}

// checkRedis is the readiness check of Redis: it fails if Redis takes no writes, or turns this node away in another
// way, as from scripts.
func (a *App) checkRedis(ctx context.Context) error {
	if err := a.store.Ready(ctx); err != nil {
		return err
	}
	return a.link.Outage()
}

// checkRunning is the readiness check of the roles: it fails while the node starts or stops.
func (a *App) checkRunning(context.Context) error {
	select {
	case <-a.draining:
		return errors.New("the node is shutting down")
	default:
	}
	select {
	case <-a.ready:
		return nil
	default:
		return errors.New("the node is starting")
	}
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
