package queue

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/printer"
)

type capacityOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer

	Queue    string
	Capacity int
	OldName  bool
}

func newCapacityCommand(f *command.Factory) *cobra.Command {
	opts := &capacityOptions{Client: f.Client, Printer: f.Printer}
	return &cobra.Command{
		Use: "capacity QUEUE N", Short: "Set how many tasks may wait in a queue", Args: command.ExactArgs("QUEUE", "N"),
		Annotations: command.Asks("setQueueCapacity"),
		Long: `capacity sets how many due tasks may wait in the queue for a worker. While as many wait, submissions of
tasks that are due at once are refused (queue_full), and ticks of schedules are held back. Tasks that are due later are
accepted. The capacity is not exact: each node counts about once a second. N is a number; 0 or none lets any number
wait.`,
		Example: `  dtsctl queue capacity reports 10000
  dtsctl queue capacity reports none`,
		RunE: func(cmd *cobra.Command, args []string) error { return capacityRun(cmd.Context(), opts, args) },
	}
}

// newLimitCommand returns the old name of the command. It asks for the old operation, which nodes of earlier releases
// know, too.
func newLimitCommand(f *command.Factory) *cobra.Command {
	opts := &capacityOptions{Client: f.Client, Printer: f.Printer, OldName: true}
	return &cobra.Command{
		Use: "limit QUEUE N", Short: "The old name of capacity", Args: command.ExactArgs("QUEUE", "N"), Hidden: true,
		Annotations: command.Asks("limitQueue"),
		Long:        `limit is the old name of dtsctl queue capacity, and does the same.`,
		Example:     `  dtsctl queue capacity reports 10000`,
		RunE:        func(cmd *cobra.Command, args []string) error { return capacityRun(cmd.Context(), opts, args) },
	}
}

func capacityRun(ctx context.Context, opts *capacityOptions, args []string) error {
	opts.Queue = args[0]
	if args[1] != "none" {
		n, err := strconv.Atoi(args[1])
		if err != nil || n < 0 {
			return command.Usagef("N: %q must be a whole number, or none; 0 or none for any number of tasks", args[1])
		}
		opts.Capacity = n
	}
	c, err := opts.Client()
	if err != nil {
		return err
	}
	if err := setCapacity(ctx, c, opts); err != nil {
		return err
	}
	return printDone(opts.Printer, opts.Queue, "capacity "+args[1])
}

func setCapacity(ctx context.Context, c *rest.Client, opts *capacityOptions) error {
	if opts.OldName {
		opts.Printer.Warn([]string{"queue limit is the old name of: dtsctl queue capacity"})
		in := wire.QueueCapacity{Limit: &opts.Capacity}
		_, err := rest.Read[struct{}](c.LimitQueueWithResponse(ctx, opts.Queue, in))
		return err
	}
	in := wire.QueueCapacity{Capacity: &opts.Capacity}
	_, err := rest.Read[struct{}](c.SetQueueCapacityWithResponse(ctx, opts.Queue, in))
	return err
}
