package queue

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/flags"
	"github.com/dts-sched/dts/internal/cli/printer"
)

type pauseOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer

	Queue string
	Note  *string
}

func newPauseCommand(f *command.Factory) *cobra.Command {
	opts := &pauseOptions{Client: f.Client, Printer: f.Printer}
	cmd := &cobra.Command{
		Use: "pause QUEUE", Short: "Keep workers from taking tasks from a queue", Args: command.ExactArgs("QUEUE"),
		Annotations: command.Asks("pauseQueue"),
		Long: `pause keeps workers from taking tasks from the queue. What runs goes on, and tasks that become due still join the queue.
What a worker has taken may still begin: as many as it has slots, and up to 64 more, within about 50 ms.
A task with a selector, a route or several slots that was handed over to a node may still begin there, however late.
Pausing a paused queue changes nothing.`,
		Example: `  dtsctl queue pause reports --note 'until the new disk is there'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Queue = args[0]
			return pauseRun(cmd.Context(), opts)
		},
	}
	flags.String(cmd.Flags(), &opts.Note, "note", "why it is paused")
	return cmd
}

func pauseRun(ctx context.Context, opts *pauseOptions) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	if _, err := rest.Read[struct{}](c.PauseQueueWithResponse(ctx, opts.Queue, wire.QueuePause{Note: opts.Note})); err != nil {
		return err
	}
	return printDone(opts.Printer, opts.Queue, "paused")
}
