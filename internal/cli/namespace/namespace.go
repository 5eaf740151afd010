// Package namespace is the commands of "dtsctl namespace".
package namespace

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/printer"
)

// NewCommand returns "dtsctl namespace".
func NewCommand(f *command.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use: "namespace", Short: "Show the namespaces",
		Long: `A namespace is a tenant: ids of tasks and schedules are unique within one. It exists once something is
submitted to it.`,
		Example: `  dtsctl namespace list
  dtsctl namespace list --memory`,
	}
	cmd.AddCommand(newListCommand(f))
	return command.Group(cmd)
}

type listOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer

	Memory bool
}

func newListCommand(f *command.Factory) *cobra.Command {
	opts := &listOptions{Client: f.Client, Printer: f.Printer}
	cmd := &cobra.Command{
		Use: "list", Short: "List the namespaces", Args: command.ExactArgs(),
		Annotations: command.Asks("listNamespaces", "getMemory"),
		Long: `list lists the namespaces to which a task or schedule was submitted, by name.

The columns are: name, submitted, and with --memory: tasks, schedules, bytes. Submitted is the time of the last
submission, to the minute; ticks of schedules do not count. With --memory, the others are estimates, as of "dtsctl
memory", which also says what each schedule takes. They are blank beyond the 100 namespaces that take most.`,
		Example: `  dtsctl namespace list
  dtsctl namespace list --memory | sort -rnk 5`,
		RunE: func(cmd *cobra.Command, _ []string) error { return listRun(cmd.Context(), opts) },
	}
	cmd.Flags().BoolVar(&opts.Memory, "memory", false,
		"estimate the memory of each namespace in Redis; this costs Redis some 100 ms")
	return cmd
}

// entry is a namespace, with what it takes in Redis if that is known.
type entry struct {
	wire.NamespaceEntry
	Memory *wire.MemoryOfNamespace `json:"memory,omitempty"`
}

func listRun(ctx context.Context, opts *listOptions) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	answer, err := rest.Read[wire.NamespaceList](c.ListNamespacesWithResponse(ctx))
	if err != nil {
		return err
	}
	opts.Printer.Warn(answer.Value.Warnings)
	if opts.Memory {
		return showMemory(ctx, c, opts.Printer, answer.Value)
	}
	return opts.Printer.Show(answer.Raw, func() error {
		return printer.PrintTable(opts.Printer, listColumns, entriesOf(answer.Value, nil))
	})
}

// showMemory shows namespaces with what they take in Redis.
func showMemory(ctx context.Context, c *rest.Client, p *printer.Printer, list wire.NamespaceList) error {
	answer, err := rest.Read[wire.MemoryReport](c.GetMemoryWithResponse(ctx))
	if err != nil {
		return err
	}
	p.Warn(answer.Value.Warnings)
	if why := answer.Value.Unknown; why != nil {
		p.Notef("What they take is not known: %s", *why)
	}
	entries := entriesOf(list, answer.Value.Namespaces)
	raw, err := wire.Encode(map[string]any{"namespaces": entries})
	if err != nil {
		return err
	}
	return p.Show(raw, func() error {
		return printer.PrintTable(p, append(slices.Clone(listColumns), memoryColumns...), entries)
	})
}

func entriesOf(list wire.NamespaceList, memory []wire.MemoryOfNamespace) []entry {
	entries := make([]entry, len(list.Namespaces))
	for i, n := range list.Namespaces {
		entries[i] = entry{NamespaceEntry: n}
		for _, m := range memory {
			if m.Name == n.Name {
				entries[i].Memory = &m
			}
		}
	}
	return entries
}

var listColumns = []printer.Column[entry]{
	{Name: "name", Value: func(n entry) any { return n.Name }},
	{Name: "submitted", Value: func(n entry) any { return n.LastSubmittedAt }},
}

var memoryColumns = []printer.Column[entry]{
	{Name: "tasks", Value: func(n entry) any {
		return ofMemory(n, func(m wire.MemoryOfNamespace) any { return m.Tasks })
	}},
	{Name: "schedules", Value: func(n entry) any {
		return ofMemory(n, func(m wire.MemoryOfNamespace) any { return m.Schedules })
	}},
	{Name: "bytes", Value: func(n entry) any {
		return ofMemory(n, func(m wire.MemoryOfNamespace) any { return printer.Bytes(m.TaskBytes + m.ScheduleBytes) })
	}},
}

// ofMemory is a part of what is known of the memory; nil if nothing is.
func ofMemory(n entry, part func(wire.MemoryOfNamespace) any) any {
	if n.Memory == nil {
		return nil
	}
	return part(*n.Memory)
}
