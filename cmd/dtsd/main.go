// Command dtsd is the DTS daemon: a scheduler, a worker and an API in one process. --roles selects which of them run.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/dts-sched/dts/internal/app"
	"github.com/dts-sched/dts/internal/config"
)

func main() {
	app.TuneGC()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// After the first signal, stop restores the default: a second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	if err := newRootCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, complaint(err))
		os.Exit(1)
	}
}

// complaint is the last word of a process that failed. Errors of the command line show wrong arguments as they are.
func complaint(err error) string { return "dtsd: " + config.MaskURLs(err.Error()) }
