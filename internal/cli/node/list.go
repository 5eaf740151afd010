package node

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/printer"
)

type listOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer
}

func newListCommand(f *command.Factory) *cobra.Command {
	opts := &listOptions{Client: f.Client, Printer: f.Printer}
	return &cobra.Command{
		Use: "list", Short: "List the nodes", Args: command.ExactArgs(),
		Annotations: command.Asks("listNodes"),
		Long: `list lists the nodes that are alive or have died recently.

The columns are: id, state, host, ip, version, roles, running, capacity, partitions, queues, cpu, memory, started, beat, via.
Running is how many tasks it runs, capacity how many it can run; partitions are those it leads, queues those it serves,
with their weights; cpu is the share of the machine's processors in use, memory what the process holds, beat its last
heartbeat, via the node that a worker by HTTP talks to.`,
		Example: `  dtsctl node list`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return listRun(cmd.Context(), opts) },
	}
}

func listRun(ctx context.Context, opts *listOptions) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	answer, err := rest.Read[wire.NodeList](c.ListNodesWithResponse(ctx))
	if err != nil {
		return err
	}
	opts.Printer.Warn(answer.Value.Warnings)
	return opts.Printer.Show(answer.Raw, func() error {
		return printer.PrintTable(opts.Printer, listColumns, answer.Value.Nodes)
	})
}

var listColumns = []printer.Column[wire.Node]{
	{Name: "id", Value: func(n wire.Node) any { return n.ID }},
	{Name: "state", Value: func(n wire.Node) any { return printer.Status(n.State) }},
	{Name: "host", Value: func(n wire.Node) any { return n.Host }},
	{Name: "ip", Value: func(n wire.Node) any { return n.IP }},
	{Name: "version", Value: func(n wire.Node) any { return n.Version }},
	{Name: "roles", Value: func(n wire.Node) any { return printer.List(n.Roles) }},
	{Name: "running", Value: func(n wire.Node) any { return n.Running }},
	{Name: "capacity", Value: func(n wire.Node) any { return n.Capacity }},
	{Name: "partitions", Value: func(n wire.Node) any { return printer.Numbers(n.Partitions) }},
	{Name: "queues", Value: func(n wire.Node) any { return queueList(n.Queues) }},
	{Name: "cpu", Value: func(n wire.Node) any { return printer.Share(n.CPU) }},
	{Name: "memory", Value: func(n wire.Node) any { return printer.Bytes(n.Memory) }},
	{Name: "started", Value: func(n wire.Node) any { return n.StartedAt }},
	{Name: "beat", Value: func(n wire.Node) any { return n.LastBeat }},
	{Name: "via", Value: func(n wire.Node) any { return n.Via }},
}

func queueList(weights map[string]int) printer.List {
	var texts printer.List
	for name, weight := range weights {
		texts = append(texts, fmt.Sprintf("%s=%d", name, weight))
	}
	slices.Sort(texts)
	return texts
}
