package cli

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dts-sched/dts/internal/api/client"
)

type nextOptions struct {
	session *session
	count   int
	after   string
}

func newNextCommand(s *session) *cobra.Command {
	o := nextOptions{session: s}
	cmd := &cobra.Command{
		Use: "next ID", Short: "Show the next ticks of a schedule", Args: named("ID"),
		Long: `next shows the next ticks of a schedule, paused or not, in UTC and as its zone's clock shows them, with what is unusual
about them: that an exclusion covers one, or that a change of the clock (daylight saving) moves it. A terminal is also
shown the next such change, if there is one within a year, and the ticks around it.

The columns are: tick, local, in, note. A pipe gets: tick, local, "runs" or "excluded", note.`,
		Example: `  dtsctl schedule next nightly
  dtsctl schedule next nightly --count 100 --after 2027-03-01T00:00:00Z
  dtsctl schedule next nightly -o json | jq .transition`,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), cmd.Flags(), args[0]) },
	}
	cmd.Flags().IntVar(&o.count, "count", 10, "how many ticks")
	cmd.Flags().StringVar(&o.after, "after", "", "only ticks after this time (default now)")
	return cmd
}

func (o *nextOptions) run(ctx context.Context, flags *pflag.FlagSet, id string) error {
	s := o.session
	after, err := s.timeFrom(flags, "after", o.after)
	if err != nil {
		return err
	}
	a, err := s.preview(ctx, id, client.PreviewScheduleParams{
		Namespace: s.namespaceParam(), Count: given(flags, "count", o.count), After: after,
	})
	if err != nil {
		return err
	}
	return s.show(a.raw, func() error { return s.printPreview(a.value) })
}

func (s *session) preview(ctx context.Context, id string, params client.PreviewScheduleParams) (answer[client.SchedulePreview], error) {
	c, err := s.calls()
	if err != nil {
		return answer[client.SchedulePreview]{}, err
	}
	return ask[client.SchedulePreview](c.PreviewScheduleWithResponse(ctx, id, &params))
}

func (s *session) printPreview(p client.SchedulePreview) error {
	if !s.OutIsTerminal {
		return printTable(s, tickColumnsInPipe, p.Ticks)
	}
	if len(p.Ticks) == 0 {
		return s.printf("It ticks no more.\n")
	}
	columns := tickColumns(p.Timezone)
	if err := printTable(s, columns, p.Ticks); err != nil || p.Transition == nil {
		return err
	}
	return s.printClockChange(*p.Transition, columns)
}

// printClockChange prints the change of the zone's clock and what it does to the ticks around it.
func (s *session) printClockChange(c client.ClockChange, columns []column[client.UpcomingTick]) error {
	err := s.printf("\nThe clock changes %s, %s, from %s to %s:\n",
		relative(c.At, s.Now()), s.text(moment(c.Local)), flat(c.OffsetBefore), flat(c.OffsetAfter))
	if err != nil {
		return err
	}
	if err := s.printf("%s\n\n", flat(orNothing(c.Note))); err != nil {
		return err
	}
	if len(c.Ticks) == 0 {
		return s.printf("No tick is near it.\n")
	}
	return printTable(s, columns, c.Ticks)
}

// tickColumns is a tick for people, its local time headed by the zone.
func tickColumns(zone string) []column[client.UpcomingTick] {
	return []column[client.UpcomingTick]{
		{"tick", func(t client.UpcomingTick) any { return nominal(t.Tick) }},
		{zone, func(t client.UpcomingTick) any { return moment(t.Local) }},
		{"in", func(t client.UpcomingTick) any { return t.Tick }},
		{"note", noteOf},
	}
}

// soonColumns is a tick in few words.
var soonColumns = []column[client.UpcomingTick]{
	{"local", func(t client.UpcomingTick) any { return "  " + moment(t.Local).forPeople() }},
	{"in", func(t client.UpcomingTick) any { return t.Tick }},
	{"note", noteOf},
}

var tickColumnsInPipe = []column[client.UpcomingTick]{
	{"tick", func(t client.UpcomingTick) any { return t.Tick }},
	{"local", func(t client.UpcomingTick) any { return t.Local }},
	{"runs", func(t client.UpcomingTick) any {
		if t.Excluded != nil && *t.Excluded {
			return "excluded"
		}
		return "runs"
	}},
	{"note", func(t client.UpcomingTick) any { return t.Note }},
}

// noteOf is what people should know about a tick.
func noteOf(t client.UpcomingTick) any {
	if note := orNothing(t.Note); note != "" || t.Excluded == nil || !*t.Excluded {
		return note
	}
	return status("excluded")
}
