package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
)

func newAttemptsCommand(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "attempts ID", Short: "List the attempts of a task", Args: named("ID"),
		Long: `attempts lists the attempts of a task, the oldest first. The outcome "lost" means that the worker died, was cut
off, or shut down before the end; an attempt that still runs has none.

The columns are: number, outcome, started, took, node, error.`,
		Example: `  dtsctl task attempts nightly`,
		RunE:    func(cmd *cobra.Command, args []string) error { return s.runAttempts(cmd.Context(), args[0]) },
	}
}

func (s *session) runAttempts(ctx context.Context, id string) error {
	c, err := s.calls()
	if err != nil {
		return err
	}
	a, err := ask[client.AttemptList](c.ListAttemptsWithResponse(ctx, id, &client.ListAttemptsParams{Namespace: s.namespaceParam()}))
	if err != nil {
		return err
	}
	return s.show(a.raw, func() error { return printTable(s, attemptColumns, a.value.Attempts) })
}

var attemptColumns = []column[client.Attempt]{
	{"number", func(a client.Attempt) any { return a.Number }},
	{"outcome", func(a client.Attempt) any { return status(orNothing(a.Outcome)) }},
	{"started", func(a client.Attempt) any { return a.StartedAt }},
	{"took", durationOf},
	{"node", func(a client.Attempt) any { return a.Node }},
	{"error", func(a client.Attempt) any { return remark(orNothing(a.Error)) }},
}

// durationOf is how long an attempt took, nil while it runs.
func durationOf(a client.Attempt) any {
	if a.FinishedAt == nil {
		return nil
	}
	return max(time.Duration(0), a.FinishedAt.Sub(a.StartedAt))
}
