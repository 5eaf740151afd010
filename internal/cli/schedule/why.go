package schedule

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
		Use: "why ID", Short: "Say what the next tick of a schedule waits for, and what to do", Args: command.ExactArgs("ID"),
		Annotations: command.Asks("whySchedule"),
		Long: `why says what the next tick of a schedule waits for, what must change first at the beginning, and what to
do about each. It is computed from what Redis has and the newest heartbeats tell. Why the task of a tick
waits says "dtsctl task why".

A pipe gets a line for each reason, none if the schedule waits for nothing.
The columns are: ` + whyview.Columns + `.`,
		Example: `  dtsctl schedule why nightly
  dtsctl schedule why nightly -o json | jq -r .waiting_for.code`,
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
	params := &client.WhyScheduleParams{Namespace: c.Namespace}
	answer, err := rest.Read[wire.Why](c.WhyScheduleWithResponse(ctx, opts.ID, params))
	if err != nil {
		return err
	}
	return whyview.Show(opts.Printer, opts.ID, answer)
}
