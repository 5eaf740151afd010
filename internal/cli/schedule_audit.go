package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dts-sched/dts/internal/api/client"
)

type auditOptions struct {
	session  *session
	from, to string
}

func newAuditCommand(s *session) *cobra.Command {
	o := auditOptions{session: s}
	cmd := &cobra.Command{
		Use: "audit ID", Short: "Prove that every tick of a schedule is accounted for", Args: named("ID"),
		Long: `audit computes anew, from the definitions that were in force, which ticks there should have been in a range of time, and
compares them with the ledger. It is proved if each tick has its record and nothing else is recorded; else the exit code
is 1.

What it prints:

  expected         how many ticks should have been decided about
  accounted        how many of those have a record
  outcome.fired    how many records say so; a line for each outcome there is
  pending          ticks whose time has come and that have not been decided about yet, as during a pause
  forgotten_until  up to here, the ledger or the history has forgotten what was, so nothing is proved
  gap              a tick that has no record; a line for each (on a terminal, the first 20)
  stray            a record that no definition explains, as tick and outcome; a line for each, as above
  proved           true or false, in a pipe; a terminal gets a sentence`,
		Example: `  dtsctl schedule audit nightly
  dtsctl schedule audit health --from 2h
  dtsctl schedule audit health --from 2026-01-02 --to 2026-01-03 && echo nothing was lost`,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), cmd.Flags(), args[0]) },
	}
	cmd.Flags().StringVar(&o.from, "from", "", "the start of the range: a time, or how long ago it was, as 2h (default as far back as the ledger and the remembered revisions go)")
	cmd.Flags().StringVar(&o.to, "to", "", "the end of the range (default now)")
	return cmd
}

func (o *auditOptions) run(ctx context.Context, flags *pflag.FlagSet, id string) error {
	s := o.session
	from, to, err := s.pastRange(flags, o.from, o.to)
	if err != nil {
		return err
	}
	c, err := s.calls()
	if err != nil {
		return err
	}
	a, err := ask[client.AuditReport](c.AuditScheduleWithResponse(ctx, id, &client.AuditScheduleParams{
		Namespace: s.namespaceParam(), From: from, To: to,
	}))
	if err != nil {
		return err
	}
	if err := s.show(a.raw, func() error { return s.printAudit(a.value) }); err != nil {
		return err
	}
	if !a.value.Proved {
		return errFailed
	}
	return nil
}

func (s *session) printAudit(r client.AuditReport) error {
	details := []detail{{"from", nominal(r.From)}, {"to", nominal(r.To)}, {"expected", r.Expected}, {"accounted", r.Accounted}}
	var outcomes []string
	for outcome := range r.Outcomes {
		outcomes = append(outcomes, outcome)
	}
	slices.Sort(outcomes)
	for _, outcome := range outcomes {
		details = append(details, detail{"outcome." + outcome, r.Outcomes[outcome]})
	}
	details = append(details, detail{"pending", r.Pending}, detail{"forgotten_until", nominalOf(r.ForgottenUntil)})
	for _, tick := range some(s, r.Gaps) {
		details = append(details, detail{"gap", nominal(tick)})
	}
	for _, e := range some(s, r.Strays) {
		details = append(details, detail{"stray", s.text(nominal(e.Tick)) + " " + string(e.Outcome)})
	}
	if !s.OutIsTerminal {
		return s.printDetails(append(details, detail{"proved", r.Proved}))
	}
	if err := s.printDetails(details); err != nil {
		return err
	}
	return s.printf("\n%s\n", s.verdictOf(r))
}

// someFindings is how many gaps and strays a terminal gets; the verdict says how many there are.
const someFindings = 20

// some is as many of the findings as the reader wants to see.
func some[T any](s *session, findings []T) []T {
	if s.OutIsTerminal {
		return findings[:min(len(findings), someFindings)]
	}
	return findings
}

// verdictOf says in a sentence what an audit found.
func (s *session) verdictOf(r client.AuditReport) string {
	if r.Proved {
		text := s.coloured(status("proved"), "Proved") + ": every tick is accounted for, and nothing else is recorded."
		if r.Expected == 0 {
			text = "There was no tick to account for, and none is recorded."
		}
		if r.ForgottenUntil != nil {
			text += " What was up to " + s.text(nominal(*r.ForgottenUntil)) + " is forgotten: about that nothing can be said."
		}
		if r.Pending > 0 {
			text += fmt.Sprintf(" %s not been decided about yet.", haveOrHas(r.Pending, "tick"))
		}
		return text
	}
	var why []string
	if n := len(r.Gaps); n > 0 {
		why = append(why, haveOrHas(n, "tick")+" no record")
	}
	if n := len(r.Strays); n > 0 {
		why = append(why, haveOrHas(n, "record")+" no definition that explains it")
	}
	if r.ForgottenUntil != nil {
		why = append(why, "what was up to "+s.text(nominal(*r.ForgottenUntil))+" is forgotten (audit what came after it with --from)")
	}
	return s.coloured(status("not proved"), "Not proved") + ": " + strings.Join(why, "; ") + "."
}

func haveOrHas(n int, thing string) string {
	if n == 1 {
		return counted(n, thing) + " has"
	}
	return counted(n, thing) + " have"
}
