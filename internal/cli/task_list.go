package cli

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
)

// pageLimit is how many tasks the server puts into one page at most.
const pageLimit = 500

type listOptions struct {
	filters
	session *session
	limit   int
	all     bool
}

func newListCommand(s *session) *cobra.Command {
	o := listOptions{session: s}
	cmd := &cobra.Command{
		Use: "list", Short: "List tasks", Args: named(),
		Long: `list lists the tasks of a namespace, the newest first. Filters are joined by "and".

The columns are: id, state, type, queue, attempt, due, finished, node, error.`,
		Example: `  dtsctl task list --state failed
  dtsctl task list --state scheduled,queued --queue reports --all
  dtsctl task list --state failed --all | cut -f 1 | xargs dtsctl task retry`,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	o.bind(cmd)
	cmd.Flags().IntVar(&o.limit, "limit", 50, "list so many at most")
	cmd.Flags().BoolVar(&o.all, "all", false, "list all of them")
	return cmd
}

func (o *listOptions) run(ctx context.Context) error {
	if o.limit < 1 {
		return usagef("--limit: %d is less than 1", o.limit)
	}
	list, err := o.collect(ctx)
	if err != nil {
		return err
	}
	raw, err := rawOf(list.raw)
	if err != nil {
		return err
	}
	if list.raw.NextCursor != nil && o.session.OutIsTerminal && o.session.isTable() {
		defer o.session.tell("There are more; --all lists them.")
	}
	return o.session.show(raw, func() error { return printTable(o.session, taskColumns, list.tasks) })
}

// taskList is pages of tasks, joined.
type taskList struct {
	tasks []client.Task
	raw   rawTaskList
}

// rawTaskList is a TaskList whose tasks are as the server sent them.
type rawTaskList struct {
	NextCursor *string           `json:"next_cursor,omitempty"`
	Tasks      []json.RawMessage `json:"tasks"`
}

// collect reads pages until there are enough.
func (o *listOptions) collect(ctx context.Context) (taskList, error) {
	list := taskList{raw: rawTaskList{Tasks: []json.RawMessage{}}}
	for {
		if err := o.page(ctx, &list); err != nil {
			return list, err
		}
		if list.raw.NextCursor == nil || !o.all && len(list.tasks) >= o.limit {
			return list, nil
		}
	}
}

// page adds the page at the list's cursor to it.
func (o *listOptions) page(ctx context.Context, list *taskList) error {
	c, err := o.session.calls()
	if err != nil {
		return err
	}
	limit := pageLimit
	if !o.all {
		limit = min(limit, o.limit-len(list.tasks))
	}
	a, err := ask[client.TaskList](c.ListTasksWithResponse(ctx, &client.ListTasksParams{
		Namespace: o.session.namespaceParam(), State: statesOf(o.states), Queue: orNil(o.queue), Type: orNil(o.typ),
		Owner: orNil(o.owner), Node: orNil(o.node), Limit: &limit, Cursor: list.raw.NextCursor,
	}))
	if err != nil {
		return err
	}
	var raw rawTaskList
	if err := json.Unmarshal(a.raw, &raw); err != nil {
		return err
	}
	list.tasks = append(list.tasks, a.value.Tasks...)
	list.raw = rawTaskList{NextCursor: raw.NextCursor, Tasks: append(list.raw.Tasks, raw.Tasks...)}
	return nil
}
