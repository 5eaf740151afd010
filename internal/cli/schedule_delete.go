package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
)

func newDeleteCommand(s *session) *cobra.Command {
	var tasks string
	cmd := &cobra.Command{
		Use: "delete ID...", Short: "Delete schedules", Args: ids,
		Long: `delete deletes schedules with their ledgers and histories. What becomes of the tasks that they created and that have
not ended, --tasks says: "waiting" cancels those that have not begun, "all" asks those that run to stop as well, with "none"
all of them go on.

All of the schedules are tried; the exit code is 1 if any was refused. A pipe gets a line for each: its id, and how many of
its tasks were cancelled, were asked to stop, and go on.`,
		Example: `  dtsctl schedule delete nightly
  dtsctl schedule delete nightly hourly --tasks all`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.forEach(args, func(id string) error { return s.deleteSchedule(cmd.Context(), id, tasks) })
		},
	}
	cmd.Flags().StringVar(&tasks, "tasks", "", "which of its tasks are cancelled: waiting, all or none (default waiting)")
	complete(cmd, "tasks", "waiting", "all", "none")
	return cmd
}

func (s *session) deleteSchedule(ctx context.Context, id, tasks string) error {
	c, err := s.calls()
	if err != nil {
		return err
	}
	a, err := ask[client.ScheduleDeletion](c.DeleteScheduleWithResponse(ctx, id, &client.DeleteScheduleParams{
		Namespace: s.namespaceParam(), Tasks: (*client.DeleteTasks)(orNil(tasks)),
	}))
	if err != nil {
		return err
	}
	return s.show(a.raw, func() error {
		d := a.value
		if !s.OutIsTerminal {
			return s.printTabbed([][]any{{id, d.Cancelled, d.Stopping, d.Left}})
		}
		return s.printf("%s deleted; %s\n", flat(id), tasksAfter(d))
	})
}

// tasksAfter says what became of the tasks of a deleted schedule.
func tasksAfter(d client.ScheduleDeletion) string {
	var parts []string
	for _, part := range []struct {
		n    int
		what string
	}{{d.Cancelled, "cancelled"}, {d.Stopping, "asked to stop"}, {d.Left, "left to go on"}} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", counted(part.n, "task"), part.what))
		}
	}
	if len(parts) == 0 {
		return "all of its tasks had ended"
	}
	return strings.Join(parts, ", ")
}
