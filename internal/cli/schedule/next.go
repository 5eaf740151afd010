package schedule

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/flags"
	"github.com/dts-sched/dts/internal/cli/printer"
)

type nextOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer
	Times   flags.Times

	ID       string
	Count    *int
	After    *string
	Crons    []string
	Timezone *string
}

func newNextCommand(f *command.Factory) *cobra.Command {
	opts := &nextOptions{Client: f.Client, Printer: f.Printer, Times: flags.TimesOf(f)}
	cmd := &cobra.Command{
		Use: "next ID", Short: "Show the next ticks of a schedule", Args: command.ExactArgs("ID"),
		Annotations: command.Asks("previewSchedule"),
		Long: `next shows the next ticks of a schedule, paused or not, in UTC and in the local time of its zone. A note says if an
exclusion covers a tick, or if a change of the clock (daylight saving) moves it. A terminal also gets the next such
change within a year, and the ticks around it.

With --cron, it shows the ticks that a cron expression would have, and changes nothing. No such schedule need exist, but
its id decides what H stands for.

The columns are: tick, local, in, note. A pipe gets: tick, local, "runs" or "excluded", note.`,
		Example: `  dtsctl schedule next nightly
  dtsctl schedule next nightly --cron '30 2 * * *' --timezone Europe/Berlin
  dtsctl schedule next nightly --count 100 --after 2027-03-01T00:00:00Z
  dtsctl schedule next nightly -o json | jq .transition`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.ID = args[0]
			return nextRun(cmd.Context(), opts)
		},
	}
	flags.Int(cmd.Flags(), &opts.Count, "count", "how many ticks (default 10)")
	flags.String(cmd.Flags(), &opts.After, "after", "only ticks after this time (default now)")
	cmd.Flags().StringArrayVar(&opts.Crons, "cron", nil, "the ticks of this cron expression instead; may be repeated")
	flags.String(cmd.Flags(), &opts.Timezone, "timezone", "with --cron: the IANA zone of the expression (default UTC)")
	return cmd
}

func nextRun(ctx context.Context, opts *nextOptions) error {
	after, err := opts.Times.Time("--after", opts.After)
	if err != nil {
		return err
	}
	c, err := opts.Client()
	if err != nil {
		return err
	}
	params := &client.PreviewScheduleParams{
		Namespace: c.Namespace, Count: opts.Count, Cron: opts.Crons, Timezone: opts.Timezone,
	}
	if after != nil {
		params.After = &after.Time
	}
	answer, err := rest.Read[wire.SchedulePreview](c.PreviewScheduleWithResponse(ctx, opts.ID, params))
	if err != nil {
		return err
	}
	return opts.Printer.Show(answer.Raw, func() error { return printNext(opts.Printer, answer.Value) })
}

func printNext(p *printer.Printer, next wire.SchedulePreview) error {
	if !p.OutIsTerminal {
		return printer.PrintTable(p, tickColumnsInPipe, next.Ticks)
	}
	if len(next.Ticks) == 0 {
		return p.Printf(noFurtherTicks)
	}
	columns := tickColumns(next.Timezone)
	if err := printer.PrintTable(p, columns, next.Ticks); err != nil || next.Transition == nil {
		return err
	}
	return printClockChange(p, *next.Transition, columns)
}

const noFurtherTicks = "No further ticks.\n"

// printClockChange prints a change of the zone's clock and its effect on the ticks around it.
func printClockChange(p *printer.Printer, change wire.ClockChange, columns []printer.Column[wire.UpcomingTick]) error {
	err := p.Printf("\nThe clock changes %s, %s, from %s to %s:\n%s\n\n",
		p.Relative(change.At.Time), p.Text(printer.LocalTime(change.Local)), printer.Flat(change.OffsetBefore), printer.Flat(change.OffsetAfter),
		printer.Flat(printer.Deref(change.Note)))
	if err != nil {
		return err
	}
	if len(change.Ticks) == 0 {
		return p.Printf("No tick is near it.\n")
	}
	return printer.PrintTable(p, columns, change.Ticks)
}

// tickColumns returns the columns of a tick for people. The name of the zone heads the local time.
func tickColumns(zone string) []printer.Column[wire.UpcomingTick] {
	return []printer.Column[wire.UpcomingTick]{
		{Name: "tick", Value: func(t wire.UpcomingTick) any { return printer.Timestamp(t.Tick) }},
		{Name: zone, Value: func(t wire.UpcomingTick) any { return printer.LocalTime(t.Local) }},
		{Name: "in", Value: func(t wire.UpcomingTick) any { return t.Tick }},
		{Name: "note", Value: noteOf},
	}
}

// shortTickColumns are the columns of a tick below a sentence.
var shortTickColumns = []printer.Column[wire.UpcomingTick]{
	{Name: "local", Value: func(t wire.UpcomingTick) any { return "  " + printer.LocalTime(t.Local).Weekday() }},
	{Name: "in", Value: func(t wire.UpcomingTick) any { return t.Tick }},
	{Name: "note", Value: noteOf},
}

var tickColumnsInPipe = []printer.Column[wire.UpcomingTick]{
	{Name: "tick", Value: func(t wire.UpcomingTick) any { return t.Tick }},
	{Name: "local", Value: func(t wire.UpcomingTick) any { return t.Local }},
	{Name: "runs", Value: func(t wire.UpcomingTick) any {
		if t.Excluded != nil && *t.Excluded {
			return "excluded"
		}
		return "runs"
	}},
	{Name: "note", Value: func(t wire.UpcomingTick) any { return t.Note }},
}

// noteOf returns the note about a tick, or that it is excluded.
func noteOf(t wire.UpcomingTick) any {
	if note := printer.Deref(t.Note); note != "" || t.Excluded == nil || !*t.Excluded {
		return note
	}
	return printer.Status("excluded")
}
