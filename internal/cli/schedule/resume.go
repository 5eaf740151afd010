package schedule

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/printer"
)

type resumeOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer
	Many    many

	IDs []string
}

func newResumeCommand(f *command.Factory) *cobra.Command {
	opts := &resumeOptions{Client: f.Client, Printer: f.Printer, Many: many{in: f.In}}
	cmd := &cobra.Command{
		Use: "resume ID... | --label NAME=VALUE", Short: "Resume paused schedules",
		Annotations: command.Asks("listSchedules", "resumeSchedule", "getSchedule"),
		Long: `resume ends the pause of schedules. The misfire policy decides which ticks of the pause still run: none of them (skip),
the newest one for all of them (once), or those within the window, one per second (all). A terminal is told which. The
ledger has a record of each. Resuming a schedule that is not paused changes nothing.

All of the schedules are tried; the exit code is 1 if any was refused. A pipe gets a line for each: its id and state.

` + manyHelp,
		Example: `  dtsctl schedule resume nightly
  dtsctl schedule resume --label team=billing --yes`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := opts.Many.checkArgs(cmd, args); err != nil {
				return err
			}
			opts.IDs = args
			return resumeRun(cmd.Context(), opts)
		},
	}
	opts.Many.bind(cmd)
	return cmd
}

func resumeRun(ctx context.Context, opts *resumeOptions) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	ids, err := opts.Many.choose(ctx, c, opts.Printer, "resume", opts.IDs)
	if err != nil {
		return err
	}
	return command.ForEach(opts.Printer, ids, func(id string) error { return resume(ctx, c, opts.Printer, id) })
}

func resume(ctx context.Context, c *rest.Client, p *printer.Printer, id string) error {
	before, err := getSchedule(ctx, c, id)
	if err != nil {
		return err
	}
	params := &client.ResumeScheduleParams{Namespace: c.Namespace}
	after, err := rest.Read[wire.Schedule](c.ResumeScheduleWithResponse(ctx, id, params))
	if err != nil {
		return err
	}
	return showState(p, after, func() string {
		text := ", as it was"
		if pausedAt := before.Value.PausedAt; pausedAt != nil {
			length := cmp.Or(printer.Span(p.Now().Sub(pausedAt.Time).Abs()), "a moment")
			text = fmt.Sprintf(" again, after a pause of %s. %s", length, printer.Deref(before.Value.AfterPause))
		}
		if nextAt := after.Value.NextAt; nextAt != nil {
			text += "\n  next " + p.Text(printer.Timestamp(*nextAt)) + ", " + p.Relative(nextAt.Time)
		}
		return text
	})
}
