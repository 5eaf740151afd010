// From-asynq puts the periodic tasks of a program that uses asynq as schedules of DTS, whose tasks the same asynq workers handle.
//
// Replace provider.go by the PeriodicTaskConfigProvider of your program. Running it again changes nothing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/hibiken/asynq"
)

func main() {
	if err := run(context.Background(), os.Args[1:], &provider{}, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "from-asynq:", err)
		os.Exit(1)
	}
}

// run imports what the provider has. Error: some of it was refused, or the server cannot be reached; the rest is imported.
func run(ctx context.Context, args []string, from asynq.PeriodicTaskConfigProvider, out io.Writer) error {
	flags := flag.NewFlagSet("from-asynq", flag.ContinueOnError)
	server := flags.String("server", "http://127.0.0.1:8080", "address of DTS")
	dryRun := flags.Bool("dry-run", false, "change nothing, show what would change")
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
	to, err := dial(*server, *dryRun)
	if err != nil {
		return err
	}
	refused := 0
	for i, entry := range convertAll(configs, defaults{queue: *queue, timezone: *zone, timeout: *timeout}) {
		change, err := "refused", entry.err
		if err == nil {
			change, err = to.put(ctx, entry.id, entry.definition)
		}
		if err != nil {
			refused++
			_, _ = fmt.Fprintf(out, "config %d\trefused\t%v\n", i+1, err)
			continue
		}
		_, _ = fmt.Fprintf(out, "config %d\t%s\t%s\n", i+1, change, entry.id)
	}
	if refused > 0 {
		return fmt.Errorf("%d of %d: %w", refused, len(configs), errRefused)
	}
	return nil
}

var errRefused = errors.New("configs were refused")
