package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
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
		Long: `drain cordons a node, as "dtsctl node cordon" does, and waits until no task runs there. Then you can stop the
node without interrupting a task. The exit code is 0 if the node runs nothing. It is 1 if the timeout passes
first, or if the cordon ends first. After a timeout, the node stays cordoned. If the server goes away in the
meantime, drain keeps trying.

` + whichNodes + `

The output in a pipe has the columns of "dtsctl node list", for the nodes that have this id or name.`,
		Example: `  dtsctl node drain vm-b7x2 --note 'a new kernel' --timeout 10m && ssh vm-b7x2 reboot`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if opts.Timeout < 0 {
				return command.Usagef("--timeout: %s is negative", opts.Timeout)
			}
			opts.Node = args[0]
			return drainRun(cmd.Context(), opts)
		},
	}
	opts.register(cmd)
	cmd.Flags().DurationVar(&opts.Timeout, "timeout", 0, "how long to wait at most (default: no limit)")
	return cmd
}

// drainPause is between two looks at what runs. A node tells it with its heartbeats.
const drainPause = time.Second

// errTimeout is the cause of the end of the context when a node runs tasks for longer than the timeout.
var errTimeout = errors.New("the timeout of the drain has passed")

func drainRun(ctx context.Context, opts *drainOptions) error {
	if opts.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, opts.Timeout, errTimeout)
		defer cancel()
	}
	c, err := opts.Client()
	if err != nil {
		return err
	}
	answer, err := opts.cordon(ctx, c)
	if err != nil {
		return err
	}
	opts.Printer.Warn(answer.Value.Warnings)
	d := drain{drainOptions: opts, client: c, nodes: answer.Value.Nodes, shown: -1}
	if err := d.await(ctx); err != nil {
		if !errors.Is(context.Cause(ctx), errTimeout) {
			return err
		}
		opts.Printer.Errorf("%s is not drained within %s: %s. It stays cordoned", opts.Node, opts.Timeout, d.runs())
		return command.ErrReported
	}
	return d.show()
}

// drain waits until nodes run nothing.
type drain struct {
	*drainOptions

	client  *rest.Client
	nodes   []wire.Node // with that id or name, as they were seen last
	since   time.Time   // when the cordon began
	running int         // that run there; below 0: nobody knows yet
	shown   int         // that the user was told
	silent  bool        // the user was told that the server does not answer
}

// await returns when no task runs on the nodes. Errors: those of Read that are final, that of ctx, and one if a node is
// not cordoned any more.
func (d *drain) await(ctx context.Context) error {
	for _, n := range d.nodes {
		if n.Cordon != nil && n.Cordon.Since.After(d.since) {
			d.since = n.Cordon.Since.Time
		}
	}
	for {
		if err := d.count(); err != nil || d.running == 0 {
			return err
		}
		if d.running > 0 && d.running != d.shown {
			d.Printer.Notef("waiting for %s: %s", d.Node, d.runs())
			d.shown = d.running
		}
		if err := clock.Sleep(ctx, drainPause); err != nil {
			return err
		}
		if err := d.look(ctx); err != nil {
			return err
		}
	}
}

// look reads the nodes again. A server that does not answer changes nothing.
func (d *drain) look(ctx context.Context) error {
	answer, err := rest.Read[wire.NodeList](d.client.ListNodesWithResponse(ctx))
	switch {
	case err == nil:
		d.nodes, d.silent = nil, false
		for _, n := range answer.Value.Nodes {
			if n.ID == d.Node || n.Name != nil && *n.Name == d.Node {
				d.nodes = append(d.nodes, n)
			}
		}
		return nil
	case ctx.Err() != nil || rest.IsFinal(err):
		return err
	case !d.silent:
		d.silent = true
		d.Printer.Notef("waiting for %s: the API does not answer, trying again (%v)", d.Node, err)
	}
	return nil
}

// count counts what runs on the nodes. A heartbeat from before the cordon, or from the moment after it, does not tell
// what they have begun since. A dead node runs nothing. Error: somebody has ended the cordon, or its time is over.
func (d *drain) count() error {
	d.running = 0
	known := true
	for _, n := range d.nodes {
		switch {
		case n.State == wire.Dead:
		case n.Cordon == nil:
			return fmt.Errorf("%s is not cordoned any more, so it takes tasks: drain it again", n.ID)
		case n.LastBeat.Before(d.since.Add(drainPause)):
			known = false
		default:
			d.running += n.Running
		}
	}
	if d.running == 0 && !known {
		d.running = -1
	}
	return nil
}

// runs says what still runs.
func (d *drain) runs() string {
	switch {
	case d.running < 0:
		return "no heartbeat has told yet what runs there"
	case d.running == 1:
		return "1 task runs"
	}
	return fmt.Sprintf("%d tasks run", d.running)
}

// show prints the nodes that run nothing.
func (d *drain) show() error {
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
