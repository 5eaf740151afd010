package node

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/flags"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/config"
)

type listOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer

	Select *string
}

func newListCommand(f *command.Factory) *cobra.Command {
	opts := &listOptions{Client: f.Client, Printer: f.Printer}
	cmd := &cobra.Command{
		Use: "list", Short: "List the nodes", Args: command.ExactArgs(),
		Annotations: command.Asks("listNodes"),
		Long: `list lists the nodes that are alive or have died recently. The state of a living node that is cordoned is
cordoned: its workers take no tasks. "dtsctl node get" says since when and why.

The columns in a pipe are: id, state, host, ip, version, roles, running, capacity, partitions, queues, cpu, memory,
started, beat, via, name, labels, machine_cpu, machine_memory, tasks.
Running is how many of its slots are taken, capacity how many it has; partitions are those it leads, queues those it
serves, with their weights; cpu is the share of the machine's processors that its process uses, memory what the process
holds, beat its last heartbeat, via the node that a worker by HTTP talks to; name and labels are those that it was
given; machine_cpu and machine_memory are the shares in use of its machine, by all that runs there; tasks is how many
tasks it has that run, or whose end Redis has not taken yet. A task holds one slot, or several.

A terminal gets what fits it: id, state, version, roles, running, leads, queues, cpu, memory, beat and, if a node has
some, labels. There, all are the roles scheduler, worker and api; running is how many of its slots are
taken, or how many tasks are left if the node drains; leads is how many partitions it leads. Cpu and memory are the
shares that its process has of the machine and, in parentheses, those in use by all that runs there. "dtsctl node get"
has the rest, and more of the machine.`,
		Example: `  dtsctl node list
  dtsctl node list -l 'zone in (eu,us),gpu'`,
		RunE: func(cmd *cobra.Command, _ []string) error { return listRun(cmd.Context(), opts) },
	}
	flags.StringP(cmd.Flags(), &opts.Select, "select", "l", "only nodes that match, as 'zone in (eu,us),gpu,mem>=16'")
	return cmd
}

func listRun(ctx context.Context, opts *listOptions) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	answer, err := rest.Read[wire.NodeList](c.ListNodesWithResponse(ctx, &client.ListNodesParams{Select: opts.Select}))
	if err != nil {
		return err
	}
	opts.Printer.Warn(answer.Value.Warnings)
	return opts.Printer.Show(answer.Raw, func() error {
		columns := listColumns
		if opts.Printer.OutIsTerminal {
			columns = terminalColumns(opts.Printer, answer.Value.Nodes)
		}
		return printer.PrintTable(opts.Printer, columns, answer.Value.Nodes)
	})
}

type column = printer.Column[wire.Node]

var (
	idColumn      = column{Name: "id", Value: func(n wire.Node) any { return n.ID }}
	stateColumn   = column{Name: "state", Value: stateOf}
	versionColumn = column{Name: "version", Value: func(n wire.Node) any { return n.Version }}
	labelsColumn  = column{Name: "labels", Value: func(n wire.Node) any { return labelList(n.Labels) }}
	beatColumn    = column{Name: "beat", Value: func(n wire.Node) any { return n.LastBeat }}
)

var listColumns = []column{
	idColumn,
	stateColumn,
	{Name: "host", Value: func(n wire.Node) any { return n.Host }},
	{Name: "ip", Value: func(n wire.Node) any { return n.IP }},
	versionColumn,
	{Name: "roles", Value: func(n wire.Node) any { return printer.List(n.Roles) }},
	{Name: "running", Value: func(n wire.Node) any { return n.Running }},
	{Name: "capacity", Value: func(n wire.Node) any { return n.Capacity }},
	{Name: "partitions", Value: func(n wire.Node) any { return printer.Numbers(n.Partitions) }},
	{Name: "queues", Value: func(n wire.Node) any { return queueList(n.Queues) }},
	{Name: "cpu", Value: func(n wire.Node) any { return printer.Share(n.CPU) }},
	{Name: "memory", Value: func(n wire.Node) any { return printer.Bytes(n.Memory) }},
	{Name: "started", Value: func(n wire.Node) any { return n.StartedAt }},
	beatColumn,
	{Name: "via", Value: func(n wire.Node) any { return n.Via }},
	{Name: "name", Value: func(n wire.Node) any { return n.Name }},
	labelsColumn,
	{Name: "machine_cpu", Value: func(n wire.Node) any { return machineCPU(n.Machine) }},
	{Name: "machine_memory", Value: func(n wire.Node) any { return machineMemory(n.Machine) }},
	{Name: "tasks", Value: func(n wire.Node) any { return wire.TasksOf(n) }},
}

