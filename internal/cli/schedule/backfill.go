package schedule

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/flags"
	"github.com/dts-sched/dts/internal/cli/printer"
)

type backfillOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer
	Times   flags.Times

	ID       string
	From, To *string
	Pace     *time.Duration
	Key      string
	DryRun   bool
}

func newBackfillCommand(f *command.Factory) *cobra.Command {
	opts := &backfillOptions{Client: f.Client, Printer: f.Printer, Times: flags.TimesOf(f)}
	cmd := &cobra.Command{
		Use: "backfill ID --from TIME [--to TIME]", Short: "Run ticks of the past that did not run", Args: command.ExactArgs("ID"),
		Annotations: command.Asks("backfillSchedule", "getSchedule"),
		Long: `backfill creates the missing tasks of the ticks in a range of time, both ends included. They are missing because the
ticks were missed or skipped, or because they were before the schedule's creation. A tick that ran never runs again, so
the command can be repeated safely; excluded ticks stay excluded. The tasks become due one after the other. The range has
at most 1,000 ticks. It begins no earlier than the server's records (90 days at most), and ends no later than the newest
tick that has been decided.

It lists the ticks whose tasks were created, the oldest first, in the columns of "dtsctl schedule ledger". Repeated with the
same --idempotency-key within an hour, it lists those of the first call. With --dry-run, it lists those whose tasks would be
created, and creates none. It says on stderr which ticks it leaves alone.`,
		Example: `  dtsctl schedule backfill nightly --from 2026-01-01 --to 2026-01-08
  dtsctl schedule backfill hourly --from 12h --dry-run
  dtsctl schedule backfill hourly --from 12h --pace 30s
  dtsctl schedule backfill nightly --from 2026-01-01 --to 2026-01-08 --idempotency-key repair-7`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.ID = args[0]
			return backfillRun(cmd.Context(), opts)
		},
	}
	set := cmd.Flags()
	flags.String(set, &opts.From, "from", "the start of the range: a time, or how long ago it was, as 12h")
	flags.String(set, &opts.To, "to", "the end of the range (default the newest tick that has been decided)")
	bindKey(cmd, &opts.Key)
	flags.Duration(set, &opts.Pace, "pace", "the time between two tasks (default 1s)")
	set.BoolVar(&opts.DryRun, "dry-run", false, "show what would run, and do nothing")
	return cmd
}

func backfillRun(ctx context.Context, opts *backfillOptions) error {
	from, to, err := opts.Times.PastRange(opts.From, opts.To)
	switch {
	case err != nil:
		return err
	case from == nil:
		return command.Usagef("--from is missing")
	case opts.Pace != nil && *opts.Pace < 0:
		return command.Usagef("--pace: %s is negative", *opts.Pace)
	}
	c, err := opts.Client()
	if err != nil {
		return err
	}
	if to == nil {
		current, err := getSchedule(ctx, c, opts.ID)
		if err != nil {
			return err
		}
		to = &current.Value.Cursor.Time
		if to.Before(*from) {
			return command.Usagef("--from: must not be after %s: later ticks are not decided yet", to.Format(time.RFC3339Nano))
		}
	}
	body, err := rest.Body(wire.Backfill{From: wire.At(*from), To: wire.At(*to), Pace: flags.DurationText(opts.Pace)})
	if err != nil {
		return err
	}
	params := &client.BackfillScheduleParams{
		Namespace: c.Namespace, IdempotencyKey: wire.Given(opts.Key), DryRun: flags.NilIfZero(opts.DryRun),
	}
	answer, err := rest.Read[wire.BackfillAnswer](c.BackfillScheduleWithBodyWithResponse(ctx, opts.ID, params, rest.JSONType, body))
	if err != nil {
		return err
	}
	return opts.Printer.Show(answer.Raw, func() error {
		if opts.DryRun {
			return previewBackfill(opts.Printer, answer.Value)
		}
		return printBackfill(opts.Printer, answer.Value)
	})
}

// leftNamed is how many ticks that a backfill leaves alone are named.
const leftNamed = 5

// previewBackfill prints what a backfill would do.
func previewBackfill(p *printer.Printer, b wire.BackfillAnswer) error {
	if len(b.Entries) > 0 {
		if err := printer.PrintTable(p, ledgerColumns, b.Entries); err != nil {
			return err
		}
	}
	text := "This would run " + printer.Counted(len(b.Entries), "tick")
	if b.LastDueAt != nil {
		text += ", the last one " + p.Relative(b.LastDueAt.Time)
	}
	p.Notef("%s.", text)
	if b.Left == 0 {
		return nil
	}
	var left []string
	for _, l := range b.LeftAlone[:min(len(b.LeftAlone), leftNamed)] {
		left = append(left, cmp.Or(printer.Deref(l.Task), l.Tick.Format(time.RFC3339)+" (waits for its turn)"))
	}
	if more := b.Left - len(left); more > 0 {
		left = append(left, fmt.Sprintf("and %d more", more))
	}
	p.Notef("It leaves alone %s that ran before or will run: %s.", printer.Counted(b.Left, "tick"), strings.Join(left, ", "))
	return nil
}

func printBackfill(p *printer.Printer, b wire.BackfillAnswer) error {
	if !p.OutIsTerminal {
		return printer.PrintTable(p, ledgerColumns, b.Entries)
	}
	if len(b.Entries) > 0 {
		if err := printer.PrintTable(p, ledgerColumns, b.Entries); err != nil {
			return err
		}
	}
	return p.Printf("%s will run; %s had run before.\n", printer.Counted(len(b.Entries), "tick"), printer.Counted(b.Left, "tick"))
}
