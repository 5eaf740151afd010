package cli

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
)

type listOptions struct {
	filters
	window
	session *session
}

func newListCommand(s *session) *cobra.Command {
	o := listOptions{session: s}
	cmd := &cobra.Command{
		Use: "list", Short: "List tasks", Args: named(),
		Long: `list lists the tasks of a namespace, the newest first. Filters are joined by "and".

The columns are: id, state, type, queue, attempt, due, finished, node, error.`,
		Example: `  dtsctl task list --state failed
  dtsctl task list --schedule nightly --limit 3
  dtsctl task list --state scheduled,queued --queue reports --all
  dtsctl task list --state failed --all | cut -f 1 | xargs dtsctl task retry`,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	o.filters.bind(cmd)
	o.window.bind(cmd)
	return cmd
}

func (o *listOptions) run(ctx context.Context) error {
	c, err := o.session.calls()
	if err != nil {
		return err
	}
	list, err := readPages[client.Task](o.window, "tasks", func(limit int, cursor *string) (json.RawMessage, error) {
		a, err := ask[client.TaskList](c.ListTasksWithResponse(ctx, &client.ListTasksParams{
			Namespace: o.session.namespaceParam(), State: statesOf(o.states), Queue: orNil(o.queue), Type: orNil(o.typ),
			Owner: orNil(o.owner), Node: orNil(o.node), Schedule: orNil(o.schedule), Limit: &limit, Cursor: cursor,
		}))
		return a.raw, err
	})
	if err != nil {
		return err
	}
	return showPages(o.session, list, "tasks", taskColumns)
}
