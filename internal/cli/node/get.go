package node

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/printer"
)

type getOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer

	Node string
}

func newGetCommand(f *command.Factory) *cobra.Command {
	opts := &getOptions{Client: f.Client, Printer: f.Printer}
	return &cobra.Command{
		Use: "get NODE", Short: "Show a node, and what became of the attempts that it has lost",
		Args: command.ExactArgs("NODE"), Annotations: command.Asks("getNode"),
		Long: `get shows a node, also one that has died, and the attempts of it that a leader has ended as lost, the newest
first: which task, when, and where that task runs now.

NODE is the id of a node, or a name that one node has. Of several nodes of a name, the one that lives is meant.

The columns of the lost attempts are: task, namespace, attempt, lost, state, node. State and node are those of the task
now; they are left out if it was deleted since. A pipe gets the name and the value of each detail of the node, and then
a line for each lost attempt, with lost_attempt before these columns.`,
		Example: `  dtsctl node get vm-b7x2
  dtsctl node get vm-b7x2 -o json | jq '.lost | length'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Node = args[0]
			return getRun(cmd.Context(), opts)
		},
	}
}

func getRun(ctx context.Context, opts *getOptions) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	answer, err := rest.Read[wire.NodeDetail](c.GetNodeWithResponse(ctx, opts.Node))
	if err != nil {
		return err
	}
	p, d := opts.Printer, answer.Value
	p.Warn(d.Warnings)
	return p.Show(answer.Raw, func() error {
		if err := showNode(p, d); err != nil {
			return err
		}
		if !p.OutIsTerminal {
			mark := printer.Column[wire.LostAttempt]{Name: "", Value: func(wire.LostAttempt) any { return "lost_attempt" }}
			return printer.PrintTable(p, append([]printer.Column[wire.LostAttempt]{mark}, lostColumns...), d.Lost)
		}
		if len(d.Lost) == 0 {
			return p.Printf("\nNo leader has ended an attempt of it as lost lately.\n")
		}
		if err := p.Printf("\n%s of it ended as lost:\n\n", printer.Counted(len(d.Lost), "attempt")); err != nil {
			return err
		}
		return printer.PrintTable(p, lostColumns, d.Lost)
	})
}

// showNode shows what a node says of itself.
func showNode(p *printer.Printer, d wire.NodeDetail) error {
	if d.Node == nil && !p.OutIsTerminal {
		return p.PrintDetails([]printer.Detail{{Name: "id", Value: d.ID}})
	}
	if d.Node == nil {
		return p.Printf("The node %s is on the list of nodes no more: it has stopped, or died more than an hour ago.\n", d.ID)
	}
	var details []printer.Detail
	for _, column := range listColumns {
		details = append(details, printer.Detail{Name: column.Name, Value: column.Value(*d.Node)})
	}
	if c := d.Node.Cordon; c != nil {
		details = append(details,
			printer.Detail{Name: "cordoned", Value: c.Since}, printer.Detail{Name: "cordoned_until", Value: c.Until},
			printer.Detail{Name: "cordoned_by", Value: c.By}, printer.Detail{Name: "cordoned_as", Value: c.Of},
			printer.Detail{Name: "note", Value: c.Note})
	}
	details = append(details, machineDetails(p, d.Node.Machine)...)
	details = append(details,
		printer.Detail{Name: "address", Value: printer.Deref(d.Node.Address)}, printer.Detail{Name: "pid", Value: d.Node.Pid})
	return p.PrintDetails(details)
}

// machineDetails are what a node tells of its machine beside the columns of the list.
func machineDetails(p *printer.Printer, m *wire.Machine) []printer.Detail {
	if m == nil {
		return nil
	}
	return []printer.Detail{
		{Name: "machine_memory_used", Value: space(p, m.Memory)}, {Name: "machine_disk_used", Value: space(p, m.Disk)},
		{Name: "machine_load", Value: load(m.Load)}, {Name: "machine_network", Value: traffic(p, m.Network)},
	}
}

// space is "" if it is not known.
func space(p *printer.Printer, s *wire.MachineSpace) string {
	if s == nil {
		return ""
	}
	return p.Text(printer.Bytes(s.Used)) + " of " + p.Text(printer.Bytes(s.Total))
}

// load is "" if it is not known.
func load(l *float64) string {
	if l == nil {
		return ""
	}
	return strconv.FormatFloat(*l, 'f', 2, 64)
}

// traffic is "" if it is not known.
func traffic(p *printer.Printer, t *wire.MachineTraffic) string {
	if t == nil {
		return ""
	}
	received, sent := p.Text(printer.Bytes(t.Received)), p.Text(printer.Bytes(t.Sent))
	return fmt.Sprintf("%s received and %s sent a second", received, sent)
}

var lostColumns = []printer.Column[wire.LostAttempt]{
	{Name: "task", Value: func(l wire.LostAttempt) any { return l.Task }},
	{Name: "namespace", Value: func(l wire.LostAttempt) any { return l.Namespace }},
	{Name: "attempt", Value: func(l wire.LostAttempt) any { return l.Attempt }},
	{Name: "lost", Value: func(l wire.LostAttempt) any { return l.LostAt }},
	{Name: "state", Value: func(l wire.LostAttempt) any { return printer.Status(printer.Deref(l.State)) }},
	{Name: "node", Value: func(l wire.LostAttempt) any { return l.Node }},
}
