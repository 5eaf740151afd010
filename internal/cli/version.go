package cli

import "github.com/spf13/cobra"

func newVersionCommand(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print dtsctl's version", Args: named(),
		Long:    `version prints the version of dtsctl. It does not ask the server; "dtsctl node list" shows its version.`,
		Example: `  dtsctl version`,
		RunE:    func(*cobra.Command, []string) error { return s.printf("dtsctl %s\n", s.Version) },
	}
}
