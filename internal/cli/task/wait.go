package task

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/cli/taskview"
)

type waitOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer

	ID      string
	Timeout time.Duration
}

func newWaitCommand(f *command.Factory) *cobra.Command {
	opts := &waitOptions{Client: f.Client, Printer: f.Printer}
	cmd := &cobra.Command{
		Use: "wait ID", Short: "Wait until a task has ended", Args: command.ExactArgs("ID"),
		Annotations: command.Asks("getTask", "followEvents"),
		Long: `wait waits until the task has ended, and prints how. The exit code is 0 if it succeeded, else 1; it is also 1 if the
timeout passes first. A terminal is shown the task's progress. If the server goes away in the meantime, wait keeps trying.
It says on standard error that the server does not answer, and why a task that is due does not begin, as far as the
server knows.`,
		Example: `  dtsctl task wait nightly
  dtsctl task wait nightly --timeout 10m && echo done`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if opts.Timeout < 0 {
				return command.Usagef("--timeout: %s is negative", opts.Timeout)
			}
			opts.ID = args[0]
			return waitRun(cmd.Context(), opts)
		},
	}
	cmd.Flags().DurationVar(&opts.Timeout, "timeout", 0, "how long to wait at most (default: no limit)")
	return cmd
}

func waitRun(ctx context.Context, opts *waitOptions) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	return taskview.Wait(ctx, taskview.WaitOptions{Client: c, Printer: opts.Printer, ID: opts.ID, Timeout: opts.Timeout})
}
