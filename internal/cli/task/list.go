package task

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/flags"
	"github.com/dts-sched/dts/internal/cli/printer"
)

type listOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer

	Times flags.Times

	Filter        flags.Filter
	Selection     flags.Selection
	Window        flags.Window
	AllNamespaces bool
	Sort          string // "" means by the state's time
	Reverse       bool
	Count         bool
	Fields        []string
}

func newListCommand(f *command.Factory) *cobra.Command {
	opts := &listOptions{Client: f.Client, Printer: f.Printer, Times: flags.TimesOf(f)}
	cmd := &cobra.Command{
		Use: "list", Short: "List tasks", Args: command.ExactArgs(),
		Annotations: command.Asks("listTasks"),
		Long: `list lists the tasks of a namespace, or of all of them. They are sorted by when they came into their states
or, if they wait, by when they are due; the latest comes first. Filters are joined by "and".

The columns are: id, state, type, queue, attempt, due, finished, node, error, started, namespace. Of a task that cannot
be read in Redis, the error says so; what is left out of the list for that reason is told on stderr.`,
		Example: `  dtsctl task list --state failed
  dtsctl task list --state running --all-namespaces
  dtsctl task list --schedule nightly --limit 3
  dtsctl task list -A --label order=4711
  dtsctl task list --state failed --since 2h --error "order # not found"
  dtsctl task list --queue reports --count
  dtsctl task list --state failed --fields labels,finished_at -o json
  dtsctl task list --state succeeded --since 2026-01-02 --sort duration
  dtsctl task list --state scheduled,queued --queue reports --all
  dtsctl task list --state failed --all | cut -f 1 | xargs dtsctl task retry`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := opts.Window.Check(); err != nil {
				return err
			}
			if len(opts.Fields) > 0 && opts.Printer.IsTable() {
				return command.Usagef("--fields chooses the members of -o json and -o yaml; a table has its columns")
			}
			return listRun(cmd.Context(), opts)
		},
	}
	opts.Filter.Bind(cmd)
	opts.Selection.Bind(cmd)
	cmd.Flags().StringVar(&opts.Sort, "sort", "",
		"sort by state (when it came into its state, or is due), created, due, ended or duration (default state)")
	cmd.Flags().BoolVar(&opts.Reverse, "reverse", false, "list the smallest value first, as the oldest or the shortest")
	cmd.Flags().BoolVar(&opts.Count, "count", false,
		"show only how many tasks match, by state; + stands for more than that")
	cmd.Flags().StringSliceVar(&opts.Fields, "fields", nil,
		"`MEMBERS` that the tasks have in -o json and -o yaml, beside the id, the state and others that each task has")
	command.Complete(cmd, "sort", "state", "created", "due", "ended", "duration")
	opts.Window.Bind(cmd.Flags())
	cmd.Flags().BoolVarP(&opts.AllNamespaces, "all-namespaces", "A", false, "list the tasks of all namespaces, as -n '*'")
	return cmd
}

func listRun(ctx context.Context, opts *listOptions) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	params, err := opts.params(c.Namespace)
	if err != nil {
		return err
	}
	if opts.Count {
		return showCounts(ctx, c, opts.Printer, params)
	}
	read := func(limit int, cursor *string) (json.RawMessage, error) {
		params.Limit, params.Cursor = &limit, cursor
		answer, err := rest.Read[wire.TaskList](c.ListTasksWithResponse(ctx, &params))
		return answer.Raw, err
	}
	columns := slices.Concat(leadingColumns, []printer.Column[wire.Task]{errorColumn, startedColumn, namespaceColumn})
	if opts.Printer.ForPeople() { // the error, which may be long, comes last
		columns = slices.Concat(leadingColumns, []printer.Column[wire.Task]{startedColumn, errorColumn})
		if printer.Deref(params.Namespace) == "*" {
			columns = slices.Insert(columns, 0, namespaceColumn)
		}
	}
	_, err = command.ListPages(opts.Printer, opts.Window.Window, "tasks", read, columns)
	return err
}

// showCounts shows how many tasks match, by state.
func showCounts(ctx context.Context, c *rest.Client, p *printer.Printer, params client.ListTasksParams) error {
	params.Counts, params.Limit = new(true), new(1)
	answer, err := rest.Read[wire.TaskList](c.ListTasksWithResponse(ctx, &params))
	if err != nil {
		return err
	}
	p.Warn(answer.Value.Warnings)
	raw, err := json.Marshal(answer.Value.Counts)
	if err != nil {
		return err
	}
	return p.Show(raw, func() error { return printer.PrintTable(p, countColumns, answer.Value.Counts) })
}

var countColumns = []printer.Column[wire.StateCount]{
	{Name: "state", Value: func(c wire.StateCount) any { return printer.Status(c.State) }},
	{Name: "count", Value: func(c wire.StateCount) any {
		if wire.Value(c.More) {
			return fmt.Sprint(c.Count, "+")
		}
		return c.Count
	}},
}

// params are those of the request, without the window.
func (o *listOptions) params(namespace *string) (client.ListTasksParams, error) {
	filter, selection := &o.Filter, &o.Selection
	since, until, err := selection.Span(o.Times)
	if err != nil {
		return client.ListTasksParams{}, err
	}
	if o.AllNamespaces {
		namespace = new("*")
	}
	params := client.ListTasksParams{
		Namespace: namespace, State: filter.States(), Queue: flags.NilIfZero(filter.Queue),
		Type: flags.NilIfZero(filter.Type), Owner: flags.NilIfZero(filter.Owner), Node: flags.NilIfZero(filter.Node),
		Schedule: flags.NilIfZero(filter.Schedule), Label: selection.Labels, Error: flags.NilIfZero(selection.Error),
		Since: since, Until: until, Time: flags.NilIfZero(wire.TaskTime(selection.Time)),
		Sort: flags.NilIfZero(wire.TaskSort(o.Sort)),
	}
	for _, f := range o.Fields {
		params.Fields = append(params.Fields, wire.TaskField(f))
	}
	if o.Reverse {
		params.Order = new(wire.ListOrder("asc"))
	}
	return params, nil
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
