package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// untilStopped returns a context that ends when the process is told to stop: by SIGINT, SIGTERM, or SIGHUP, which it
// gets when its terminal goes away. A second SIGINT or SIGTERM ends the process at once. A second SIGHUP does not: the
// shell and the system both send one. A process that was started without SIGHUP, as by nohup, goes on without it.
func untilStopped() context.Context {
	stops := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		stops = append(stops, syscall.SIGHUP)
		discard(syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), stops...)
	context.AfterFunc(ctx, stop) // restores what SIGINT and SIGTERM do by default
	return ctx
}

// outliveReaders lets the process go on when whoever reads its output or its log goes away: what it writes is lost
// then.
func outliveReaders() { discard(syscall.SIGPIPE) }

// discard makes signals do nothing. They are caught and not ignored, as the commands of shell tasks would inherit
// that, and then "yes | head -1" would complain.
func discard(signals ...os.Signal) { signal.Notify(make(chan os.Signal, 1), signals...) }
