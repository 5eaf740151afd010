// Package doctor is the command "dtsctl doctor".
package doctor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/flags"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/clock"
)

// examples is how many findings of a check are shown.
const examples = 5

type options struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer

	Checks    []string
	Partition int
	Cursor    *string
	Within    time.Duration
	Repair    bool
}

// NewCommand returns "dtsctl doctor".
func NewCommand(f *command.Factory) *cobra.Command {
	opts := &options{Client: f.Client, Printer: f.Printer}
	cmd := &cobra.Command{
		Use: "doctor", Short: "Examine the installation, and repair it", Args: command.ExactArgs(),
		Annotations: command.Asks("examine", "repair"),
		Long: `doctor looks whether what is in Redis fits together, and whether Redis and the nodes are as they should be. It
changes nothing unless it is told to, and is safe on a live system: the server reads page by page, with pauses.

The columns are: check, severity, looked, found, repaired, detail. The severity is ok if nothing was found, unknown if
Redis does not say what the check asks for or something was passed over, or how bad it is: note, warning or error. Looked
is at how many things the check has looked. Detail is what was seen, or the first finding, or what was passed over. A
terminal also gets the findings, what they mean, and what a repair does.

With --repair, it repairs what can be repaired, without asking: most of it in the moment in which it is found, the rest
by a command right after that. It never throws a task away: it puts things where leaders and workers look, and
removes what belongs to nothing.

Where a key or a value is damaged, it goes on, and the checks that need it say what they have passed over.

The exit code is 1 if anything of the severity error was found and not repaired, if something was passed over, or if the
time was over before it had looked at everything; else 0.`,
		Example: `  dtsctl doctor
  dtsctl doctor --check overdue,leaders
  dtsctl doctor --check scheduled-lost --repair
  dtsctl doctor -o json | jq '.checks[] | select(.severity == "error")'`,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), opts) },
	}
	set := cmd.Flags()
	set.StringSliceVar(&opts.Checks, "check", nil, "only these checks, separated by commas; may be repeated")
	set.IntVar(&opts.Partition, "partition", -1, "only the data of this partition (default all of them)")
	set.DurationVar(&opts.Within, "within", time.Minute, "how long to look at most; a cursor then says how to go on")
	set.BoolVar(&opts.Repair, "repair", false, "repair what is found")
	flags.String(set, &opts.Cursor, "cursor", "go on where an earlier run stopped")
	return cmd
}

func run(ctx context.Context, opts *options) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	var report wire.DoctorReport
	params := client.ExamineParams{Check: opts.Checks, Cursor: opts.Cursor}
	if opts.Partition >= 0 {
		params.Partition = &opts.Partition
	}
	for started := clock.Now(); ; {
		page, err := examine(ctx, c, params, opts.Repair)
		if err != nil {
			return err
		}
		add(&report, page)
		if params.Cursor = page.NextCursor; params.Cursor == nil || clock.Since(started) >= opts.Within {
			break
		}
	}
	raw, err := wire.Encode(report)
	if err != nil {
		return err
	}
	if err := opts.Printer.Show(raw, func() error { return show(opts.Printer, report) }); err != nil {
		return err
	}
	if report.NextCursor != nil {
		opts.Printer.Notef("There is more to look at; go on with --cursor %s", *report.NextCursor)
		return command.ErrReported
	}
	if slices.ContainsFunc(report.Checks, isOpen) {
		return command.ErrReported
	}
	return nil
}

// examine makes one request.
func examine(ctx context.Context, c *rest.Client, params client.ExamineParams, repair bool) (wire.DoctorReport, error) {
	if repair {
		also := client.RepairParams(params)
		answer, err := rest.Read[wire.DoctorReport](c.RepairWithResponse(ctx, &also))
		return answer.Value, err
	}
	answer, err := rest.Read[wire.DoctorReport](c.ExamineWithResponse(ctx, &params))
	return answer.Value, err
}

// severities are all severities, the mildest first.
var severities = []wire.DoctorCheckSeverity{
	wire.DoctorCheckSeverityOk, wire.DoctorCheckSeverityUnknown, wire.DoctorCheckSeverityNote, wire.DoctorCheckSeverityWarning,
	wire.DoctorCheckSeverityError,
}

// add adds the next part of a report.
func add(report *wire.DoctorReport, page wire.DoctorReport) {
	report.NextCursor = page.NextCursor
	for _, part := range page.Checks {
		i := slices.IndexFunc(report.Checks, func(c wire.DoctorCheck) bool { return c.Name == part.Name })
		if i < 0 {
			report.Checks = append(report.Checks, part)
			continue
		}
		sum := &report.Checks[i]
		sum.Looked, sum.Found, sum.Repaired = sum.Looked+part.Looked, sum.Found+part.Found, sum.Repaired+part.Repaired
		sum.Examples = append(sum.Examples, part.Examples[:min(len(part.Examples), examples-min(examples, len(sum.Examples)))]...)
		if slices.Index(severities, part.Severity) > slices.Index(severities, sum.Severity) {
			sum.Severity = part.Severity
		}
		sum.Detail = cmp.Or(sum.Detail, part.Detail)
		sum.PassedOver = cmp.Or(part.PassedOver, sum.PassedOver)
	}
}