// stateOf is the state of a node; cordoned if it lives and takes no tasks.
func stateOf(n wire.Node) any {
	if n.Cordon != nil && n.State == wire.Alive {
		return printer.Status("cordoned")
	}
	return printer.Status(n.State)
}

// terminalColumns are those that fit a terminal. Labels are among them if there are any.
func terminalColumns(p *printer.Printer, nodes []wire.Node) []column {
	columns := []column{
		idColumn,
		stateColumn,
		versionColumn,
		{Name: "roles", Value: rolesOf},
		{Name: "running", Value: runningOf},
		{Name: "leads", Value: leadsOf},
		{Name: "queues", Value: queueNames, Gives: true},
		{Name: "cpu", Value: func(n wire.Node) any { return shares(p, processCPU(n), machineCPU(n.Machine)) }},
		{Name: "memory", Value: func(n wire.Node) any { return shares(p, processMemory(n), machineMemory(n.Machine)) }},
		beatColumn,
	}
	if slices.ContainsFunc(nodes, func(n wire.Node) bool { return n.Labels != nil }) {
		labels := labelsColumn
		labels.Gives = true
		columns = append(columns, labels)
	}
	return columns
}

// rolesOf are the roles of a node, in short.
func rolesOf(n wire.Node) any {
	switch {
	case n.Via != nil:
		return "HTTP worker"
	case len(n.Roles) == len([]string{config.RoleScheduler, config.RoleWorker, config.RoleAPI}):
		return "all"
	}
	return printer.List(n.Roles)
}

// runningOf is how many of its slots a node uses, or how many tasks are left if it drains; "" if it runs no tasks.
func runningOf(n wire.Node) any {
	drains := n.State == wire.Draining || n.Cordon != nil && n.State == wire.Alive && wire.Value(n.Cordon.Drain)
	switch {
	case !slices.Contains(n.Roles, config.RoleWorker):
		return ""
	case drains:
		return fmt.Sprintf("%d left", wire.TasksOf(n))
	}
	return fmt.Sprintf("%d of %d", n.Running, n.Capacity)
}

// leadsOf is how many partitions a node leads; "" if it is none that leads.
func leadsOf(n wire.Node) any {
	if !slices.Contains(n.Roles, config.RoleScheduler) {
		return ""
	}
	return len(n.Partitions)
}

func queueNames(n wire.Node) any { return printer.List(slices.Sorted(maps.Keys(n.Queues))) }

// shares are that of the process and, in parentheses, that of its machine; what is nil is not known, and left out.
func shares(p *printer.Printer, process, machine any) string {
	text := p.Text(process)
	if machine != nil {
		text += " (" + p.Text(machine) + ")"
	}
	return strings.TrimSpace(text)
}

// processCPU is nil of workers by HTTP, which do not say.
func processCPU(n wire.Node) any {
	if n.Via != nil {
		return nil
	}
	return printer.Share(n.CPU)
}

// processMemory is the share of the memory of its machine that a process holds, or the bytes if that is not known. It
// is nil of workers by HTTP, which do not say.
func processMemory(n wire.Node) any {
	switch {
	case n.Via != nil:
		return nil
	case machineMemory(n.Machine) == nil:
		return printer.Bytes(n.Memory)
	}
	return printer.Share(float64(n.Memory) / float64(n.Machine.Memory.Total))
}

// labelList has the labels as --labels of dtsd takes them.
func labelList(labels *wire.NodeLabels) printer.List {
	var texts printer.List
	for name, value := range wire.Value(labels) {
		if value != "" {
			name += "=" + value
		}
		texts = append(texts, name)
	}
	slices.Sort(texts)
	return texts
}

// machineCPU is nil if it is not known.
func machineCPU(m *wire.Machine) any {
	if m == nil || m.CPU == nil {
		return nil
	}
	return printer.Share(*m.CPU)
}

// machineMemory is nil if it is not known.
func machineMemory(m *wire.Machine) any {
	if m == nil || m.Memory == nil || m.Memory.Total == 0 {
		return nil
	}
	share := float64(m.Memory.Used) / float64(m.Memory.Total)
	return printer.Share(math.Round(share*1000) / 1000)
}

func queueList(weights map[string]int) printer.List {
	var texts printer.List
	for name, weight := range weights {
		texts = append(texts, fmt.Sprintf("%s=%d", name, weight))
	}
	slices.Sort(texts)
	return texts
}
