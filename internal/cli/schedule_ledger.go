package cli

import (
	"context"
	"encoding/json"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dts-sched/dts/internal/api/client"
)

type ledgerOptions struct {
	window
	session      *session
	since, until string
	gaps         bool
}

func newLedgerCommand(s *session) *cobra.Command {
	o := ledgerOptions{session: s}
	cmd := &cobra.Command{
		Use: "ledger ID", Short: "Show what became of each tick of a schedule", Args: named("ID"),
		Long: `ledger lists the records of the ticks of a schedule that have been decided about, the newest first. The outcomes:

  fired            its task was created
  skipped_overlap  a task of the schedule had not ended
  missed           it could not be fired in time, and the misfire policy said no
  excluded         an exclusion covers it
  queued           it waits for the end of the task before it
  replaced         a later tick took its place
  triggered        no tick: somebody ran the schedule by hand
  backfilled       its task was created afterwards, because somebody asked for it

The columns are: tick, outcome, late, task, reason, decided, revision. Late is from the tick to the decision.`,
		Example: `  dtsctl schedule ledger nightly
  dtsctl schedule ledger health --since 2h --gaps
  dtsctl schedule ledger health --since 2026-01-02 --until 2026-01-03 --all -o json`,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), cmd.Flags(), args[0]) },
	}
	o.bind(cmd)
	flags := cmd.Flags()
	flags.StringVar(&o.since, "since", "", "only ticks at this time or later: a time, or how long ago it was, as 2h")
	flags.StringVar(&o.until, "until", "", "only ticks at this time or earlier")
	flags.BoolVar(&o.gaps, "gaps", false, "only ticks that did not run though nothing excluded them")
	return cmd
}

func (o *ledgerOptions) run(ctx context.Context, flags *pflag.FlagSet, id string) error {
	s := o.session
	since, err := s.pastFrom(flags, "since", o.since)
	if err != nil {
		return err
	}
	until, err := s.pastFrom(flags, "until", o.until)
	if err != nil {
		return err
	}
	c, err := s.calls()
	if err != nil {
		return err
	}
	list, err := readPages[client.LedgerEntry](o.window, "entries", func(limit int, cursor *string) (json.RawMessage, error) {
		a, err := ask[client.LedgerPage](c.ReadLedgerWithResponse(ctx, id, &client.ReadLedgerParams{
			Namespace: s.namespaceParam(), Since: since, Until: until, Gaps: orNil(o.gaps), Limit: &limit, Cursor: cursor,
		}))
		return a.raw, err
	})
	if err != nil {
		return err
	}
	if list.cursor == nil {
		defer s.sayForgotten(list.newest["known_from"], since)
	}
	return showPages(s, list, "entries", ledgerColumns)
}

// sayForgotten tells people that older records are forgotten, if they asked for older ones.
func (s *session) sayForgotten(raw json.RawMessage, since *time.Time) {
	var known time.Time
	if raw == nil || json.Unmarshal(raw, &known) != nil || since != nil && !since.Before(known) {
		return
	}
	if s.OutIsTerminal && s.isTable() {
		s.tell("What was before %s is forgotten.", s.text(nominal(known)))
	}
}

// ledgerColumns is the record of a tick.
var ledgerColumns = []column[client.LedgerEntry]{
	{"tick", func(e client.LedgerEntry) any { return nominal(e.Tick) }},
	{"outcome", func(e client.LedgerEntry) any { return status(e.Outcome) }},
	{"late", func(e client.LedgerEntry) any { return time.Duration(e.LateMs) * time.Millisecond }},
	{"task", func(e client.LedgerEntry) any { return e.Task }},
	{"reason", func(e client.LedgerEntry) any { return remark(orNothing(e.Reason)) }},
	{"decided", func(e client.LedgerEntry) any { return e.DecidedAt }},
	{"revision", func(e client.LedgerEntry) any { return e.Revision }},
}
