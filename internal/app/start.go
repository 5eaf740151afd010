package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/dts-sched/dts/internal/api"
	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/edge"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
)

const (
	connectPause    = time.Second      // between two tries to connect to a Redis that does not answer
	connectReminder = 30 * time.Second // between two lines of the log about it
)

// await calls connect until it succeeds. Errors: that of connect, if waiting does not help (redisx.ErrUnusable) or ctx has ended.
func (a *App) await(ctx context.Context, connect func() error) error {
	var first, logged time.Time
	for {
		err := connect()
		switch {
		case err == nil && !first.IsZero():
			a.o.Log.Info("Redis answers", "after", clock.Since(first).Round(time.Millisecond))
			return nil
		case err == nil, errors.Is(err, redisx.ErrUnusable), ctx.Err() != nil:
			return err
		case first.IsZero():
			first = clock.Now()
			a.succession.Join(true)
		}
		if clock.Since(logged) >= connectReminder {
			a.o.Log.Warn("cannot reach Redis; trying again", "redis", redisx.Redact(string(a.o.Config.Redis)), "error", err)
			logged = clock.Now()
		}
		if a.waits != nil {
			if err := a.waits(err); err != nil {
				return err
			}
		}
		_ = clock.Sleep(ctx, connectPause)
	}
}

// waitingHelps reports whether what failed may succeed later: Redis does not answer, or did not answer this call, or gave an answer that it
// gives for a while only.
func waitingHelps(err error, up bool) bool {
	return !up || redisx.Unanswered(err) || redisx.Passes(err)
}

// listen binds the port of the node, so that New fails if it is taken, and has it answered while New waits for Redis.
func (a *App) listen(ctx context.Context) error {
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", a.o.Config.Listen)
	if err != nil {
		return fmt.Errorf("listen: %w (--listen chooses another address)", err)
	}
	a.cleanup(func() error { return ignoreClosed(l.Close()) })
	a.listener = l
	a.reception = &reception{
		listener: l.(*net.TCPListener),
		server: edge.Options{
			Refusal: task.Errorf(task.CodeUnavailable, "the node is starting: it waits for Redis (GET /readyz says for what)"),
			Guard:   a.guard(l, a.o.Config.Listen), Log: a.o.Log, MaxConnections: a.o.Config.MaxConnectionsPerAddress,
			Answered: a.metrics.Answered,
		},
		served: api.Options{Version: a.o.Version, Metrics: a.metricsHandler()},
	}
	a.waits = a.reception.say
	a.cleanup(a.reception.close)
	return nil
}

// sayWhyNotJoined has /readyz say why the node has not joined the list of nodes. Error: nothing can be served.
func (a *App) sayWhyNotJoined(ctx context.Context) error {
	if a.waits == nil { // the node is headless
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, connectPause)
	defer cancel()
	reason := a.checkRedis(ctx)
	if reason == nil {
		reason = errors.New("this node has not joined the list of nodes yet")
	}
	return a.waits(reason)
}

// runAPI serves the API, and nothing else from then on.
func (a *App) runAPI(ctx context.Context) error {
	if err := a.reception.close(); err != nil {
		return err
	}
	return a.serve(ctx, a.listener)
}

// reception answers at the port of a node that waits for Redis: health checks, and metrics that need no Redis. It runs from the first call of
// say to close.
type reception struct {
	listener *net.TCPListener
	server   edge.Options
	served   api.Options
	reason   atomic.Pointer[error] // why the node is not ready
	end      context.CancelFunc
	ended    chan error
}

// say has /readyz answer with that reason.
func (r *reception) say(reason error) error {
	r.reason.Store(&reason)
	if r.end != nil {
		return nil
	}
	r.served.Ready = []api.Check{{Name: "redis", Do: func(context.Context) error { return *r.reason.Load() }}}
	server, err := newServer(r.server, r.served)
	if err != nil {
		return err
	}
	var ctx context.Context
	ctx, r.end = context.WithCancel(context.Background())
	r.ended = make(chan error, 1)
	go func() { r.ended <- server.Run(ctx, lent{r.listener}) }()
	return nil
}

// close leaves the listener to whoever serves next.
func (r *reception) close() error {
	if r.end == nil {
		return nil
	}
	r.end()
	r.end = func() {}
	err := <-r.ended
	r.ended <- nil
	return errors.Join(err, ignoreClosed(r.listener.SetDeadline(time.Time{})))
}

// lent is a listener that another server goes on with: Close only ends Accept.
type lent struct{ *net.TCPListener }

func (l lent) Close() error { return l.SetDeadline(time.Unix(1, 0)) }
