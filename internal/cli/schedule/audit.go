package schedule

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/flags"
	"github.com/dts-sched/dts/internal/cli/printer"
)

type auditOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer
	Times   flags.Times

	ID       string
	From, To *string
}

func newAuditCommand(f *command.Factory) *cobra.Command {
	opts := &auditOptions{Client: f.Client, Printer: f.Printer, Times: flags.TimesOf(f)}
	cmd := &cobra.Command{
		Use: "audit ID", Short: "Prove that every tick of a schedule is accounted for", Args: command.ExactArgs("ID"),
		Annotations: command.Asks("auditSchedule"),
		Long: `audit computes, from the definitions that were in force, which ticks a range of time has, and compares them with the
ledger. The result is proved if each tick has a record and nothing else is recorded; else the exit code is 1.

It prints:

  expected         how many ticks should have been decided
  accounted        how many of those have a record
  outcome.fired    how many records have this outcome; a line for each outcome there is
  pending          ticks that are due and not decided yet, as during a pause
  forgotten_until  the ledger or the history is forgotten up to here, so nothing is proved about that time
  lost_writes      from when to when Redis has lost writes, so that ticks may have run twice; a line for each such time
  gap              a tick that has no record; a line for each (on a terminal, the first 20)
  stray            a record that no definition explains, as tick and outcome; a line for each, as above
  warning          what cannot be read, or a revision that is missing, so that nothing is proved; a line for each
  proved           true or false, in a pipe; a terminal gets a sentence`,
		Example: `  dtsctl schedule audit nightly
  dtsctl schedule audit health --from 2h
  dtsctl schedule audit health --from 2026-01-02 --to 2026-01-03 && echo nothing was lost`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.ID = args[0]
			return auditRun(cmd.Context(), opts)
		},
	}
	flags.String(cmd.Flags(), &opts.From, "from", "the start of the range: a time, or how long ago it was, as 2h (default as far back as the ledger and the remembered revisions go)")
	flags.String(cmd.Flags(), &opts.To, "to", "the end of the range (default now)")
	return cmd
}

func auditRun(ctx context.Context, opts *auditOptions) error {
	from, to, err := opts.Times.PastRange(opts.From, opts.To)
	if err != nil {
		return err
	}
	c, err := opts.Client()
	if err != nil {
		return err
	}
	params := &client.AuditScheduleParams{Namespace: c.Namespace, From: from, To: to}
	answer, err := rest.Read[wire.AuditReport](c.AuditScheduleWithResponse(ctx, opts.ID, params))
	if err != nil {
		return err
	}
	if err := opts.Printer.Show(answer.Raw, func() error { return printAudit(opts.Printer, answer.Value) }); err != nil {
		return err
	}
	if !answer.Value.Proved {
		return command.ErrReported
	}
	return nil
}

func printAudit(p *printer.Printer, r wire.AuditReport) error {
	details := []printer.Detail{
		{Name: "from", Value: printer.Timestamp(r.From)}, {Name: "to", Value: printer.Timestamp(r.To)},
		{Name: "expected", Value: r.Expected}, {Name: "accounted", Value: r.Accounted},
	}
	for _, outcome := range slices.Sorted(maps.Keys(r.Outcomes)) {
		details = append(details, printer.Detail{Name: "outcome." + outcome, Value: r.Outcomes[outcome]})
	}
	details = append(details,
		printer.Detail{Name: "pending", Value: r.Pending},
		printer.Detail{Name: "forgotten_until", Value: printer.OptionalTimestamp(r.ForgottenUntil)},
	)
	for _, loss := range r.LostWrites {
		span := p.Text(printer.Timestamp(loss.From)) + " " + p.Text(printer.Timestamp(loss.To))
		details = append(details, printer.Detail{Name: "lost_writes", Value: span})
	}
	for _, text := range r.Warnings {
		details = append(details, printer.Detail{Name: "warning", Value: text})
	}
	for _, tick := range firstFindings(p, r.Gaps) {
		details = append(details, printer.Detail{Name: "gap", Value: printer.Timestamp(tick)})
	}
	for _, e := range firstFindings(p, r.Strays) {
		stray := p.Text(printer.Timestamp(e.Tick)) + " " + string(e.Outcome)
		details = append(details, printer.Detail{Name: "stray", Value: stray})
	}
	if !p.OutIsTerminal {
		return p.PrintDetails(append(details, printer.Detail{Name: "proved", Value: r.Proved}))
	}
	if err := p.PrintDetails(details); err != nil {
		return err
	}
	return p.Printf("\n%s\n", verdict(p, r))
}

// findingsForPeople is how many gaps and strays a terminal gets. The verdict says how many there are.
const findingsForPeople = 20

func firstFindings[T any](p *printer.Printer, findings []T) []T {
	if p.OutIsTerminal {
		return findings[:min(len(findings), findingsForPeople)]
	}
	return findings
}

// verdict says in a sentence what an audit found.
func verdict(p *printer.Printer, r wire.AuditReport) string {
	if !r.Proved {
		return p.StatusText("not proved", "Not proved") + ": " + strings.Join(doubts(p, r), "; ") + "."
	}
	text := p.StatusText("proved", "Proved") + ": every tick is accounted for, and nothing else is recorded."
	if r.Expected == 0 {
		text = "There was no tick to account for, and none is recorded."
	}
	if r.ForgottenUntil != nil {
		text += " Nothing is known about the time up to " + p.Text(printer.Timestamp(*r.ForgottenUntil)) + "."
	}
	if r.Pending > 0 {
		text += fmt.Sprintf(" %s not been decided yet.", haveOrHas(r.Pending, "tick"))
	}
	return text
}

// doubts returns the reasons why an audit proves nothing.
func doubts(p *printer.Printer, r wire.AuditReport) []string {
	var reasons []string
	if n := len(r.Gaps); n > 0 {
		reasons = append(reasons, haveOrHas(n, "tick")+" no record")
	}
	if n := len(r.Strays); n > 0 {
		reasons = append(reasons, haveOrHas(n, "record")+" no definition that explains it")
	}
	for _, loss := range r.LostWrites {
		reasons = append(reasons, "Redis lost writes between "+p.Text(printer.Timestamp(loss.From))+" and "+p.Text(printer.Timestamp(loss.To))+
			", so ticks may have run twice")
	}
	if len(r.Warnings) > 0 {
		reasons = append(reasons, "not all can be read, as the warnings above say")
	}
	if r.ForgottenUntil != nil {
		reasons = append(reasons, "nothing is known about the time up to "+p.Text(printer.Timestamp(*r.ForgottenUntil))+" (audit the time after it with --from)")
	}
	return reasons
}

func haveOrHas(n int, thing string) string {
	if n == 1 {
		return printer.Counted(n, thing) + " has"
	}
	return printer.Counted(n, thing) + " have"
}
