// Package namespace is the commands of "dtsctl namespace".
package namespace

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/printer"
)

// NewCommand returns "dtsctl namespace".
func NewCommand(f *command.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use: "namespace", Short: "Show the namespaces",
		Long:    `A namespace is a tenant: ids of tasks and schedules are unique within one. It exists once something is submitted to it.`,
		Example: `  dtsctl namespace list`,
	}
	cmd.AddCommand(newListCommand(f))
	return command.Group(cmd)
}

type listOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer
}

func newListCommand(f *command.Factory) *cobra.Command {
	opts := &listOptions{Client: f.Client, Printer: f.Printer}
	return &cobra.Command{
		Use: "list", Short: "List the namespaces", Args: command.ExactArgs(),
		Annotations: command.Asks("listNamespaces"),
		Long: `list lists the namespaces to which a task or schedule was submitted, by name.

The columns are: name, submitted. Submitted is the time of the last submission, to the minute; ticks of schedules do not
count.`,
		Example: `  dtsctl namespace list`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return listRun(cmd.Context(), opts) },
	}
}

func listRun(ctx context.Context, opts *listOptions) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	answer, err := rest.Read[wire.NamespaceList](c.ListNamespacesWithResponse(ctx))
	if err != nil {
		return err
	}
	opts.Printer.Warn(answer.Value.Warnings)
	return opts.Printer.Show(answer.Raw, func() error {
		return printer.PrintTable(opts.Printer, listColumns, answer.Value.Namespaces)
	})
}

var listColumns = []printer.Column[wire.NamespaceEntry]{
	{Name: "name", Value: func(n wire.NamespaceEntry) any { return n.Name }},
	{Name: "submitted", Value: func(n wire.NamespaceEntry) any { return n.LastSubmittedAt }},
}
