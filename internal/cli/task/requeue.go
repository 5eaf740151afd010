package task

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/bulkview"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/cli/taskview"
)

type requeueOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer

	IDs  []string
	To   string
	Many *bulkview.Options
}

func newRequeueCommand(f *command.Factory) *cobra.Command {
	opts := &requeueOptions{Client: f.Client, Printer: f.Printer, Many: bulkview.New(f)}
	cmd := &cobra.Command{
		Use: "requeue --to QUEUE ID... | --FILTER...", Short: "Move tasks that wait to another queue",
		Annotations: command.Asks(append(bulkview.Operations, "changeTask")...),
		Long: `requeue moves tasks that wait for a worker, or for their time, to another queue. One that runs or has ended is
refused.

All of the tasks are tried; the exit code is 1 if any was refused. A pipe gets a line for each: its id and state.

` + manyHelp,
		Example: `  dtsctl task requeue --to low import-1
  dtsctl task requeue --to low --queue default --type importer --dry-run
  dtsctl task requeue --to emergency --queue default --label tier=gold --yes`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if opts.To == "" {
				return command.Usagef("--to QUEUE is missing")
			}
			if err := opts.Many.CheckArgs(cmd, args); err != nil {
				return err
			}
			if opts.Many.ByFilter() {
				return opts.Many.Run(cmd.Context(), wire.BulkRequest{Action: wire.BulkActionRequeue, ToQueue: &opts.To})
			}
			opts.IDs = args
			return requeueRun(cmd.Context(), opts)
		},
	}
	cmd.Flags().StringVar(&opts.To, "to", "", "the queue to which they move")
	opts.Many.Bind(cmd)
	return cmd
}

func requeueRun(ctx context.Context, opts *requeueOptions) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	return command.ForEach(opts.Printer, opts.IDs, func(id string) error {
		params := &client.ChangeTaskParams{Namespace: c.Namespace}
		answer, err := rest.Read[wire.Task](c.ChangeTaskWithResponse(ctx, id, params, wire.TaskChange{Queue: &opts.To}))
		if err != nil {
			return err
		}
		return taskview.Show(opts.Printer, answer)
	})
}
