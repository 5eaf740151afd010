package limit

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/flags"
	"github.com/dts-sched/dts/internal/cli/printer"
)

type setOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer

	Limit  string
	DryRun bool
	Slots  *int
	Rate   *int
	Per    *string
	Burst  *int
}

func newSetCommand(f *command.Factory) *cobra.Command {
	opts := &setOptions{Client: f.Client, Printer: f.Printer}
	cmd := &cobra.Command{
		Use: "set NAME", Short: "Set what a limit allows", Args: command.ExactArgs("NAME"),
		Annotations: command.Asks("setLimit"),
		Long: `set creates a limit, or replaces all that it allows: a rate that is not given again is removed, and a
warning says so. A pause stays.
Leaders follow at once, and in 10 s at the latest. What was handed over goes on. A new limit counts tasks that are
handed over from then on.

` + names,
		Example: `  dtsctl limit set 'key:*' --slots 5
  dtsctl limit set type:http --slots 50 --rate 600 --per 1m --burst 20`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Limit = args[0]
			return setRun(cmd.Context(), opts)
		},
	}
	flags.Int(cmd.Flags(), &opts.Slots, "slots", "how many tasks may be queued or running at once, 1 to 1000000")
	flags.Int(cmd.Flags(), &opts.Rate, "rate", "how many tasks may be handed over in the time --per, 1 to 1000000")
	flags.String(cmd.Flags(), &opts.Per, "per", "a second, a minute or an hour: 1s, 1m or 1h; with --rate")
	flags.Int(cmd.Flags(), &opts.Burst, "burst",
		"how many tasks may be handed over at once after a rest, 1 to 1000000 (default: as --rate)")
	cmd.Flags().BoolVar(&opts.DryRun, "dry-run", false, "say what would change, and change nothing")
	command.Complete(cmd, "per", string(wire.PerSecond), string(wire.PerMinute), string(wire.PerHour))
	return cmd
}

func setRun(ctx context.Context, opts *setOptions) error {
	if err := opts.check(); err != nil {
		return err
	}
	c, err := opts.Client()
	if err != nil {
		return err
	}
	in := wire.LimitRule{Slots: opts.Slots, Rate: opts.Rate, Burst: opts.Burst}
	if opts.Per != nil {
		in.Per = new(wire.LimitPer(*opts.Per))
	}
	reply, err := c.SetLimitWithResponse(ctx, opts.Limit, &client.SetLimitParams{DryRun: &opts.DryRun}, in)
	if _, err := rest.Read[struct{}](reply, err); err != nil {
		return err
	}
	removed, was := reply.HTTPResponse.Header.Get("Dts-Removed"), "was"
	if opts.DryRun {
		was = "would be"
	}
	if removed != "" {
		const text = "%s: %s removed, as set replaces all that a limit allows"
		opts.Printer.Warn([]string{fmt.Sprintf(text, removed, was)})
	}
	if opts.DryRun {
		return printDone(opts.Printer, opts.Limit, "would be "+reply.HTTPResponse.Header.Get("Dts-Change"))
	}
	return printDone(opts.Printer, opts.Limit, "set")
}

// check refuses flags that do not fit together.
func (o *setOptions) check() error {
	switch {
	case o.Slots == nil && o.Rate == nil:
		return command.Usagef("give --slots, or --rate with --per, or both")
	case o.Rate != nil && o.Per == nil:
		return command.Usagef("--rate %d: give --per, too: 1s, 1m or 1h", *o.Rate)
	case o.Rate == nil && o.Per != nil:
		return command.Usagef("--per %s: give --rate, too", *o.Per)
	case o.Rate == nil && o.Burst != nil:
		return command.Usagef("--burst %d: give --rate, too", *o.Burst)
	}
	return nil
}
