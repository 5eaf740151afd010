package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/clock"
)

func newTriggerCommand(s *session) *cobra.Command {
	var wait bool
	cmd := &cobra.Command{
		Use: "trigger ID", Short: "Run a schedule now", Args: named("ID"),
		Long: `trigger runs a schedule now, beside its ticks and without changing them, paused or not. The overlap policy holds: while
a task of the schedule has not ended, it is refused (skip), or the run waits for its turn (queue, replace; refused, too,
while the schedule is paused or 100 ticks wait). Each call is a run.

A pipe gets a line: the id of the task, empty while the run waits for its turn, and what became of the run, triggered or
queued. With --wait, the exit code and what is printed are those of "dtsctl task wait".`,
		Example: `  dtsctl schedule trigger nightly
  dtsctl schedule trigger nightly --wait && echo done
  dtsctl task logs -f "$(dtsctl schedule trigger nightly | cut -f 1)"`,
		RunE: func(cmd *cobra.Command, args []string) error { return s.runTrigger(cmd.Context(), args[0], wait) },
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "wait for the end of the task, as \"dtsctl task wait\" does")
	return cmd
}

func (s *session) runTrigger(ctx context.Context, id string, wait bool) error {
	c, err := s.calls()
	if err != nil {
		return err
	}
	a, err := ask[client.LedgerEntry](c.TriggerScheduleWithResponse(ctx, id, &client.TriggerScheduleParams{Namespace: s.namespaceParam()}))
	if err != nil {
		return err
	}
	if wait {
		return s.waitForRun(ctx, id, a.value)
	}
	return s.show(a.raw, func() error {
		e := a.value
		if !s.OutIsTerminal {
			return s.printTabbed([][]any{{e.Task, e.Outcome}})
		}
		if e.Task == nil {
			return s.printf("%s %s: %s\n", flat(id), s.coloured(status(e.Outcome), string(e.Outcome)), flat(orNothing(e.Reason)))
		}
		return s.printf("%s %s\n", flat(*e.Task), s.coloured(status(e.Outcome), string(e.Outcome)))
	})
}

// waitForRun waits until a run by hand has ended, and for its turn before.
func (s *session) waitForRun(ctx context.Context, id string, e client.LedgerEntry) error {
	if e.Task == nil {
		s.tell("%s waits for its turn", id)
	}
	for e.Task == nil {
		if e.Outcome != client.TickOutcomeQueued {
			s.say("it did not run: %s (%s)", orNothing(e.Reason), e.Outcome)
			return errFailed
		}
		if err := clock.Sleep(ctx, lookWithoutFeed); err != nil {
			return err
		}
		var err error
		if e, err = s.entryAt(ctx, id, e); err != nil {
			return err
		}
	}
	s.tell("runs as %s", *e.Task) // else nobody would know, should the waiting be interrupted
	return s.waitFor(ctx, *e.Task, 0)
}

// entryAt is the record of a tick as it is now.
func (s *session) entryAt(ctx context.Context, id string, e client.LedgerEntry) (client.LedgerEntry, error) {
	c, err := s.calls()
	if err != nil {
		return e, err
	}
	a, err := ask[client.LedgerPage](c.ReadLedgerWithResponse(ctx, id, &client.ReadLedgerParams{
		Namespace: s.namespaceParam(), Since: &e.Tick, Until: &e.Tick,
	}))
	if err != nil {
		return e, err
	}
	for _, now := range a.value.Entries {
		if now.Outcome != client.TickOutcomeFired { // else it is of a tick at the same time
			return now, nil
		}
	}
	return e, errors.New("the ledger has no record of the run any more")
}
