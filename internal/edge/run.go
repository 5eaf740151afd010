package edge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/dts-sched/dts/internal/control"
)

const (
	headerTimeout = 10 * time.Second // for the head of a request to arrive
	idleTimeout   = 2 * time.Minute  // between two requests of a connection

	// headLimit is how many bytes the head of a request may have: its address and headers. net/http reads some more, so
	// that the refusal is a Problem, or a page; of what is even larger, it says so in a line of text.
	headLimit     = 64 << 10
	headReadLimit = 96 << 10
)

// connKey is where the context of a request has its connection.
type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// errCutOff is why the context of a request ends that outlasts the grace.
var errCutOff = errors.New("the server is shutting down")

// Run serves on l until ctx ends. Then streams end at once, requests in progress may finish within the
// grace, and nil is returned when none is left. A server runs once. It fails if l breaks.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	requests, abort := context.WithCancelCause(context.WithoutCancel(ctx))
	defer abort(nil)
	defer s.stopStreams()
	srv := s.httpServer(requests)
	l = limitConnections(l, s.options.MaxConnections, openFiles(), s.options.Log)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()

	select {
	case err := <-served:
		return fmt.Errorf("serving on %s: %w", l.Addr(), errors.Join(err, srv.Close()))
	case <-ctx.Done():
	}
	s.stopStreams()
	err := s.drain(srv, abort)
	if served := <-served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// httpServer has time limits for all a client can be slow at. Streams put off the one on writing with every
// write; the one on reading is lifted by net/http once a request is there, and put off by a large body that arrives.
func (s *Server) httpServer(requests context.Context) *http.Server {
	return &http.Server{
		Handler:           s.echo,
		BaseContext:       func(net.Listener) context.Context { return requests },
		ConnContext:       withConn,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       s.options.ReadTimeout,
		WriteTimeout:      s.options.ReadTimeout + s.writeLimit(),
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    headReadLimit,
		ErrorLog:          slog.NewLogLogger(s.options.Log.Handler(), slog.LevelDebug),
	}
}

// writeLimit is how long a request that has arrived may take, with its answer. Large answers have limits of their own.
func (s *Server) writeLimit() time.Duration {
	return 2*s.options.RequestTimeout + control.TakeWaitLimit
}

// drain lets requests in progress finish; those that take longer than the grace are cut off.
func (s *Server) drain(srv *http.Server, abort context.CancelCauseFunc) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.options.ShutdownGrace)
	defer cancel()
	err := srv.Shutdown(ctx)
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	s.options.Log.Warn("requests in progress were cut off", "grace", s.options.ShutdownGrace)
	abort(errCutOff)
	return srv.Close()
}