// isOpen reports whether a check found something bad that is not repaired, or could not look at everything.
func isOpen(c wire.DoctorCheck) bool {
	return c.Severity == wire.DoctorCheckSeverityError && c.Repaired < c.Found || c.PassedOver != nil
}

var columns = []printer.Column[wire.DoctorCheck]{
	{Name: "check", Value: func(c wire.DoctorCheck) any { return c.Name }},
	{Name: "severity", Value: func(c wire.DoctorCheck) any { return printer.Status(c.Severity) }},
	{Name: "looked", Value: func(c wire.DoctorCheck) any { return c.Looked }},
	{Name: "found", Value: func(c wire.DoctorCheck) any { return c.Found }},
	{Name: "repaired", Value: func(c wire.DoctorCheck) any { return c.Repaired }},
	{Name: "detail", Value: func(c wire.DoctorCheck) any { return printer.Remark(detailOf(c)) }},
}

func detailOf(c wire.DoctorCheck) string {
	if c.Detail == nil && len(c.Examples) > 0 {
		return c.Examples[0]
	}
	return printer.Deref(cmp.Or(c.Detail, c.PassedOver))
}

// show prints a table, and for people what it means.
func show(p *printer.Printer, report wire.DoctorReport) error {
	if !p.OutIsTerminal {
		return printer.PrintTable(p, columns, report.Checks)
	}
	looked, without := withoutIdle(report.Checks)
	if err := printer.PrintTable(p, columns, looked); err != nil {
		return err
	}
	clean := 0
	for _, c := range looked {
		if c.Severity == wire.DoctorCheckSeverityOk {
			clean++
			continue
		}
		if err := explain(p, c); err != nil {
			return err
		}
	}
	if err := p.Printf("%s", without); err != nil {
		return err
	}
	return p.Printf("\n%d of %s passed.\n", clean, printer.Counted(len(report.Checks), "check"))
}

// idleLimit is how many checks that looked at nothing, for the same reason, are shown each by itself.
const idleLimit = 3

// withoutIdle returns the checks to show, and a sentence about the others: while Redis is away, nearly all checks look at
// nothing for that reason.
func withoutIdle(checks []wire.DoctorCheck) (looked []wire.DoctorCheck, sentence string) {
	reasons := make(map[string]int)
	for _, c := range checks {
		if isIdle(c) {
			reasons[*c.PassedOver]++
		}
	}
	for _, c := range checks {
		if isIdle(c) && reasons[*c.PassedOver] > idleLimit {
			continue
		}
		looked = append(looked, c)
	}
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		if n := reasons[reason]; n > idleLimit {
			sentence += fmt.Sprintf("\nunknown: the other %d checks\n  %s\n", n, printer.Flat(reason))
		}
	}
	return looked, sentence
}

// isIdle reports whether a check has looked at nothing, and says why.
func isIdle(c wire.DoctorCheck) bool {
	return c.Severity == wire.DoctorCheckSeverityUnknown && c.Looked == 0 && c.Found == 0 && c.PassedOver != nil
}

// explain prints what a check has found, what it means, and what can be done.
func explain(p *printer.Printer, c wire.DoctorCheck) error {
	var lines []string
	if c.Means != "" {
		lines = append(lines, c.Means)
	}
	if c.Detail != nil {
		lines = append(lines, *c.Detail)
	} else {
		lines = append(lines, c.Examples...)
	}
	if more := c.Found - len(c.Examples); more > 0 {
		lines = append(lines, "... and "+printer.Counted(more, "other"))
	}
	if c.PassedOver != nil {
		lines = append(lines, *c.PassedOver)
	}
	switch {
	case c.Found == 0 || c.Severity == wire.DoctorCheckSeverityUnknown: // so nothing is known to be wrong
	case c.Found > 0 && c.Repaired == c.Found:
		lines = append(lines, "Repaired.")
	case c.Repairs:
		lines = append(lines, "With --repair: "+c.Repair)
	default:
		lines = append(lines, "To do: "+strings.TrimPrefix(c.Repair, "By hand: "))
	}
	for i, line := range lines {
		lines[i] = printer.Flat(line)
	}
	return p.Printf("\n%s %s\n  %s\n", p.StatusWord(printer.Status(c.Severity)), c.Name, strings.Join(lines, "\n  "))
}
