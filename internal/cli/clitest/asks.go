package clitest

import (
	"net/http"
	"slices"
	"testing"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/cli"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/complete"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/cli/server"
	"github.com/dts-sched/dts/internal/testkit"
)

// asking returns a transport that fails the test if a command asks for an operation that its annotations do not name.
func asking(t *testing.T, next http.RoundTripper, args []string) http.RoundTripper {
	t.Helper()
	if next == nil {
		return nil
	}
	router, err := document()
	testkit.Must(t, err)
	root := cli.NewRootCommand(command.NewFactory(nil, printer.New(printer.Options{}), &server.Config{}))
	cmd, _, err := root.Find(args)
	if err != nil {
		return next
	}
	asks := command.AsksOf(cmd.Annotations)
	if len(args) > 0 && args[0] == cobra.ShellCompRequestCmd {
		asks = complete.Asks
	}
	return RoundTripper(func(r *http.Request) (*http.Response, error) {
		route, _, err := router.FindRoute(r)
		if err == nil && !slices.Contains(asks, route.Operation.OperationID) {
			t.Errorf("%s asks for %s, and says it asks for %v", cmd.CommandPath(), route.Operation.OperationID, asks)
		}
		return next.RoundTrip(r)
	})
}
