// Package memory is the command "dtsctl memory".
package memory

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/printer"
)

type options struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer
}

// NewCommand returns "dtsctl memory".
func NewCommand(f *command.Factory) *cobra.Command {
	opts := &options{Client: f.Client, Printer: f.Printer}
	return &cobra.Command{
		Use: "memory", Short: "Estimate what takes the memory of Redis", Args: command.ExactArgs(),
		Annotations: command.Asks("getMemory"),
		Long: `memory estimates what each kind of data, each namespace and each schedule takes in Redis. It measures the large
keys, and a random part of the rest, so two runs differ by some percent. It is safe on a live system.

The columns are: of, namespace, name, bytes, detail. Of is kind, namespace or schedule. The kinds add up to all that
Redis uses; namespaces and schedules are other views of the same bytes. At most 100 namespaces and 10 schedules are
shown, those that take most. The bytes of a schedule include the tasks of its ticks.

An embedded Redis, as of "dtsd dev", does not measure its keys: a message says so, and nothing is listed.`,
		Example: `  dtsctl memory
  dtsctl memory -o json | jq '.namespaces[:3]'`,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), opts) },
	}
}

func run(ctx context.Context, opts *options) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	answer, err := rest.Read[wire.MemoryReport](c.GetMemoryWithResponse(ctx))
	if err != nil {
		return err
	}
	opts.Printer.Warn(answer.Value.Warnings)
	return opts.Printer.Show(answer.Raw, func() error { return show(opts.Printer, answer.Value) })
}

func show(p *printer.Printer, r wire.MemoryReport) error {
	if r.Unknown != nil {
		p.Notef("Nothing is known: %s", *r.Unknown)
		return nil
	}
	if err := printer.PrintTable(p, columns, rowsOf(p, r)); err != nil || !p.OutIsTerminal {
		return err
	}
	keys := printer.Counted(int(wire.Value(r.Keys)), "key")
	if r.Used == nil {
		return p.Printf("\nAn estimate. Redis has %s.\n", keys)
	}
	limit := "no maxmemory"
	if r.Max != nil {
		limit = p.Text(printer.Bytes(*r.Max)) + " maxmemory"
	}
	used := p.Text(printer.Bytes(*r.Used))
	return p.Printf("\nAn estimate. Redis uses %s, with %s, and has %s.\n", used, limit, keys)
}

// row is a line of the table.
type row struct {
	of, namespace, name string
	bytes               int64
	detail              string
}

var columns = []printer.Column[row]{
	{Name: "of", Value: func(r row) any { return r.of }},
	{Name: "namespace", Value: func(r row) any { return r.namespace }},
	{Name: "name", Value: func(r row) any { return r.name }},
	{Name: "bytes", Value: func(r row) any { return printer.Bytes(r.bytes) }},
	{Name: "detail", Value: func(r row) any { return r.detail }},
}

func rowsOf(p *printer.Printer, r wire.MemoryReport) []row {
	size := func(bytes int64) string { return p.Text(printer.Bytes(bytes)) }
	var rows []row
	for _, k := range r.Kinds {
		rows = append(rows, row{of: "kind", name: string(k.Kind), bytes: k.Bytes})
	}
	for _, n := range r.Namespaces {
		detail := fmt.Sprintf("tasks %d: %s, schedules %d: %s", n.Tasks, size(n.TaskBytes), n.Schedules,
			size(n.ScheduleBytes))
		rows = append(rows, row{"namespace", n.Name, "", n.TaskBytes + n.ScheduleBytes, detail})
	}
	for _, s := range r.Schedules {
		detail := fmt.Sprintf("own %s, history %s, ledger %s, tasks %s", size(s.OwnBytes), size(s.HistoryBytes),
			size(s.LedgerBytes), size(s.TaskBytes))
		rows = append(rows, row{"schedule", s.Namespace, s.ID, s.Bytes, detail})
	}
	return rows
}
