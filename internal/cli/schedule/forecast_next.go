package schedule

import (
	"context"
	"slices"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/printer"
)

// nextTicksRun lists the next ticks of all schedules.
func nextTicksRun(ctx context.Context, opts *forecastOptions) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	params := &client.NextTicksParams{Namespace: opts.namespace(c), Count: opts.Next}
	answer, err := rest.Read[wire.NextTickList](c.NextTicksWithResponse(ctx, params))
	if err != nil {
		return err
	}
	p := opts.Printer
	p.Warn(answer.Value.Warnings)
	return p.Show(answer.Raw, func() error { return printNextTicks(p, answer.Value) })
}

func printNextTicks(p *printer.Printer, next wire.NextTickList) error {
	columns := nextTickColumns
	if p.OutIsTerminal {
		in := printer.Column[wire.NextTick]{Name: "in", Value: func(t wire.NextTick) any { return t.Tick }}
		columns = slices.Insert(slices.Clone(columns), 2, in)
	}
	err := printer.PrintTable(p, columns, next.Ticks)
	if next.KnownUntil != nil {
		at := p.Text(printer.Timestamp(*next.KnownUntil))
		p.Notef("Nobody has looked for ticks from %s on: there are too many schedules.", at)
	}
	return err
}

var nextTickColumns = []printer.Column[wire.NextTick]{
	{Name: "tick", Value: func(t wire.NextTick) any { return printer.Timestamp(t.Tick) }},
	{Name: "local", Value: func(t wire.NextTick) any { return printer.LocalTime(t.Local) }},
	{Name: "namespace", Value: func(t wire.NextTick) any { return t.Namespace }},
	{Name: "schedule", Value: func(t wire.NextTick) any { return t.Schedule }},
	{Name: "queue", Value: func(t wire.NextTick) any { return t.Queue }},
	{Name: "type", Value: func(t wire.NextTick) any { return t.Type }},
	{Name: "note", Value: func(t wire.NextTick) any { return t.Note }},
}
