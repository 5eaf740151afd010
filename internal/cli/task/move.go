package task

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/cli/taskview"
)

type moveOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer

	IDs []string
	To  string
}

func newMoveCommand(f *command.Factory) *cobra.Command {
	opts := &moveOptions{Client: f.Client, Printer: f.Printer}
	cmd := &cobra.Command{
		Use: "move ID...", Short: "Ask that running work moves to another worker",
		Args: command.IDs, Annotations: command.Asks("moveTask"),
		Long: `move asks the workers of running tasks to give them up. A handler that can go on elsewhere saves its
checkpoint, and its attempt ends as "moved", which does not count for max_attempts. The task is due again at once, and
the node of --to goes on from the checkpoint; without --to, any other node than before. If there is no such node, or
none has a free slot within 10 s, the task goes wherever it may run. A handler that does not give up just goes on.
"dtsctl task why" says what a task waits for, and "dtsctl task attempts" what became of it.

Tasks of dtsd's own types, such as shell and http, and runs of workflows cannot move.

All of the tasks are tried; the exit code is 1 if any was refused. A pipe gets a line for each: its id and state.`,
		Example: `  dtsctl task move train-7
  dtsctl task move train-7 --to gpu-2`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.IDs = args
			return moveRun(cmd.Context(), opts)
		},
	}
	cmd.Flags().StringVar(&opts.To, "to", "", "name or id of the `node` that is to go on")
	return cmd
}

func moveRun(ctx context.Context, opts *moveOptions) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	return command.ForEach(opts.Printer, opts.IDs, func(id string) error {
		params := &client.MoveTaskParams{Namespace: c.Namespace}
		answer, err := rest.Read[wire.Task](c.MoveTaskWithResponse(ctx, id, params, wire.TaskMove{To: wire.Given(opts.To)}))
		if err != nil {
			return err
		}
		return taskview.Show(opts.Printer, answer)
	})
}
