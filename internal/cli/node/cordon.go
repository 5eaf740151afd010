package node

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/flags"
	"github.com/dts-sched/dts/internal/cli/printer"
)

type cordonOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer

	Node string
	Note *string
	For  *time.Duration

	Drain *bool // what runs is asked to move
}

// register adds the flags that say how a node is cordoned.
func (o *cordonOptions) register(cmd *cobra.Command) {
	flags.String(cmd.Flags(), &o.Note, "note", "why it is cordoned")
	flags.Duration(cmd.Flags(), &o.For, "for", "how long the cordon lasts, such as 1h (default: until uncordon)")
}

const whichNodes = `NODE is the id of a node, or the name of one or several nodes. A node has a new id after each start,
so the cordon of an id ends with the process. A name is that of --node-name, or the host: its cordon also holds
for nodes that start later. Workers by HTTP are nodes, too: their name is their id.`

func newCordonCommand(f *command.Factory) *cobra.Command {
	opts := &cordonOptions{Client: f.Client, Printer: f.Printer}
	cmd := &cobra.Command{
		Use: "cordon NODE", Short: "Keep the workers of a node from taking tasks",
		Args: command.ExactArgs("NODE"), Annotations: command.Asks("cordonNode"),
		Long: `cordon keeps the workers of a node from taking tasks, until uncordon, or for the given time. What runs there
goes on. Tasks that a worker has taken already may still begin, within about 50 ms: as many as it has slots, and
up to 64 more. The node goes on leading its partitions. A second cordon of the same id or name replaces the first, with
its note and its end: without --for, it lasts until uncordon. A warning says what that changes.

` + whichNodes + `

The output in a pipe has the columns of "dtsctl node list", for the nodes that have this id or name.`,
		Example: `  dtsctl node cordon vm-b7x2 --note 'a new kernel' --for 1h`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Node = args[0]
			return cordonRun(cmd.Context(), opts)
		},
	}
	opts.register(cmd)
	return cmd
}

func cordonRun(ctx context.Context, opts *cordonOptions) error {
	_, answer, err := opts.cordon(ctx)
	if err != nil {
		return err
	}
	return opts.Printer.Show(answer.Raw, func() error {
		return showChanged(opts.Printer, answer.Value.Nodes, func(n wire.Node) error {
			lasts := "until somebody uncordons it"
			if n.Cordon != nil && n.Cordon.Until != nil {
				lasts = "until " + n.Cordon.Until.UTC().Format(time.RFC3339)
			}
			return opts.Printer.Printf("%s is cordoned %s; it runs %s\n", n.ID, lasts, printer.Counted(wire.TasksOf(n), "task"))
		})
	})
}

// cordon cordons the node, and shows the warnings of the answer.
func (o *cordonOptions) cordon(ctx context.Context) (c *rest.Client, answer rest.Answer[wire.NodeList], err error) {
	if c, err = o.Client(); err != nil {
		return nil, answer, err
	}
	in := wire.NodeCordoning{Note: o.Note, For: flags.DurationText(o.For), Drain: o.Drain}
	answer, err = rest.Read[wire.NodeList](c.CordonNodeWithResponse(ctx, o.Node, in))
	if err == nil {
		o.Printer.Warn(answer.Value.Warnings)
	}
	return c, answer, err
}

// showChanged prints nodes that have changed: a table in a pipe, a sentence for each on a terminal.
func showChanged(p *printer.Printer, nodes []wire.Node, say func(wire.Node) error) error {
	if !p.OutIsTerminal {
		return printer.PrintTable(p, listColumns, nodes)
	}
	for _, n := range nodes {
		if err := say(n); err != nil {
			return err
		}
	}
	return nil
}

type uncordonOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer

	Node string
}

func newUncordonCommand(f *command.Factory) *cobra.Command {
	opts := &uncordonOptions{Client: f.Client, Printer: f.Printer}
	return &cobra.Command{
		Use: "uncordon NODE", Short: "Let the workers of a node take tasks again",
		Args: command.ExactArgs("NODE"), Annotations: command.Asks("uncordonNode"),
		Long: `uncordon ends the cordon of an id or a name. A node that was cordoned by both takes tasks when both cordons
have ended. Without such a cordon, the command changes nothing.

The output in a pipe has the columns of "dtsctl node list", for the nodes that have this id or name.`,
		Example: `  dtsctl node uncordon vm-b7x2`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Node = args[0]
			return uncordonRun(cmd.Context(), opts)
		},
	}
}

func uncordonRun(ctx context.Context, opts *uncordonOptions) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	answer, err := rest.Read[wire.NodeList](c.UncordonNodeWithResponse(ctx, opts.Node))
	if err != nil {
		return err
	}
	opts.Printer.Warn(answer.Value.Warnings)
	return opts.Printer.Show(answer.Raw, func() error {
		nodes := answer.Value.Nodes
		if opts.Printer.OutIsTerminal && len(nodes) == 0 {
			return opts.Printer.Printf("%s is not cordoned; no node has this id or name\n", opts.Node)
		}
		return showChanged(opts.Printer, nodes, func(n wire.Node) error {
			if n.Cordon != nil {
				return opts.Printer.Printf("%s is still cordoned by %s: dtsctl node uncordon %s\n", n.ID, n.Cordon.Of, n.Cordon.Of)
			}
			return opts.Printer.Printf("%s is not cordoned\n", n.ID)
		})
	})
}
