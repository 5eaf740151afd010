package queue

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/cli/whyview"
)

type whyOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer

	Queue string
}

func newWhyCommand(f *command.Factory) *cobra.Command {
	opts := &whyOptions{Client: f.Client, Printer: f.Printer}
	return &cobra.Command{
		Use: "why QUEUE", Short: "Say what the tasks of a queue wait for, and what to do", Args: command.ExactArgs("QUEUE"),
		Annotations: command.Asks("whyQueue"),
		Long: `why says what the tasks of a queue wait for, what must change first at the beginning, and what to do about
each. It is computed from what Redis has and the newest heartbeats tell.

A pipe gets a line for each reason, none if nothing holds the queue up.
The columns are: ` + whyview.Columns + `.`,
		Example: `  dtsctl queue why reports
  dtsctl queue why reports -o json | jq -r .waiting_for.code`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Queue = args[0]
			return whyRun(cmd.Context(), opts)
		},
	}
}

func whyRun(ctx context.Context, opts *whyOptions) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	answer, err := rest.Read[wire.Why](c.WhyQueueWithResponse(ctx, opts.Queue))
	if err != nil {
		return err
	}
	return whyview.Show(opts.Printer, opts.Queue, answer)
}
