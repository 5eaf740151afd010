package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
)

func newGetCommand(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "get ID", Short: "Show all about a task", Args: named("ID"),
		Long: `get shows a task as it is now. A pipe gets a line for each field that has a value: its name in the API, a tab,
the value.`,
		Example: `  dtsctl task get nightly
  dtsctl task get nightly -o json | jq -r .result`,
		RunE: func(cmd *cobra.Command, args []string) error { return s.runGet(cmd.Context(), args[0]) },
	}
}

func (s *session) runGet(ctx context.Context, id string) error {
	a, err := s.task(ctx, id)
	if err != nil {
		return err
	}
	return s.show(a.raw, func() error { return s.printDetails(detailsOf(a.value)) })
}

// task is the task as it is now.
func (s *session) task(ctx context.Context, id string) (answer[client.Task], error) {
	c, err := s.calls()
	if err != nil {
		return answer[client.Task]{}, err
	}
	return ask[client.Task](c.GetTaskWithResponse(ctx, id, &client.GetTaskParams{Namespace: s.namespaceParam()}))
}
