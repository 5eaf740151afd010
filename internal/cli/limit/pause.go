package limit

import (
	"context"
	"time"

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
	Times   flags.Times

	Limit string
	For   *time.Duration
	Until *string
	Note  *string
}

func newPauseCommand(f *command.Factory) *cobra.Command {
	opts := &pauseOptions{Client: f.Client, Printer: f.Printer, Times: flags.TimesOf(f)}
	cmd := &cobra.Command{
		Use: "pause NAME", Short: "Hand over no task of a limit for a while", Args: command.ExactArgs("NAME"),
		Annotations: command.Asks("pauseLimit"),
		Long: `pause keeps tasks of a limit from being handed over, until resume, or for the given time. What was handed
over goes on. If there is no limit of that name, pause creates one that ends with the pause: until then, it allows what
the limit allows that applies to it, such as key:*. A second pause replaces the first.

` + names,
		Example: `  dtsctl limit pause key:tenant-7 --for 1h --note 'too many errors'
  dtsctl limit pause key:tenant-7 --until 2026-01-02T06:00:00Z
  dtsctl limit pause all`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Limit = args[0]
			return pauseRun(cmd.Context(), opts)
		},
	}
	flags.Duration(cmd.Flags(), &opts.For, "for", "how long the pause lasts, 1s to a year (default: until resume)")
	flags.String(cmd.Flags(), &opts.Until, "until",
		"when the pause ends, in RFC 3339 or as local \"2006-01-02 15:04[:05]\"; in place of --for")
	flags.String(cmd.Flags(), &opts.Note, "note", "why it is paused")
	return cmd
}

func pauseRun(ctx context.Context, opts *pauseOptions) error {
	until, err := opts.Times.Time("--until", opts.Until)
	switch {
	case err != nil:
		return err
	case until != nil && opts.For != nil:
		return command.Usagef("--for and --until: give one of them, not both")
	}
	c, err := opts.Client()
	if err != nil {
		return err
	}
	in := wire.LimitPause{For: flags.DurationText(opts.For), Until: until, Note: opts.Note}
	if _, err := rest.Read[struct{}](c.PauseLimitWithResponse(ctx, opts.Limit, in)); err != nil {
		return err
	}
	return printDone(opts.Printer, opts.Limit, "paused")
}
