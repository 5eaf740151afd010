// Command dtsd is the DTS daemon: a scheduler, a worker and an API in one process. --roles selects which of them run.
package main

import (
	"fmt"
	"os"

	"github.com/dts-sched/dts/internal/app"
	"github.com/dts-sched/dts/internal/config"
)

func main() {
	app.TuneGC()
	if err := newRootCommand().ExecuteContext(untilStopped()); err != nil {
		fmt.Fprintln(os.Stderr, complaint(err))
		os.Exit(1)
	}
}

// complaint is the last word of a process that failed. Errors of the command line show wrong arguments as they are.
func complaint(err error) string { return "dtsd: " + config.MaskURLs(err.Error()) }
