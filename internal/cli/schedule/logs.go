package schedule

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/flags"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/cli/taskview"
)

type logsOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer

	ID    string
	Ticks *int // nil means the server's default
	Tail  *int // nil means all lines
	Lines flags.LogLines
}

func newLogsCommand(f *command.Factory) *cobra.Command {
	opts := &logsOptions{Client: f.Client, Printer: f.Printer}
	cmd := &cobra.Command{
		Use: "logs ID", Short: "Print what the tasks of the last ticks wrote", Args: command.ExactArgs("ID"),
		Annotations: command.Asks("readScheduleLogs"),
		Long: `logs prints the lines that the tasks of the last ticks and runs by hand wrote, the oldest tick first. In front
of each line are its task and attempt. What a task wrote to its standard output goes to standard output, everything else
to standard error. With -o json or -o yaml, all lines go to standard output, one object each.

The server keeps the newest 1,000 lines of a task until its retention is over: a day, or a week for a task that failed,
unless its definition says otherwise. Standard error names the tasks whose logs are gone.

--attempt, --stream and --grep leave lines out. --tail prints the last lines of what is left, and reads no others.`,
		Example: `  dtsctl schedule logs nightly
  dtsctl schedule logs nightly --ticks 20 --grep 'no route'
  dtsctl schedule logs nightly --attempt last --stream stderr --tail 50`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if opts.Tail != nil && *opts.Tail < 1 {
				return command.Usagef("--tail: want at least one line")
			}
			opts.ID = args[0]
			return logsRun(cmd.Context(), opts)
		},
	}
	flags.Int(cmd.Flags(), &opts.Ticks, "ticks", "read the newest `N` ticks that have a task, up to 20 (default 5)")
	flags.Int(cmd.Flags(), &opts.Tail, "tail", "show the last `N` lines (default all)")
	opts.Lines.Bind(cmd)
	return cmd
}

// rawScheduleLogPage is a client.ScheduleLogPage whose lines are as the server sent them.
type rawScheduleLogPage struct {
	Lines          []json.RawMessage `json:"lines"`
	Forgotten      []string          `json:"forgotten"`
	PreviousCursor *string           `json:"previous_cursor"`
	Warnings       []string          `json:"warnings"`
}

// logsRun reads pages from the end, and prints them in the order in which they were written.
func logsRun(ctx context.Context, opts *logsOptions) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	params := client.ReadScheduleLogsParams{
		Namespace: c.Namespace, Ticks: opts.Ticks,
		Attempt: opts.Lines.Attempt, Stream: opts.Lines.Stream(), Grep: opts.Lines.Text,
	}
	var lines []json.RawMessage
	var forgotten []string
	for {
		params.Limit = new(flags.LogPageLimit)
		if opts.Tail != nil {
			params.Limit = new(min(*opts.Tail-len(lines), flags.LogPageLimit))
		}
		answer, err := rest.Read[rawScheduleLogPage](c.ReadScheduleLogsWithResponse(ctx, opts.ID, &params))
		if err != nil {
			return err
		}
		page := answer.Value
		opts.Printer.Warn(page.Warnings)
		lines, forgotten = slices.Concat(page.Lines, lines), slices.Concat(page.Forgotten, forgotten)
		params.Before = page.PreviousCursor
		if page.PreviousCursor == nil || opts.Tail != nil && len(lines) >= *opts.Tail {
			break
		}
	}
	for _, id := range forgotten {
		opts.Printer.Errorf("the log of %s is gone: the task is forgotten", id)
	}
	return taskview.LogLines(opts.Printer, lines)
}
