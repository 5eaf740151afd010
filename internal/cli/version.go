package cli

import (
	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/cli/command"
)

func newVersionCommand(f *command.Factory) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print dtsctl's version", Args: command.ExactArgs(),
		Long:    `version prints the version of dtsctl. It does not ask the server; "dtsctl node list" shows the versions of the nodes.`,
		Example: `  dtsctl version`,
		RunE:    func(*cobra.Command, []string) error { return f.Printer.Printf("dtsctl %s\n", f.Version) },
	}
}
