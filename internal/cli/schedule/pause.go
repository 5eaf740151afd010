package schedule

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/flags"
	"github.com/dts-sched/dts/internal/cli/printer"
)

type pauseOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer
	Many    many

	IDs  []string
	Note *string
}

func newPauseCommand(f *command.Factory) *cobra.Command {
	opts := &pauseOptions{Client: f.Client, Printer: f.Printer, Many: many{in: f.In}}
	cmd := &cobra.Command{
		Use: "pause ID... | --label NAME=VALUE", Short: "Pause schedules",
		Annotations: command.Asks("listSchedules", "pauseSchedule"),
		Long: `pause keeps schedules from running until they are resumed. Tasks that they created before go on. Pausing a paused
schedule changes only its note, if one is given.

All of the schedules are tried; the exit code is 1 if any was refused. A pipe gets a line for each: its id and state.

` + manyHelp,
		Example: `  dtsctl schedule pause nightly --note 'until the new disk is there'
  dtsctl schedule pause --label team=billing --note 'the mail server moves' --yes`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := opts.Many.checkArgs(cmd, args); err != nil {
				return err
			}
			opts.IDs = args
			return pauseRun(cmd.Context(), opts)
		},
	}
	flags.String(cmd.Flags(), &opts.Note, "note", "who pauses it, and why")
	opts.Many.bind(cmd)
	return cmd
}

func pauseRun(ctx context.Context, opts *pauseOptions) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	ids, err := opts.Many.choose(ctx, c, opts.Printer, "pause", opts.IDs)
	if err != nil {
		return err
	}
	return command.ForEach(opts.Printer, ids, func(id string) error { return pause(ctx, c, opts, id) })
}

func pause(ctx context.Context, c *rest.Client, opts *pauseOptions, id string) error {
	body, err := rest.Body(wire.SchedulePause{Note: opts.Note})
	if err != nil {
		return err
	}
	params := &client.PauseScheduleParams{Namespace: c.Namespace}
	answer, err := rest.Read[wire.Schedule](c.PauseScheduleWithBodyWithResponse(ctx, id, params, rest.JSONType, body))
	if err != nil {
		return err
	}
	return showState(opts.Printer, answer, func() string {
		text := " until it is resumed"
		if note := printer.Deref(answer.Value.PauseNote); note != "" {
			text += " (" + printer.Flat(note) + ")"
		}
		if live := answer.Value.Live; live > 0 {
			text += fmt.Sprintf("; %s that it created can go on", printer.Counted(live, "task"))
		}
		return text
	})
}
