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
}

func newMoveCommand(f *command.Factory) *cobra.Command {
	opts := &moveOptions{Client: f.Client, Printer: f.Printer}
	return &cobra.Command{
		Use: "move ID...", Short: "Ask that running work moves to another worker",
		Args: command.IDs, Annotations: command.Asks("moveTask"),
		Long: `move asks the workers of running tasks to give them up. A handler that can go on elsewhere saves its
checkpoint, and its attempt ends as "moved", which does not count for max_attempts. The task is due again at once, and
whichever worker takes it goes on from the checkpoint: that may be the same one, unless its node is cordoned. A handler
that does not give up just goes on. "dtsctl task attempts" shows what became of it.

Tasks of dtsd's own types, such as shell and http, and runs of workflows cannot move.

All of the tasks are tried; the exit code is 1 if any was refused. A pipe gets a line for each: its id and state.`,
		Example: `  dtsctl task move train-7`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.IDs = args
			return moveRun(cmd.Context(), opts)
		},
	}
}

func moveRun(ctx context.Context, opts *moveOptions) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	return command.ForEach(opts.Printer, opts.IDs, func(id string) error {
		params := &client.MoveTaskParams{Namespace: c.Namespace}
		answer, err := rest.Read[wire.Task](c.MoveTaskWithResponse(ctx, id, params))
		if err != nil {
			return err
		}
		return taskview.Show(opts.Printer, answer)
	})
}
