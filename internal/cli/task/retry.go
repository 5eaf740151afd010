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

type retryOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer

	IDs []string
}

func newRetryCommand(f *command.Factory) *cobra.Command {
	opts := &retryOptions{Client: f.Client, Printer: f.Printer}
	return &cobra.Command{
		Use: "retry ID...", Short: "Run ended tasks again", Args: command.IDs,
		Annotations: command.Asks("retryTask"),
		Long: `retry runs tasks again that have ended, successfully or not: they become due now. The numbers of a task's attempts
go on, and it gets as many more attempts as it had at first.

All of the tasks are tried; the exit code is 1 if any was refused. A pipe gets a line for each: its id and state.`,
		Example: `  dtsctl task retry nightly
  dtsctl task list --state failed --all | cut -f 1 | xargs dtsctl task retry`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.IDs = args
			return retryRun(cmd.Context(), opts)
		},
	}
}

func retryRun(ctx context.Context, opts *retryOptions) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	return command.ForEach(opts.Printer, opts.IDs, func(id string) error {
		params := &client.RetryTaskParams{Namespace: c.Namespace}
		answer, err := rest.Read[wire.Task](c.RetryTaskWithResponse(ctx, id, params))
		if err != nil {
			return err
		}
		return taskview.Show(opts.Printer, answer)
	})
}
