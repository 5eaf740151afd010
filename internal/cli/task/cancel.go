package task

import (
	"context"

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

type cancelOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer

	IDs  []string
	Many *bulkview.Options
	Note *string
}

func newCancelCommand(f *command.Factory) *cobra.Command {
	opts := &cancelOptions{Client: f.Client, Printer: f.Printer, Many: bulkview.New(f)}
	cmd := &cobra.Command{
		Use: "cancel ID... | --FILTER...", Short: "Cancel tasks",
		Annotations: command.Asks(append(bulkview.Operations, "cancelTask")...),
		Long: `cancel cancels tasks. One that waits, for its first attempt or another one, is cancelled at once. A running
one is asked to stop: its state becomes "cancelled" when it has stopped; "dtsctl task wait" waits for that. Cancelling a
cancelled task changes nothing. The error of the task then says who cancelled it, and the note.

All of the tasks are tried; the exit code is 1 if any was refused. A pipe gets a line for each: its id and state.

` + manyHelp + `
By default, it cancels those that are scheduled or queued; --state running stops others.`,
		Example: `  dtsctl task cancel nightly --note 'the customer withdrew it'
  dtsctl task cancel --queue reports --dry-run
  dtsctl task cancel --label customer=4711 --note 'the customer left' --yes`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := opts.Many.CheckArgs(cmd, args); err != nil {
				return err
			}
			if opts.Many.ByFilter() {
				return opts.Many.Run(cmd.Context(), wire.BulkRequest{Action: wire.BulkActionCancel, Note: opts.Note})
			}
			opts.IDs = args
			return cancelRun(cmd.Context(), opts)
		},
	}
	opts.Many.Bind(cmd)
	flags.String(cmd.Flags(), &opts.Note, "note", "why they are cancelled")
	return cmd
}

func cancelRun(ctx context.Context, opts *cancelOptions) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	return command.ForEach(opts.Printer, opts.IDs, func(id string) error {
		params := &client.CancelTaskParams{Namespace: c.Namespace, Note: opts.Note}
		answer, err := rest.Read[wire.Task](c.CancelTaskWithResponse(ctx, id, params))
		if err != nil {
			return err
		}
		return taskview.Show(opts.Printer, answer)
	})
}
