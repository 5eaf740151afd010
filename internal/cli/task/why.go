package task

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/cli/whyview"
)

type whyOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer

	ID string
}

func newWhyCommand(f *command.Factory) *cobra.Command {
	opts := &whyOptions{Client: f.Client, Printer: f.Printer}
	return &cobra.Command{
		Use: "why ID", Short: "Say what a task waits for, and what to do", Args: command.ExactArgs("ID"),
		Annotations: command.Asks("whyTask"),
		Long: `why says what a task waits for, what must change first at the beginning, and what to do about each. It is
computed from what Redis has and the newest heartbeats tell.

A pipe gets a line for each reason, none if the task waits for nothing.
The columns are: ` + whyview.Columns + `.`,
		Example: `  dtsctl task why nightly
  dtsctl task why nightly -o json | jq -r .waiting_for.code`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.ID = args[0]
			return whyRun(cmd.Context(), opts)
		},
	}
}

func whyRun(ctx context.Context, opts *whyOptions) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	params := &client.WhyTaskParams{Namespace: c.Namespace}
	answer, err := rest.Read[wire.Why](c.WhyTaskWithResponse(ctx, opts.ID, params))
	if err != nil {
		return err
	}
	return whyview.Show(opts.Printer, opts.ID, answer)
}
