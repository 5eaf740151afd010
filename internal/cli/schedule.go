package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
)

func newScheduleCommand(s *session) *cobra.Command {
	cmd := &cobra.Command{
		Use: "schedule", Short: "Put schedules in force, and look at, pause, run, prove or delete them",
		Long: `A schedule is recurring work: at each of its ticks, which a cron expression or an interval names, it creates a
task. Each tick leads to exactly one task, called SCHEDULE@TICK, or to one record in the schedule's ledger that says why not.`,
		Example: `  dtsctl schedule put nightly --cron '30 2 * * *' --timezone Europe/Berlin -- /usr/local/bin/backup
  dtsctl schedule next nightly
  dtsctl schedule audit nightly --from 24h
  dtsctl schedule forecast`,
	}
	cmd.AddCommand(
		newSchedulePutCommand(s), newScheduleGetCommand(s), newScheduleListCommand(s), newNextCommand(s),
		newSchedulePauseCommand(s), newScheduleResumeCommand(s), newTriggerCommand(s), newBackfillCommand(s), newDeleteCommand(s),
		newLedgerCommand(s), newAuditCommand(s), newHistoryCommand(s), newRollbackCommand(s), newForecastCommand(s),
	)
	return beGroup(cmd)
}

// stateOf is a schedule's state in a word.
func stateOf(c client.Schedule) status {
	switch {
	case c.EndedAt != nil:
		return "ended"
	case c.Paused:
		return "paused"
	}
	return "active"
}

// timesOf is when a schedule ticks, in the words of its definition.
func timesOf(cron *client.Cron, every *client.Every, specs []client.ScheduleRule) rules {
	var texts rules
	for _, r := range append([]client.ScheduleRule{{Cron: cron, Every: every}}, specs...) {
		switch {
		case r.Cron != nil:
			texts = append(texts, *r.Cron)
		case r.Every != nil:
			texts = append(texts, "every "+*r.Every)
		}
	}
	return texts
}

// schedule is the schedule as it is now.
func (s *session) schedule(ctx context.Context, id string) (answer[client.Schedule], error) {
	c, err := s.calls()
	if err != nil {
		return answer[client.Schedule]{}, err
	}
	return ask[client.Schedule](c.GetScheduleWithResponse(ctx, id, &client.GetScheduleParams{Namespace: s.namespaceParam()}))
}

// counted is a number of things: "1 task", "2 tasks".
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
