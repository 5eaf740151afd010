// Package schedule is the commands of "dtsctl schedule".
package schedule

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/printer"
)

// NewCommand returns "dtsctl schedule".
func NewCommand(f *command.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use: "schedule", Short: "Put schedules in force, and show, pause, trigger, audit or delete them",
		Long: `A schedule is recurring work: at each of its ticks, which a cron expression or an interval names, it creates a
task. Each tick leads to exactly one task, called SCHEDULE@TICK, or to one record in the schedule's ledger that says why not.`,
		Example: `  dtsctl schedule put nightly --cron '30 2 * * *' --timezone Europe/Berlin -- /usr/local/bin/backup
  dtsctl schedule next nightly
  dtsctl schedule edit nightly
  dtsctl schedule audit nightly --from 24h
  dtsctl schedule forecast`,
	}
	cmd.AddCommand(
		newPutCommand(f), newGetCommand(f), newExportCommand(f), newEditCommand(f), newWhyCommand(f), newListCommand(f), newNextCommand(f),
		newPauseCommand(f), newResumeCommand(f), newTriggerCommand(f), newBackfillCommand(f), newDeleteCommand(f),
		newLedgerCommand(f), newLogsCommand(f), newAuditCommand(f), newHistoryCommand(f), newRollbackCommand(f), newForecastCommand(f),
	)
	return command.Group(cmd)
}

// getSchedule returns the schedule as it is now.
func getSchedule(ctx context.Context, c *rest.Client, id string) (rest.Answer[wire.Schedule], error) {
	params := &client.GetScheduleParams{Namespace: c.Namespace}
	return rest.Read[wire.Schedule](c.GetScheduleWithResponse(ctx, id, params))
}

// stateOf returns the state of a schedule in a word.
func stateOf(s wire.Schedule) printer.Status {
	switch {
	case s.EndedAt != nil:
		return "ended"
	case s.Paused:
		return "paused"
	}
	return "active"
}

// showState prints a schedule's state: for people a sentence that ends with what details returns, else the id and
// the state.
func showState(p *printer.Printer, answer rest.Answer[wire.Schedule], details func() string) error {
	return p.Show(answer.Raw, func() error {
		id, state := answer.Value.ID, stateOf(answer.Value)
		if !p.OutIsTerminal {
			return p.PrintTabbed([][]any{{id, state}})
		}
		return p.Printf("%s %s%s\n", printer.Flat(id), p.StatusWord(state), details())
	})
}
