package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
)

func newNodeCommand(s *session) *cobra.Command {
	cmd := &cobra.Command{
		Use: "node", Short: "Look at the nodes",
		Long:    `A node is a running dtsd process.`,
		Example: `  dtsctl node list`,
	}
	cmd.AddCommand(&cobra.Command{
		Use: "list", Short: "List the nodes", Args: named(),
		Long: `list lists the nodes that are alive or have died lately.

The columns are: id, state, host, ip, version, roles, running, capacity, partitions, queues, cpu, memory, started, beat.
Running is how many tasks it runs, capacity how many it can; partitions are those it leads, queues those it serves, with
their weights; cpu is the share of the machine's processors in use, memory what the process holds, beat its last heartbeat.`,
		Example: `  dtsctl node list`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return s.runNodes(cmd.Context()) },
	})
	return beGroup(cmd)
}

func (s *session) runNodes(ctx context.Context) error {
	c, err := s.calls()
	if err != nil {
		return err
	}
	a, err := ask[client.NodeList](c.ListNodesWithResponse(ctx))
	if err != nil {
		return err
	}
	return s.show(a.raw, func() error { return printTable(s, nodeColumns, a.value.Nodes) })
}

var nodeColumns = []column[client.Node]{
	{"id", func(n client.Node) any { return n.ID }},
	{"state", func(n client.Node) any { return status(n.State) }},
	{"host", func(n client.Node) any { return n.Host }},
	{"ip", func(n client.Node) any { return n.IP }},
	{"version", func(n client.Node) any { return n.Version }},
	{"roles", func(n client.Node) any { return listing(n.Roles) }},
	{"running", func(n client.Node) any { return n.Running }},
	{"capacity", func(n client.Node) any { return n.Capacity }},
	{"partitions", func(n client.Node) any { return numbers(n.Partitions) }},
	{"queues", func(n client.Node) any { return queuesText(n.Queues) }},
	{"cpu", func(n client.Node) any { return share(n.CPU) }},
	{"memory", func(n client.Node) any { return memory(n.Memory) }},
	{"started", func(n client.Node) any { return n.StartedAt }},
	{"beat", func(n client.Node) any { return n.LastBeat }},
}

func queuesText(weights map[string]int) listing {
	var texts listing
	for name, weight := range weights {
		texts = append(texts, fmt.Sprintf("%s=%d", name, weight))
	}
	slices.Sort(texts)
	return texts
}
