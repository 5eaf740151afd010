package schedule

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/manifest"
)

type getOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer

	ID string
}

func newGetCommand(f *command.Factory) *cobra.Command {
	opts := &getOptions{Client: f.Client, Printer: f.Printer}
	return &cobra.Command{
		Use: "get ID", Short: "Show everything about a schedule", Args: command.ExactArgs("ID"),
		Annotations: command.Asks("getSchedule"),
		Long: `get shows a schedule as it is now: its definition and its state. What the definition leaves out has its default. A pipe
gets a line for each field that has a value: its name in the API, a tab, the value.

The output of -o json and -o yaml has the state, too, and apply does not take it: "dtsctl schedule export" writes what it
takes.`,
		Example: `  dtsctl schedule get nightly
  dtsctl schedule get nightly -o json | jq -r .next_at`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.ID = args[0]
			return getRun(cmd.Context(), opts)
		},
	}
}

func getRun(ctx context.Context, opts *getOptions) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	answer, err := getSchedule(ctx, c, opts.ID)
	if err != nil {
		return err
	}
	return opts.Printer.Show(answer.Raw, func() error {
		all, err := details(answer)
		if err != nil {
			return err
		}
		all = append(all, runDetails(answer.Value, opts.Printer.OutIsTerminal)...)
		return opts.Printer.PrintDetails(all)
	})
}

// details returns a schedule's id, its definition and its state.
func details(answer rest.Answer[wire.Schedule]) ([]printer.Detail, error) {
	s := answer.Value
	all := []printer.Detail{{Name: "id", Value: s.ID}, {Name: "namespace", Value: s.Namespace}, {Name: "state", Value: stateOf(s)}}
	definition, err := manifest.Fields(answer.Raw)
	if err != nil {
		return nil, err
	}
	for _, f := range definition {
		all = append(all, printer.Detail{Name: f.Name, Value: f.Value})
	}
	all = append(all,
		printer.Detail{Name: "revision", Value: s.Revision},
		printer.Detail{Name: "created_at", Value: s.CreatedAt},
		printer.Detail{Name: "updated_at", Value: s.UpdatedAt},
		printer.Detail{Name: "updated_by", Value: s.UpdatedBy},
		printer.Detail{Name: "cursor", Value: s.Cursor},
		printer.Detail{Name: "next_at", Value: s.NextAt},
		printer.Detail{Name: "paused_at", Value: s.PausedAt},
		printer.Detail{Name: "paused_by", Value: s.PausedBy},
		printer.Detail{Name: "pause_note", Value: s.PauseNote},
		printer.Detail{Name: "ended_at", Value: s.EndedAt},
		printer.Detail{Name: "runs", Value: s.Runs},
		printer.Detail{Name: "failures", Value: s.Failures},
		printer.Detail{Name: "live", Value: s.Live},
		printer.Detail{Name: "waiting", Value: s.Waiting},
	)
	if len(s.Warnings) > 0 {
		all = append(all, printer.Detail{Name: "warnings", Value: printer.List(s.Warnings)})
	}
	return all, nil
}
