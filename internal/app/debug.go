package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// debugHeaderTimeout is for the header of a request. The answer has no limit: a profile takes as long as its reader wants.
const debugHeaderTimeout = 10 * time.Second

// buildDebug binds the port of the profiles, if the settings name one. Config.Validate has seen to it that only this
// machine can reach it.
func (a *App) buildDebug(ctx context.Context) error {
	if a.o.Config.DebugListen == "" || a.o.Profiles == nil {
		return nil
	}
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", a.o.Config.DebugListen)
	if err != nil {
		return fmt.Errorf("debug-listen: %w", err)
	}
	a.debug = l
	a.cleanup(func() error { return ignoreClosed(l.Close()) })
	return nil
}

// serveDebug serves the profiles until ctx ends. It cuts off one that is being taken.
func (a *App) serveDebug(ctx context.Context) error {
	srv := &http.Server{
		Handler:           a.guard(a.debug, a.o.Config.DebugListen).Wrap(a.o.Profiles),
		ReadHeaderTimeout: debugHeaderTimeout, ErrorLog: slog.NewLogLogger(a.o.Log.Handler(), slog.LevelDebug),
	}
	a.o.Log.Info("serving profiles", "debug_listen", a.debug.Addr().String(), "path", "/debug/pprof/")
	served := make(chan error, 1)
	go func() { served <- srv.Serve(a.debug) }()
	select {
	case err := <-served:
		return fmt.Errorf("serving profiles on %s: %w", a.debug.Addr(), errors.Join(err, srv.Close()))
	case <-ctx.Done():
	}
	err := srv.Close()
	if failed := <-served; !errors.Is(failed, http.ErrServerClosed) {
		err = errors.Join(err, failed)
	}
	return err
}
