package task

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/flags"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/cli/server"
)

type listOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer

	Filter        flags.Filter
	Window        flags.Window
	AllNamespaces bool
}

func newListCommand(f *command.Factory) *cobra.Command {
	opts := &listOptions{Client: f.Client, Printer: f.Printer}
	cmd := &cobra.Command{
		Use: "list", Short: "List tasks", Args: command.ExactArgs(),
		Annotations: command.Asks("listTasks"),
		Long: `list lists the tasks of a namespace, or of all of them, the newest first. Filters are joined by "and".

The columns are: id, state, type, queue, attempt, due, finished, node, error, started, namespace. Of a task that cannot be
read in Redis, the error says so; what is left out of the list for that reason is told on stderr.`,
		Example: `  dtsctl task list --state failed
  dtsctl task list --state running --all-namespaces
  dtsctl task list --schedule nightly --limit 3
  dtsctl task list --state scheduled,queued --queue reports --all
  dtsctl task list --state failed --all | cut -f 1 | xargs dtsctl task retry`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := opts.Window.Check(); err != nil {
				return err
			}
			return listRun(cmd.Context(), opts)
		},
	}
	opts.Filter.Bind(cmd)
	opts.Window.Bind(cmd.Flags())
	cmd.Flags().BoolVarP(&opts.AllNamespaces, "all-namespaces", "A", false, "list the tasks of all namespaces, as -n '*'")
	return cmd
}

func listRun(ctx context.Context, opts *listOptions) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	filter := &opts.Filter
	params := client.ListTasksParams{
		Namespace: c.Namespace, State: filter.States(), Queue: flags.NilIfZero(filter.Queue), Type: flags.NilIfZero(filter.Type),
		Owner: flags.NilIfZero(filter.Owner), Node: flags.NilIfZero(filter.Node), Schedule: flags.NilIfZero(filter.Schedule),
	}
	if opts.AllNamespaces {
		params.Namespace = new("*")
	}
	read := func(limit int, cursor *string) (json.RawMessage, error) {
		params.Limit, params.Cursor = &limit, cursor
		answer, err := rest.Read[wire.TaskList](c.ListTasksWithResponse(ctx, &params))
		return answer.Raw, err
	}
	pages, err := server.ReadPages[wire.Task](opts.Window.Window, "tasks", read)
	if err != nil {
		return err
	}
	columns := slices.Concat(leadingColumns, []printer.Column[wire.Task]{errorColumn, startedColumn, namespaceColumn})
	if opts.Printer.ForPeople() { // the error, which may be long, comes last
		columns = slices.Concat(leadingColumns, []printer.Column[wire.Task]{startedColumn, errorColumn})
		if printer.Deref(params.Namespace) == "*" {
			columns = slices.Insert(columns, 0, namespaceColumn)
		}
	}
	return command.ShowPages(opts.Printer, pages, columns)
}

var leadingColumns = []printer.Column[wire.Task]{
	{Name: "id", Value: func(t wire.Task) any { return t.ID }},
	{Name: "state", Value: func(t wire.Task) any { return printer.Status(t.State) }},
	{Name: "type", Value: func(t wire.Task) any { return t.Type }},
	{Name: "queue", Value: func(t wire.Task) any { return t.Queue }},
	{Name: "attempt", Value: func(t wire.Task) any { return t.Attempt }},
	{Name: "due", Value: func(t wire.Task) any { return t.RunAt }},
	{Name: "finished", Value: func(t wire.Task) any { return t.FinishedAt }},
	{Name: "node", Value: func(t wire.Task) any { return t.Node }},
}

var (
	errorColumn = printer.Column[wire.Task]{Name: "error", Value: func(t wire.Task) any {
		return printer.Remark(cmp.Or(printer.Deref(t.Damage), printer.Deref(t.Error)))
	}}
	startedColumn   = printer.Column[wire.Task]{Name: "started", Value: func(t wire.Task) any { return t.StartedAt }}
	namespaceColumn = printer.Column[wire.Task]{Name: "namespace", Value: func(t wire.Task) any { return t.Namespace }}
)
