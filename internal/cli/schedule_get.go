package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
)

func newScheduleGetCommand(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "get ID", Short: "Show all about a schedule", Args: named("ID"),
		Long: `get shows a schedule as it is now: its definition and its state. What the definition leaves out has its default. A pipe
gets a line for each field that has a value: its name in the API, a tab, the value.`,
		Example: `  dtsctl schedule get nightly
  dtsctl schedule get nightly -o json | jq -r .next_at`,
		RunE: func(cmd *cobra.Command, args []string) error { return s.runScheduleGet(cmd.Context(), args[0]) },
	}
}

func (s *session) runScheduleGet(ctx context.Context, id string) error {
	a, err := s.schedule(ctx, id)
	if err != nil {
		return err
	}
	return s.show(a.raw, func() error {
		details, err := scheduleDetails(a)
		if err != nil {
			return err
		}
		return s.printDetails(details)
	})
}

// scheduleDetails is all about a schedule: who it is, its definition, its state.
func scheduleDetails(a answer[client.Schedule]) ([]detail, error) {
	c := a.value
	details := []detail{{"id", c.ID}, {"namespace", c.Namespace}, {"state", stateOf(c)}}
	said, err := definitionIn(a.raw)
	if err != nil {
		return nil, err
	}
	for _, f := range said {
		details = append(details, detail{f.name, f.value})
	}
	return append(details,
		detail{"revision", c.Revision}, detail{"created_at", c.CreatedAt}, detail{"updated_at", c.UpdatedAt},
		detail{"cursor", c.Cursor}, detail{"next_at", c.NextAt}, detail{"paused_at", c.PausedAt}, detail{"pause_note", c.PauseNote},
		detail{"ended_at", c.EndedAt}, detail{"runs", c.Runs}, detail{"failures", c.Failures}, detail{"live", c.Live}, detail{"waiting", c.Waiting},
	), nil
}
