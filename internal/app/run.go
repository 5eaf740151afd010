package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// part is a long-running part of a node. Its run blocks until its context ends.
type part struct {
	name  string
	run   func(context.Context) error
	ready <-chan struct{} // closed when the part is ready; nil: it is ready at once

	late func(context.Context) error // called each second until the part is ready; nil for no call
}

// Run starts the parts of the node, waits until ctx ends or a part fails, and stops the parts. It must be called once. It
// returns nil if ctx ended and every part stopped without an error, else the errors of the parts.
func (a *App) Run(ctx context.Context) error {
	defer func() {
		if err := a.close(); err != nil {
			a.o.Log.Warn("cannot close everything", "error", err)
		}
	}()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)

	var stops []func() error
	for _, p := range a.parts() {
		stops = append(stops, start(ctx, p, fail))
	}
	if ctx.Err() == nil {
		close(a.ready)
		a.logRunning()
		a.warnOfRoot(os.Geteuid())
	}
	<-ctx.Done()
	a.o.Log.Info("stopping")
	return a.stop(stops)
}

func (a *App) logRunning() {
	attributes := []any{"roles", a.o.Config.Roles, "version", a.o.Version}
	if a.serve != nil {
		attributes = append(attributes, "listen", a.Addr())
	}
	a.o.Log.Info("running", attributes...)
}

// warnOfRoot says what it means that a node runs shell tasks as root.
func (a *App) warnOfRoot(uid int) {
	if uid == 0 && slices.Contains(a.runs, "shell") {
		a.o.Log.Warn("shell tasks run as root, and can read and change everything on this machine, also the memory and settings " +
			"of dtsd: run dtsd as another user, or without --enable-shell")
	}
}

// parts returns the parts of the node in the order of their start. They stop in the opposite order.
func (a *App) parts() []part {
	var parts []part
	if a.debug != nil {
		parts = append(parts, part{name: "debug", run: a.serveDebug})
	}
	parts = append(parts, []part{
		{name: "watch of the data", run: a.watchData},
		{name: "record of losses", run: a.store.RetryRecordingLosses},
		{name: "reported ends", run: a.store.Tasks.ForgetEnds},
		{name: "registry", run: a.registry.Run, ready: a.checked, late: a.sayWhyNotJoined},
	}...)
	if a.tally != nil {
		parts = append(parts, part{name: "counts", run: func(ctx context.Context) error {
			return a.store.Minutes.Run(ctx, a.node, a.tally)
		}})
	}
	parts = append(parts, part{name: "events", run: a.events.Run})
	parts = append(parts, part{name: "succession", run: a.followSuccession}, part{name: "watch of the memory", run: a.watchMemory})
	if a.remote != nil {
		parts = append(parts, part{name: "remote workers", run: a.remote.Run})
	}
	if a.serve != nil {
		parts = append(parts, part{name: "api", run: a.runAPI})
	}
	if a.worker != nil {
		if !a.o.Embedded { // that has no other servers
			parts = append(parts, part{name: "watch of the servers", run: a.watchServers})
		}
		parts = append(parts, part{name: "worker", run: a.worker.Run, ready: a.worker.Ready()})
	}
	if a.scheduler != nil {
		parts = append(parts, part{name: "scheduler", run: a.scheduler.Run, ready: a.scheduler.Ready()})
	}
	return parts
}

// start runs a part and waits until it is ready. The part runs until stop is called, even if ctx ends before. If it
// returns earlier, start calls fail.
func start(ctx context.Context, p part, fail context.CancelCauseFunc) (stop func() error) {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	var g errgroup.Group
	g.Go(func() error {
		defer close(ended)
		err := p.run(own)
		if own.Err() == nil {
			err = errors.Join(fmt.Errorf("%s stopped unexpectedly", p.name), err)
			fail(err)
		}
		return err
	})
	stop = func() error { cancel(); return g.Wait() }
	if p.ready == nil {
		return stop
	}
	pause := time.NewTicker(connectPause)
	defer pause.Stop()
	for {
		select {
		case <-p.ready:
			return stop
		case <-ended: // stop returns its error
			return stop
		case <-ctx.Done():
			return stop
		case <-pause.C:
		}
		if p.late == nil {
			continue
		}
		if err := p.late(ctx); err != nil {
			fail(err)
		}
	}
}

// stop marks the node as draining and calls stops, the last one first.
func (a *App) stop(stops []func() error) error {
	close(a.draining)
	a.registry.SetDraining(true)
	var failures []error
	for i := len(stops) - 1; i >= 0; i-- {
		failures = append(failures, stops[i]())
	}
	return errors.Join(failures...)
}
