package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/config"
)

// The exit codes, as `dtsctl help exit-codes` explains them.
const (
	exitOK          = 0
	exitRefused     = 1
	exitUsage       = 2
	exitUnreachable = 3
	exitUnread      = 141 // 128 + SIGPIPE, as shells have it
	exitInterrupted = 130 // 128 + SIGINT, as shells have it
)

// explain tells the user what went wrong and returns the exit code. parsed says whether the command line was
// understood; until then, each error is one of usage.
func explain(ctx context.Context, f *command.Factory, cmd *cobra.Command, parsed bool, err error) int {
	var unreachable *rest.Unreachable
	var address *rest.InvalidAddress
	var exit *command.ExitError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &exit):
		return exit.Code
	case errors.Is(err, printer.ErrUnread): // whoever read the results has enough of them
		return exitUnread
	case ctx.Err() != nil:
		return exitInterrupted
	case errors.Is(err, command.ErrReported):
		return exitRefused
	case errors.As(err, &address):
		f.Printer.Errorf("--server: %v", address)
		f.Printer.Notef("Run '%s --help' for what it takes.", cmd.CommandPath())
		return exitUsage
	case isUsage(err), !parsed:
		f.Printer.Errorf("%s", config.MaskURLs(err.Error()))
		f.Printer.Notef("Run '%s --help' for what it takes.", cmd.CommandPath())
		return exitUsage
	case errors.As(err, &unreachable):
		f.Printer.Errorf("cannot reach %s: %v", config.MaskAddress(f.Server.URL()), unreachable)
		f.Printer.Notef("Is dtsd running there? Point elsewhere with --server or DTSCTL_SERVER.")
		return exitUnreachable
	}
	f.Printer.Errorf("%v", err)
	return exitRefused
}

func isUsage(err error) bool {
	var usage *command.UsageError
	return errors.As(err, &usage)
}
