package task

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/printer"
)

type attemptsOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer

	ID string
}

func newAttemptsCommand(f *command.Factory) *cobra.Command {
	opts := &attemptsOptions{Client: f.Client, Printer: f.Printer}
	return &cobra.Command{
		Use: "attempts ID", Short: "List the attempts of a task", Args: command.ExactArgs("ID"),
		Annotations: command.Asks("listAttempts"),
		Long: `attempts lists the attempts of a task, the oldest first. The outcome "lost" means that the worker died, was cut
off, or lost the attempt before the end. "snoozed", as its handler or target asked to run again later, "interrupted", as
its worker shut down, and "moved", as its handler gave it up for another worker, do not count for max_attempts. An
attempt that is still running has no outcome.

The columns are: number, outcome, started, took, node, error.`,
		Example: `  dtsctl task attempts nightly`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.ID = args[0]
			return attemptsRun(cmd.Context(), opts)
		},
	}
}

func attemptsRun(ctx context.Context, opts *attemptsOptions) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	params := &client.ListAttemptsParams{Namespace: c.Namespace}
	answer, err := rest.Read[wire.AttemptList](c.ListAttemptsWithResponse(ctx, opts.ID, params))
	if err != nil {
		return err
	}
	opts.Printer.Warn(answer.Value.Warnings)
	return opts.Printer.Show(answer.Raw, func() error {
		return printer.PrintTable(opts.Printer, attemptColumns, answer.Value.Attempts)
	})
}

var attemptColumns = []printer.Column[wire.Attempt]{
	{Name: "number", Value: func(a wire.Attempt) any { return a.Number }},
	{Name: "outcome", Value: func(a wire.Attempt) any { return printer.Status(printer.Deref(a.Outcome)) }},
	{Name: "started", Value: func(a wire.Attempt) any { return a.StartedAt }},
	{Name: "took", Value: attemptDuration},
	{Name: "node", Value: func(a wire.Attempt) any { return a.Node }},
	{Name: "error", Value: func(a wire.Attempt) any { return printer.Remark(printer.Deref(a.Error)) }},
}

// attemptDuration returns how long an attempt took, nil while it runs.
func attemptDuration(a wire.Attempt) any {
	if a.FinishedAt == nil {
		return nil
	}
	return max(time.Duration(0), a.FinishedAt.Sub(a.StartedAt.Time))
}
