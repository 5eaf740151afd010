package cli

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/schedule"
)

func newSchedulePauseCommand(s *session) *cobra.Command {
	var note string
	cmd := &cobra.Command{
		Use: "pause ID...", Short: "Let schedules create no tasks for a while", Args: ids,
		Long: `pause keeps schedules from running until they are resumed. Tasks that they created before go on. Pausing a paused
schedule is harmless; a note that comes with it takes the place of the one before.

All of the schedules are tried; the exit code is 1 if any was refused. A pipe gets a line for each: its id and state.`,
		Example: `  dtsctl schedule pause nightly --note 'until the new disk is there'
  dtsctl schedule list --label team=billing --all | cut -f 1 | xargs dtsctl schedule pause`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.forEach(args, func(id string) error { return s.pauseSchedule(cmd.Context(), id, given(cmd.Flags(), "note", note)) })
		},
	}
	cmd.Flags().StringVar(&note, "note", "", "who pauses it, and why")
	return cmd
}

func (s *session) pauseSchedule(ctx context.Context, id string, note *string) error {
	c, err := s.calls()
	if err != nil {
		return err
	}
	body, err := bodyOf(client.SchedulePause{Note: note})
	if err != nil {
		return err
	}
	a, err := ask[client.Schedule](c.PauseScheduleWithBodyWithResponse(ctx, id, &client.PauseScheduleParams{Namespace: s.namespaceParam()}, jsonType, body))
	if err != nil {
		return err
	}
	return s.showSchedule(a, func() string {
		text := " until it is resumed"
		if note := orNothing(a.value.PauseNote); note != "" {
			text += " (" + flat(note) + ")"
		}
		if a.value.Live > 0 {
			text += fmt.Sprintf("; %s that it created can go on", counted(a.value.Live, "task"))
		}
		return text
	})
}

func newScheduleResumeCommand(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "resume ID...", Short: "Let paused schedules run again", Args: ids,
		Long: `resume ends the pause of schedules. The ticks that fell into the pause are misfires: by the misfire policy, none of them
runs (skip), the newest one runs for all of them (once), or those within the window run, one a second (all). A terminal is
told which. The ledger has a record of each. Resuming a schedule that is not paused is harmless.

All of the schedules are tried; the exit code is 1 if any was refused. A pipe gets a line for each: its id and state.`,
		Example: `  dtsctl schedule resume nightly
  dtsctl schedule list --paused --all | cut -f 1 | xargs dtsctl schedule resume`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.forEach(args, func(id string) error { return s.resumeSchedule(cmd.Context(), id) })
		},
	}
}

func (s *session) resumeSchedule(ctx context.Context, id string) error {
	c, err := s.calls()
	if err != nil {
		return err
	}
	before, err := s.schedule(ctx, id)
	if err != nil {
		return err
	}
	a, err := ask[client.Schedule](c.ResumeScheduleWithResponse(ctx, id, &client.ResumeScheduleParams{Namespace: s.namespaceParam()}))
	if err != nil {
		return err
	}
	return s.showSchedule(a, func() string {
		text := ", as it was"
		if before.value.PausedAt != nil {
			length := cmp.Or(span(s.Now().Sub(*before.value.PausedAt).Abs()), "a moment")
			text = fmt.Sprintf(" again, after a pause of %s. %s", length, afterPause(a.value.Misfire))
		}
		if a.value.NextAt != nil {
			text += "\n  next " + s.text(nominal(*a.value.NextAt)) + ", " + relative(*a.value.NextAt, s.Now())
		}
		return text
	})
}

// afterPause says what becomes of the ticks of a pause.
func afterPause(m *client.Misfire) string {
	policy := schedule.Misfire{}.WithDefaults()
	window := span(schedule.DefaultWindow)
	if m != nil {
		policy.Policy = cmp.Or(schedule.MisfirePolicy(orNothing(m.Policy)), policy.Policy)
		window = cmp.Or(orNothing(m.Window), window)
		if m.Max != nil {
			policy.Max = *m.Max
		}
	}
	switch policy.Policy {
	case schedule.MisfireSkip:
		return "None of the ticks of the pause runs (misfire policy skip)."
	case schedule.MisfireAll:
		return fmt.Sprintf("Of the ticks of the pause, those of the last %s run, at most %d, a second apart and as their overlap allows (misfire policy all).", window, policy.Max)
	}
	return fmt.Sprintf("Of the ticks of the pause, the newest one runs, if it is of the last %s (misfire policy once).", window)
}

// showSchedule prints what became of a schedule: a sentence on a terminal, else its id and state.
func (s *session) showSchedule(a answer[client.Schedule], more func() string) error {
	return s.show(a.raw, func() error {
		state := stateOf(a.value)
		if !s.OutIsTerminal {
			return s.printTabbed([][]any{{a.value.ID, state}})
		}
		return s.printf("%s %s%s\n", flat(a.value.ID), s.coloured(state, string(state)), more())
	})
}
