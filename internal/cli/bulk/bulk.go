// Package bulk is the commands of "dtsctl bulk".
package bulk

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

type options struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer
}

// NewCommand returns "dtsctl bulk".
func NewCommand(f *command.Factory) *cobra.Command {
	opts := &options{Client: f.Client, Printer: f.Printer}
	cmd := &cobra.Command{
		Use: "bulk", Short: "Follow and stop bulk actions",
		Long: `A bulk action does something with all tasks that match a filter. task retry, task cancel, task forget and task
requeue start one when they get a filter in place of ids. It goes on in the nodes when dtsctl has ended.

The columns are: id, action, state, total, changed, skipped, failed, started, ended, by, error. Total is how many tasks
matched at the start. Skipped are those that no longer matched.`,
		Example: `  dtsctl bulk list
  dtsctl bulk stop 01JDPKF0QRB1V7DZCC9YB3HQ4D`,
	}
	cmd.AddCommand(newListCommand(opts), newGetCommand(opts), newStopCommand(opts))
	return command.Group(cmd)
}

func newListCommand(opts *options) *cobra.Command {
	all := false
	cmd := &cobra.Command{
		Use: "list", Short: "List the newest bulk actions", Args: command.ExactArgs(),
		Annotations: command.Asks("listBulks"),
		Long:        "list lists the newest 100 bulk actions, the newest first.",
		Example:     "  dtsctl bulk list -A",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := opts.Client()
			if err != nil {
				return err
			}
			params := &client.ListBulksParams{Namespace: c.Namespace}
			if all {
				params.Namespace = new("*")
			}
			answer, err := rest.Read[wire.BulkList](c.ListBulksWithResponse(cmd.Context(), params))
			if err != nil {
				return err
			}
			opts.Printer.Warn(answer.Value.Warnings)
			return opts.Printer.Show(answer.Raw, func() error {
				return printer.PrintTable(opts.Printer, bulkview.Columns, answer.Value.Bulks)
			})
		},
	}
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "those of all namespaces, as -n '*'")
	return cmd
}

func newGetCommand(opts *options) *cobra.Command {
	return &cobra.Command{
		Use: "get ID", Short: "Show how far a bulk action is", Args: command.ExactArgs("ID"),
		Annotations: command.Asks("getBulk"),
		Long:        "get shows how far a bulk action is, and what became of the tasks.",
		Example:     "  dtsctl bulk get 01JDPKF0QRB1V7DZCC9YB3HQ4D",
		RunE: func(cmd *cobra.Command, args []string) error {
			return opts.show(cmd.Context(), func(ctx context.Context, c *rest.Client) (rest.Answer[wire.Bulk], error) {
				return rest.Read[wire.Bulk](c.GetBulkWithResponse(ctx, args[0]))
			})
		},
	}
}

func newStopCommand(opts *options) *cobra.Command {
	return &cobra.Command{
		Use: "stop ID", Short: "Stop a bulk action", Args: command.ExactArgs("ID"),
		Annotations: command.Asks("stopBulk"),
		Long: `stop ends a bulk action after the tasks that are under way. What was done stays done. A bulk action that has
ended does not change.`,
		Example: "  dtsctl bulk stop 01JDPKF0QRB1V7DZCC9YB3HQ4D",
		RunE: func(cmd *cobra.Command, args []string) error {
			return opts.show(cmd.Context(), func(ctx context.Context, c *rest.Client) (rest.Answer[wire.Bulk], error) {
				return rest.Read[wire.Bulk](c.StopBulkWithResponse(ctx, args[0]))
			})
		},
	}
}

func (o *options) show(
	ctx context.Context, ask func(context.Context, *rest.Client) (rest.Answer[wire.Bulk], error),
) error {
	c, err := o.Client()
	if err != nil {
		return err
	}
	answer, err := ask(ctx, c)
	if err != nil {
		return err
	}
	return bulkview.Show(o.Printer, answer)
}
