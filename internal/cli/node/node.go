// Package node is the commands of "dtsctl node".
package node

import (
	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/cli/command"
)

// NewCommand returns "dtsctl node".
func NewCommand(f *command.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use: "node", Short: "Show the nodes",
		Long:    `A node is a running dtsd process.`,
		Example: `  dtsctl node list`,
	}
	cmd.AddCommand(newListCommand(f), newGetCommand(f), newCordonCommand(f), newDrainCommand(f), newUncordonCommand(f))
	return command.Group(cmd)
}
