package schedule

import (
	"context"
	"encoding/json"
	"time"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/flags"
	"github.com/dts-sched/dts/internal/cli/printer"
)

type ledgerOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer
	Times   flags.Times

	ID           string
	Since, Until *string
	Gaps         bool
	Window       flags.Window
}

func newLedgerCommand(f *command.Factory) *cobra.Command {
	opts := &ledgerOptions{Client: f.Client, Printer: f.Printer, Times: flags.TimesOf(f)}
	cmd := &cobra.Command{
		Use: "ledger ID", Short: "Show what became of each tick of a schedule", Args: command.ExactArgs("ID"),
		Annotations: command.Asks("readLedger"),
		Long: `ledger lists the records of the ticks of a schedule that have been decided, the newest first. The outcomes are:

  fired            its task was created
  skipped_overlap  a task of the schedule had not ended, or a limit is reached
  missed           it could not be fired in time, and the misfire policy said no
  excluded         an exclusion covers it
  queued           it waits for the end of the task before it
  replaced         a later tick took its place
  triggered        no tick: somebody ran the schedule by hand
  backfilled       its task was created afterwards, because somebody asked for it

The columns are: tick, outcome, late, task, reason, decided, revision. Late is the time from the tick to the decision.`,
		Example: `  dtsctl schedule ledger nightly
  dtsctl schedule ledger health --since 2h --gaps
  dtsctl schedule ledger health --since 2026-01-02 --until 2026-01-03 --all -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.ID = args[0]
			if err := opts.Window.Check(); err != nil {
				return err
			}
			return ledgerRun(cmd.Context(), opts)
		},
	}
	opts.Window.Bind(cmd.Flags())
	set := cmd.Flags()
	flags.String(set, &opts.Since, "since", "only ticks at this time or later: a time, or how long ago it was, as 2h")
	flags.String(set, &opts.Until, "until", "only ticks at this time or earlier")
	set.BoolVar(&opts.Gaps, "gaps", false, "only ticks that did not run though nothing excluded them")
	return cmd
}

func ledgerRun(ctx context.Context, opts *ledgerOptions) error {
	since, err := opts.Times.Past("--since", opts.Since)
	if err != nil {
		return err
	}
	until, err := opts.Times.Past("--until", opts.Until)
	if err != nil {
		return err
	}
	c, err := opts.Client()
	if err != nil {
		return err
	}
	params := client.ReadLedgerParams{Namespace: c.Namespace, Since: since, Until: until, Gaps: flags.NilIfZero(opts.Gaps)}
	read := func(limit int, cursor *string) (json.RawMessage, error) {
		params.Limit, params.Cursor = &limit, cursor
		answer, err := rest.Read[wire.LedgerPage](c.ReadLedgerWithResponse(ctx, opts.ID, &params))
		return answer.Raw, err
	}
	pages, err := command.ListPages(opts.Printer, opts.Window.Window, "entries", read, ledgerColumns)
	if err != nil {
		return err
	}
	if !pages.More {
		noteForgotten(opts.Printer, pages.Rest["known_from"], since)
	}
	return nil
}

// noteForgotten tells people that older records are forgotten, if they asked for older ones. knownFrom is the time of
// the API that the records begin at.
func noteForgotten(p *printer.Printer, knownFrom json.RawMessage, since *time.Time) {
	var known wire.Time
	if knownFrom == nil || json.Unmarshal(knownFrom, &known) != nil || since != nil && !since.Before(known.Time) {
		return
	}
	if p.ForPeople() {
		p.Notef("The records before %s are forgotten.", p.Text(printer.Timestamp(known)))
	}
}

var ledgerColumns = []printer.Column[wire.LedgerEntry]{
	{Name: "tick", Value: func(e wire.LedgerEntry) any { return printer.Timestamp(e.Tick) }},
	{Name: "outcome", Value: func(e wire.LedgerEntry) any { return printer.Status(e.Outcome) }},
	{Name: "late", Value: func(e wire.LedgerEntry) any { return time.Duration(e.LateMs) * time.Millisecond }},
	{Name: "task", Value: func(e wire.LedgerEntry) any { return e.Task }},
	{Name: "reason", Value: func(e wire.LedgerEntry) any { return printer.Remark(printer.Deref(e.Reason)) }},
	{Name: "decided", Value: func(e wire.LedgerEntry) any { return e.DecidedAt }},
	{Name: "revision", Value: func(e wire.LedgerEntry) any { return e.Revision }},
}
