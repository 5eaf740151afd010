package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dts-sched/dts/internal/api/client"
)

type backfillOptions struct {
	session  *session
	from, to string
	pace     time.Duration
}

func newBackfillCommand(s *session) *cobra.Command {
	o := backfillOptions{session: s}
	cmd := &cobra.Command{
		Use: "backfill ID --from TIME [--to TIME]", Short: "Run ticks of the past that did not run", Args: named("ID"),
		Long: `backfill creates the tasks of the ticks of a range of time, both ends included, that have none: because they were missed
or skipped, or because they were before the schedule's creation. A tick that ran never runs again, so repeating the
command is harmless; excluded ticks stay excluded. The tasks become due one after the other. The range has at most 1,000
ticks; it begins no earlier than what is remembered (90 days at most), and ends no later than what has been decided about.

It lists the ticks whose tasks were created, the oldest first, in the columns of "dtsctl schedule ledger".`,
		Example: `  dtsctl schedule backfill nightly --from 2026-01-01 --to 2026-01-08
  dtsctl schedule backfill hourly --from 12h --pace 30s`,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), cmd.Flags(), args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.from, "from", "", "the start of the range: a time, or how long ago it was, as 12h")
	flags.StringVar(&o.to, "to", "", "the end of the range (default as far as it has been decided about ticks)")
	flags.DurationVar(&o.pace, "pace", time.Second, "the time between two tasks")
	return cmd
}

func (o *backfillOptions) run(ctx context.Context, flags *pflag.FlagSet, id string) error {
	s := o.session
	from, to, err := s.pastRange(flags, o.from, o.to)
	if err != nil {
		return err
	}
	switch {
	case from == nil:
		return usagef("--from is missing")
	case o.pace < 0:
		return usagef("--pace: %s is negative", o.pace)
	case to == nil:
		is, err := s.schedule(ctx, id)
		if err != nil {
			return err
		}
		to = &is.value.Cursor
	}
	a, err := s.backfill(ctx, id, client.Backfill{From: *from, To: *to, Pace: given(flags, "pace", o.pace.String())})
	if err != nil {
		return err
	}
	return s.show(a.raw, func() error { return s.printBackfilled(a.value) })
}

func (s *session) backfill(ctx context.Context, id string, want client.Backfill) (answer[client.BackfillAnswer], error) {
	c, err := s.calls()
	if err != nil {
		return answer[client.BackfillAnswer]{}, err
	}
	body, err := bodyOf(want)
	if err != nil {
		return answer[client.BackfillAnswer]{}, err
	}
	params := client.BackfillScheduleParams{Namespace: s.namespaceParam()}
	return ask[client.BackfillAnswer](c.BackfillScheduleWithBodyWithResponse(ctx, id, &params, jsonType, body))
}

func (s *session) printBackfilled(b client.BackfillAnswer) error {
	if !s.OutIsTerminal {
		return printTable(s, ledgerColumns, b.Entries)
	}
	if len(b.Entries) > 0 {
		if err := printTable(s, ledgerColumns, b.Entries); err != nil {
			return err
		}
	}
	return s.printf("%s will run; %s had run before.\n", counted(len(b.Entries), "tick"), counted(b.Left, "tick"))
}
