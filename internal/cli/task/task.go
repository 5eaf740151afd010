// Package task is the commands of "dtsctl task".
package task

import (
	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/cli/command"
)

// NewCommand returns "dtsctl task".
func NewCommand(f *command.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use: "task", Short: "Submit tasks, and follow, change, cancel or retry them",
		Long: `A task is one unit of work: what to run, when, and how often to try. Its id is unique in its namespace.`,
		Example: `  dtsctl task http https://example.com/hook
  dtsctl task list --state failed,cancelled
  dtsctl task logs -f backup`,
	}
	cmd.AddCommand(
		newSubmitCommand(f), newHTTPCommand(f), newGRPCCommand(f), newShellCommand(f),
		newGetCommand(f), newWhyCommand(f), newListCommand(f), newWaitCommand(f), newAttemptsCommand(f), newLogsCommand(f),
		newFailuresCommand(f),
		newCancelCommand(f), newRetryCommand(f), newChangeCommand(f), newMoveCommand(f), newRequeueCommand(f), newForgetCommand(f),
	)
	return command.Group(cmd)
}
