package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/clock"
)

type drainOptions struct {
	cordonOptions

	Timeout time.Duration
}

func newDrainCommand(f *command.Factory) *cobra.Command {
	opts := &drainOptions{cordonOptions: cordonOptions{Client: f.Client, Printer: f.Printer}}
	cmd := &cobra.Command{
		Use: "drain NODE", Short: "Cordon a node, and wait until it runs nothing",
		Args: command.ExactArgs("NODE"), Annotations: command.Asks("cordonNode", "listNodes"),
		Long: `drain cordons a node, as "dtsctl node cordon" does, asks what runs there to move to other workers, as "dtsctl
task move" does, and waits until the node has confirmed the cordon, and has nothing left: no task runs there, and Redis
has the end of each. What cannot move goes on until its end. Then you can stop the node without interrupting a task.
It stays cordoned: end that with "dtsctl node uncordon", also after a restart if NODE is a name.

The exit code is 0 if the node has nothing left, or has left. It is 1 if the timeout passes first, if the cordon ends
first, or if the node dies, as what it ran may still run. A node of a release without cordons never confirms one. If the
server goes away in the meantime, drain keeps trying.

` + whichNodes + `

The output in a pipe has the columns of "dtsctl node list", for the nodes that have this id or name.`,
		Example: `  dtsctl node drain vm-b7x2 --note 'a new kernel' --timeout 10m && ssh vm-b7x2 reboot`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if opts.Timeout < 0 {
				return command.Usagef("--timeout: %s is negative", opts.Timeout)
			}
			opts.Node, opts.Drain = args[0], new(true)
			return drainRun(cmd.Context(), opts)
		},
	}
	opts.register(cmd)
	cmd.Flags().DurationVar(&opts.Timeout, "timeout", 0, "how long to wait at most (default: no limit)")
	return cmd
}

const (
	drainPause    = time.Second // between two looks at what runs. A node tells it with its heartbeats
	confirmedSoon = 3           // after so many looks, the user is told that a node has not confirmed the cordon
)

// errTimeout is the cause of the end of the context when a node runs tasks for longer than the timeout.
var errTimeout = errors.New("the timeout of the drain has passed")

func drainRun(ctx context.Context, opts *drainOptions) error {
	c, answer, err := opts.cordon(ctx)
	if err != nil {
		return err
	}
	if opts.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, opts.Timeout, errTimeout)
		defer cancel()
	}
	d := drain{drainOptions: opts, client: c, nodes: answer.Value.Nodes, alive: map[string]bool{}}
	if err := d.await(ctx); err != nil {
		if !errors.Is(context.Cause(ctx), errTimeout) {
			return err
		}
		opts.Printer.Errorf("%s is not drained within %s: %s. It stays cordoned", opts.Node, opts.Timeout, d.waits)
		return command.ErrReported
	}
	return d.show()
}

// drain waits until nodes have nothing left.
type drain struct {
	*drainOptions

	client *rest.Client
	nodes  []wire.Node     // with that id or name, as they were seen last
	alive  map[string]bool // the ids of those that were seen alive

	tasks  int    // that the nodes have left, as far as they have confirmed the cordon
	waits  string // what it waits for; "" for nothing
	shown  string // what the user was told of that
	silent bool   // the user was told that the server does not answer
}

// await returns when the nodes have nothing left. Errors: those of Read that are final, that of ctx, and those of
// count.
func (d *drain) await(ctx context.Context) error {
	for looks := 0; ; looks++ {
		if err := d.count(); err != nil || d.waits == "" {
			return err
		}
		if d.waits != d.shown && (d.tasks > 0 || looks > confirmedSoon) {
			d.Printer.Notef("waiting for %s: %s", d.Node, d.waits)
			d.shown = d.waits
		}
		if err := clock.Sleep(ctx, drainPause); err != nil {
			return err
		}
		if err := d.look(ctx); err != nil {
			return err
		}
	}
}

// look reads the nodes again. An answer that lacks something, and a server that does not answer, change nothing.
func (d *drain) look(ctx context.Context) error {
	answer, err := rest.Read[wire.NodeList](d.client.ListNodesWithResponse(ctx, nil))
	switch {
	case err == nil && len(answer.Value.Warnings) == 0:
		d.nodes, d.silent = nil, false
		for _, n := range answer.Value.Nodes {
			if n.ID == d.Node || n.Name != nil && *n.Name == d.Node {
				d.nodes = append(d.nodes, n)
			}
		}
		return nil
	case err == nil:
		d.Printer.Warn(answer.Value.Warnings)
		return nil
	case ctx.Err() != nil || rest.IsFinal(err):
		return err
	case !d.silent:
		d.silent = true
		d.Printer.Notef("waiting for %s: the API does not answer, trying again (%v)", d.Node, err)
	}
	return nil
}

// count notes what it waits for. Errors: a node that was alive is dead; somebody has ended the cordon, or its time is
// over.
func (d *drain) count() error {
	d.tasks = 0
	unconfirmed := ""
	for _, n := range d.nodes {
		switch {
		case n.State == wire.Dead && d.alive[n.ID]:
			return fmt.Errorf("%s counts as dead: what it ran may still run (dtsctl node get %s)", n.ID, n.ID)
		case n.State == wire.Dead: // another process has its name
		case n.Cordon == nil:
			return fmt.Errorf("%s is not cordoned any more, so it takes tasks: drain it again", n.ID)
		case !n.Cordon.Obeyed:
			unconfirmed, d.alive[n.ID] = n.ID, true
		default:
			d.tasks += wire.TasksOf(n)
			d.alive[n.ID] = true
		}
	}
	switch {
	case len(d.alive) == 0 && len(d.nodes) > 0:
		return fmt.Errorf("%s counts as dead: what it ran may still run (dtsctl node get %s)", d.Node, d.nodes[0].ID)
	case d.tasks > 0:
		d.waits = printer.Counted(d.tasks, "task") + " left"
	case unconfirmed != "":
		d.waits = unconfirmed + " has not confirmed the cordon yet"
	default:
		d.waits = ""
	}
	return nil
}

// show prints the nodes that have nothing left.
func (d *drain) show() error {
	d.nodes = slices.DeleteFunc(d.nodes, func(n wire.Node) bool { return !d.alive[n.ID] })
	raw, err := json.Marshal(wire.NodeList{Nodes: append([]wire.Node{}, d.nodes...)})
	if err != nil {
		return err
	}
	return d.Printer.Show(raw, func() error {
		if d.Printer.OutIsTerminal && len(d.nodes) == 0 {
			return d.Printer.Printf("%s has left\n", d.Node)
		}
		return showChanged(d.Printer, d.nodes, func(n wire.Node) error {
			return d.Printer.Printf("%s is drained: it runs nothing\n", n.ID)
		})
	})
}
