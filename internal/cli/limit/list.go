package limit

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/printer"
)

type listOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer

	Limit string // of get
}

func newListCommand(f *command.Factory) *cobra.Command {
	opts := &listOptions{Client: f.Client, Printer: f.Printer}
	return &cobra.Command{
		Use: "list", Short: "List the limits", Args: command.ExactArgs(),
		Annotations: command.Asks("listLimits"),
		Long: `list lists the limits, keys first, then types, queues, namespaces and all.

` + columnHelp + `

Held is how many slots its queued and running tasks have, and waiting how many of its tasks are due and wait in DTS.
With "*" in the name, both are those of all its keys, types, queues or namespaces; "dtsctl limit get" shows each. Paused
is until when, or "yes" if it is until somebody resumes the limit.`,
		Example: `  dtsctl limit list`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return listRun(cmd.Context(), opts) },
	}
}

const columnHelp = `The columns are: name, at once, rate, held, waiting, paused, note.`

func listRun(ctx context.Context, opts *listOptions) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	answer, err := rest.Read[wire.LimitList](c.ListLimitsWithResponse(ctx))
	if err != nil {
		return err
	}
	opts.Printer.Warn(answer.Value.Warnings)
	return opts.Printer.Show(answer.Raw, func() error {
		return printer.PrintTable(opts.Printer, columns, answer.Value.Limits)
	})
}

func newGetCommand(f *command.Factory) *cobra.Command {
	opts := &listOptions{Client: f.Client, Printer: f.Printer}
	return &cobra.Command{
		Use: "get NAME", Short: "Show a limit", Args: command.ExactArgs("NAME"),
		Annotations: command.Asks("getLimit"),
		Long: `get shows a limit. With "*" in its name, a line follows for each of up to 20 keys, types, queues or namespaces
that use it, those with most waiting tasks first. A key that has no limit of its own has the one that applies to it,
such as key:*: get shows what that allows, and what the key uses.

On a terminal, up to 20 of the tasks follow that hold its slots; -o json has them, too.

` + columnHelp,
		Example: `  dtsctl limit get 'key:*'
  dtsctl limit get key:tenant-7`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Limit = args[0]
			return getRun(cmd.Context(), opts)
		},
	}
}

func getRun(ctx context.Context, opts *listOptions) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	answer, err := rest.Read[wire.LimitEntry](c.GetLimitWithResponse(ctx, opts.Limit))
	if err != nil {
		return err
	}
	return opts.Printer.Show(answer.Raw, func() error { return printLimit(opts.Printer, answer.Value) })
}

// printLimit prints a limit, and the names that use it: with what the limit allows each of them.
func printLimit(p *printer.Printer, l wire.LimitEntry) error {
	lines := []wire.LimitEntry{l}
	for _, use := range l.Uses {
		one := l
		one.Name, one.Held, one.Waiting = use.Name, use.Held, use.Waiting
		lines = append(lines, one)
	}
	if err := printer.PrintTable(p, columns, lines); err != nil {
		return err
	}
	switch more := wire.Value(l.Names) - len(l.Uses); {
	case more == 1:
		p.Notef("1 more name uses it")
	case more > 1:
		p.Notef("%d more names use it", more)
	}
	if l.SetAs != nil {
		p.Notef("%s has no limit of its own: %s applies to it", l.Name, *l.SetAs)
	}
	if len(l.Holders) == 0 || !p.OutIsTerminal {
		return nil
	}
	if err := p.Printf("\nTasks that hold its slots:\n\n"); err != nil {
		return err
	}
	return printer.PrintTable(p, holderColumns, l.Holders)
}

var holderColumns = []printer.Column[wire.LimitHolder]{
	{Name: "task", Value: func(h wire.LimitHolder) any { return h.ID }},
	{Name: "namespace", Value: func(h wire.LimitHolder) any { return h.Namespace }},
}

var columns = []printer.Column[wire.LimitEntry]{
	{Name: "name", Value: func(l wire.LimitEntry) any { return l.Name }},
	{Name: "at once", Value: func(l wire.LimitEntry) any {
		if l.Slots == nil {
			return ""
		}
		return *l.Slots
	}},
	{Name: "rate", Value: func(l wire.LimitEntry) any { return rateOf(l) }},
	{Name: "held", Value: func(l wire.LimitEntry) any { return l.Held }},
	{Name: "waiting", Value: func(l wire.LimitEntry) any { return l.Waiting }},
	{Name: "paused", Value: func(l wire.LimitEntry) any {
		switch {
		case l.PausedUntil != nil:
			return l.PausedUntil
		case l.Paused:
			return "yes"
		}
		return ""
	}},
	{Name: "note", Value: func(l wire.LimitEntry) any { return printer.Remark(printer.Deref(l.Note)) }},
}

// rateOf writes a rate: "100/1m", or "100/1m burst 20".
func rateOf(l wire.LimitEntry) string {
	if l.Rate == nil {
		return ""
	}
	text := fmt.Sprintf("%d/%s", *l.Rate, wire.Value(l.Per))
	if l.Burst != nil {
		text += fmt.Sprintf(" burst %d", *l.Burst)
	}
	return text
}
