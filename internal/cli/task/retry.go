package task

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/bulkview"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/flags"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/cli/taskview"
)

type retryOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer

	IDs    []string
	Many   *bulkview.Options
	Spread *time.Duration
}

func newRetryCommand(f *command.Factory) *cobra.Command {
	opts := &retryOptions{Client: f.Client, Printer: f.Printer, Many: bulkview.New(f)}
	cmd := &cobra.Command{
		Use: "retry ID... | --FILTER...", Short: "Run ended tasks again",
		Annotations: command.Asks(append(bulkview.Operations, "retryTask")...),
		Long: `retry runs tasks again that have ended, successfully or not: they become due now. The numbers of a task's attempts
go on, and it gets as many more attempts as it had at first.

All of the tasks are tried; the exit code is 1 if any was refused. A pipe gets a line for each: its id and state.

` + manyHelp + `
By default, it retries failed tasks.`,
		Example: `  dtsctl task retry nightly
  dtsctl task retry --state failed --since 2h --error "order # not found" --dry-run
  dtsctl task retry --state failed --since "2026-01-02 02:00" --until "2026-01-02 03:00" --spread 10m --yes`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := opts.Many.CheckArgs(cmd, args, "spread"); err != nil {
				return err
			}
			if err := flags.CheckDurations(cmd.Flags()); err != nil {
				return err
			}
			if opts.Many.ByFilter() {
				request := wire.BulkRequest{Action: wire.BulkActionRetry, Spread: flags.DurationText(opts.Spread)}
				return opts.Many.Run(cmd.Context(), request)
			}
			opts.IDs = args
			return retryRun(cmd.Context(), opts)
		},
	}
	opts.Many.Bind(cmd)
	flags.Duration(cmd.Flags(), &opts.Spread, "spread", "with a filter: over which time the tasks become due")
	return cmd
}

// manyHelp is the help on commands that get a filter in place of ids.
const manyHelp = `With a filter in place of ids, it concerns all tasks that match now. It says how many these are, shows ten of them,
and asks; --yes answers, and --dry-run does nothing. The nodes do it in pieces, so that due tasks are not late, and go
on if dtsctl ends: see dtsctl bulk. The exit code is 1 unless it was done with all of them.`

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
