package queue

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/printer"
)

type limitOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer

	Queue string
	Limit int
}

func newLimitCommand(f *command.Factory) *cobra.Command {
	opts := &limitOptions{Client: f.Client, Printer: f.Printer}
	return &cobra.Command{
		Use: "limit QUEUE N", Short: "Limit how many tasks may wait in a queue", Args: command.ExactArgs("QUEUE", "N"),
		Annotations: command.Asks("limitQueue"),
		Long: `limit sets how many due tasks may wait in the queue for a worker. While as many wait, submissions of tasks that are due
at once are refused (queue_full), and ticks of schedules are held back. Tasks that are due later are accepted. The limit
is not exact: each node counts about once a second. N is a number, or none to lift the limit.`,
		Example: `  dtsctl queue limit reports 10000
  dtsctl queue limit reports none`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Queue = args[0]
			if args[1] != "none" {
				n, err := strconv.Atoi(args[1])
				if err != nil || n < 1 {
					return command.Usagef("N: %q must be a whole number from 1 on, or none", args[1])
				}
				opts.Limit = n
			}
			return limitRun(cmd.Context(), opts)
		},
	}
}

func limitRun(ctx context.Context, opts *limitOptions) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	if _, err := rest.Read[struct{}](c.LimitQueueWithResponse(ctx, opts.Queue, wire.QueueLimit{Limit: opts.Limit})); err != nil {
		return err
	}
	if opts.Limit == 0 {
		return printDone(opts.Printer, opts.Queue, "not limited")
	}
	return printDone(opts.Printer, opts.Queue, fmt.Sprintf("limited to %d", opts.Limit))
}
