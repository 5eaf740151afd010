// Package queue is the commands of "dtsctl queue".
package queue

import (
	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/printer"
)

// NewCommand returns "dtsctl queue".
func NewCommand(f *command.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use: "queue", Short: "Show, pause and resume the queues, and set their capacity",
		Long:    `A queue is where tasks that are due wait for a worker.`,
		Example: "  dtsctl queue list\n  dtsctl queue pause reports",
	}
	cmd.AddCommand(
		newListCommand(f), newStatsCommand(f), newWhyCommand(f), newPauseCommand(f), newResumeCommand(f),
		newCapacityCommand(f), newLimitCommand(f),
	)
	return command.Group(cmd)
}

// printDone tells what was done to a queue. In the formats json and yaml there is nothing: nor has the answer.
func printDone(p *printer.Printer, queue, done string) error {
	switch {
	case !p.IsTable():
		return nil
	case p.OutIsTerminal:
		return p.Printf("%s %s\n", queue, done)
	}
	return p.PrintTabbed([][]any{{queue, done}})
}
