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
)

type forgetOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer

	IDs  []string
	Many *bulkview.Options
}

func newForgetCommand(f *command.Factory) *cobra.Command {
	opts := &forgetOptions{Client: f.Client, Printer: f.Printer, Many: bulkview.New(f)}
	cmd := &cobra.Command{
		Use: "forget ID... | --FILTER...", Short: "Delete tasks that have ended",
		Annotations: command.Asks(append(bulkview.Operations, "forgetTask")...),
		Long: `forget deletes tasks that have ended, with their attempts and logs, before their retention is over. The ids
stay taken for a while, as those of all tasks that were deleted. A task that has not ended is refused: cancel it first.

All of the tasks are tried; the exit code is 1 if any was refused. A pipe gets a line for each: its id.

` + manyHelp + `
--state is required.`,
		Example: `  dtsctl task forget import-1
  dtsctl task forget --state cancelled --since 2h --dry-run
  dtsctl task forget --state failed --type importer --yes`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := opts.Many.CheckArgs(cmd, args); err != nil {
				return err
			}
			if opts.Many.ByFilter() {
				return opts.Many.Run(cmd.Context(), wire.BulkRequest{Action: wire.BulkActionForget})
			}
			opts.IDs = args
			return forgetRun(cmd.Context(), opts)
		},
	}
	opts.Many.Bind(cmd)
	return cmd
}

func forgetRun(ctx context.Context, opts *forgetOptions) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	return command.ForEach(opts.Printer, opts.IDs, func(id string) error {
		params := &client.ForgetTaskParams{Namespace: c.Namespace}
		if _, err := rest.Read[struct{}](c.ForgetTaskWithResponse(ctx, id, params)); err != nil {
			return err
		}
		if opts.Printer.OutIsTerminal {
			return opts.Printer.Printf("%s is deleted\n", id)
		}
		return opts.Printer.Printf("%s\n", id)
	})
}
