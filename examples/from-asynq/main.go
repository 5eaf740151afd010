// From-asynq puts the periodic tasks of a program that uses asynq as schedules of DTS, whose tasks the same asynq workers handle.
//
// Replace provider.go by the PeriodicTaskConfigProvider of your program. Running it again changes nothing.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/hibiken/asynq"

	"github.com/dts-sched/dts"
)

func main() {
	if err := run(context.Background(), os.Args[1:], &provider{}, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "from-asynq:", err)
		os.Exit(1)
	}
}

// run imports what the provider has. Error: some of it was refused, or the server cannot be reached; the rest is imported.
func run(ctx context.Context, args []string, from asynq.PeriodicTaskConfigProvider, out, notes io.Writer) error {
	flags := flag.NewFlagSet("from-asynq", flag.ContinueOnError)
	address := flags.String("server", "http://127.0.0.1:8080", "address of DTS")
	dryRun := flags.Bool("dry-run", false, "change nothing, show what would change")
	prune := flags.Bool("prune", false, "delete the schedules of earlier imports that are of no config any more")
	prefix := flags.String("prefix", "", "what the ids begin with; one for each program that imports into the same DTS")
	queue := flags.String("queue", "default", "queue of DTS from which its workers with --enable-asynq take; not that of asynq")
	zone := flags.String("timezone", "UTC", "the Location of your asynq.SchedulerOpts")
	timeout := flags.Duration("timeout", 24*time.Hour, "how long a task may take, its wait in asynq's queue and asynq's retries included")
	if err := flags.Parse(args); err != nil {
		return err
	}
	configs, err := from.GetConfigs()
	if err != nil {
		return fmt.Errorf("reading the configs: %w", err)
	}
	client, err := dts.Dial(*address)
	if err != nil {
		return err
	}
	given := defaults{queue: *queue, timezone: *zone, timeout: *timeout, prefix: *prefix}
	i := importing{
		to: &server{client, *dryRun}, configs: convertAll(configs, given), labels: given.labels(), prune: *prune, out: out, notes: notes,
	}
	return i.run(ctx)
}
