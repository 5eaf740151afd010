package task

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/flags"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/cli/taskview"
)

type logsOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer

	ID     string
	Follow bool
	Tail   *int    // nil means all lines
	Before *string // the cursor of a line: only lines before it
	Lines  flags.LogLines
}

func newLogsCommand(f *command.Factory) *cobra.Command {
	opts := &logsOptions{Client: f.Client, Printer: f.Printer}
	cmd := &cobra.Command{
		Use: "logs ID", Short: "Print the log of a task", Args: command.ExactArgs("ID"),
		Annotations: command.Asks("readLogs", "getTask"),
		Long: `logs prints the lines a task wrote, of all its attempts; the server keeps the newest 1,000. What the task
wrote to its standard output goes to standard output, everything else to standard error. With -o json or -o yaml, all
lines go to standard output, one object each, with their attempt, stream and time. On a terminal, lines are shown
without colours and control characters; a pipe gets them as they were written.

--tail prints the last lines only, and reads no others. --before prints lines that were written before another one,
whose cursor -o json shows. --attempt, --stream and --grep leave lines out; --tail counts what is left.

With --follow it goes on until the task has ended, or until it is interrupted, and then ends with 0. When the connection
breaks, it reconnects; no line is lost or printed twice.`,
		Example: `  dtsctl task logs nightly
  dtsctl task logs nightly -f --tail 20
  dtsctl task logs nightly --attempt last --stream stderr
  dtsctl task logs nightly --grep 'no route'
  dtsctl task logs nightly --tail 100 --before 1-400`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.ID = args[0]
			if err := opts.check(); err != nil {
				return err
			}
			return logsRun(cmd.Context(), opts)
		},
	}
	cmd.Flags().BoolVarP(&opts.Follow, "follow", "f", false, "go on until the task has ended")
	flags.Int(cmd.Flags(), &opts.Tail, "tail", "show the last `N` lines (default all)")
	flags.String(cmd.Flags(), &opts.Before, "before", "only lines before the line with this cursor")
	opts.Lines.Bind(cmd)
	return cmd
}

func (o *logsOptions) check() error {
	switch {
	case o.Tail != nil && *o.Tail < 0:
		return command.Usagef("--tail: %d is negative", *o.Tail)
	case o.Before != nil && o.Follow:
		return command.Usagef("--before and --follow exclude each other")
	}
	return nil
}

func logsRun(ctx context.Context, opts *logsOptions) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	r := logReader{logsOptions: opts, client: c}
	switch {
	case opts.Tail != nil || opts.Before != nil:
		err = r.printTail(ctx)
	case !opts.Follow:
		err = r.printAll(ctx)
	}
	if err != nil || !opts.Follow {
		return err
	}
	return command.UnlessInterrupted(ctx, r.follow(ctx))
}

// logReader reads the log of a task and prints it.
type logReader struct {
	*logsOptions
	client *rest.Client
	after  *string // the cursor of the newest line that was read
}

// params are those of a request for lines.
func (r *logReader) params() *client.ReadLogsParams {
	return &client.ReadLogsParams{
		Namespace: r.client.Namespace, Attempt: r.Lines.Attempt, Stream: r.Lines.Stream(), Grep: r.Lines.Text,
	}
}

// rawLogPage is a client.LogPage whose lines are as the server sent them.
type rawLogPage struct {
	Lines          []json.RawMessage `json:"lines"`
	NextCursor     *string           `json:"next_cursor"`
	PreviousCursor *string           `json:"previous_cursor"`
	More           bool              `json:"more"`
	Warnings       []string          `json:"warnings"`
}

func (r *logReader) read(ctx context.Context, params *client.ReadLogsParams) (rawLogPage, error) {
	answer, err := rest.Read[rawLogPage](r.client.ReadLogsWithResponse(ctx, r.ID, params))
	if err == nil {
		r.Printer.Warn(answer.Value.Warnings)
	}
	return answer.Value, err
}

// printAll prints the lines that exist already.
func (r *logReader) printAll(ctx context.Context) error {
	params := r.params()
	params.Limit = new(flags.LogPageLimit)
	for {
		params.After = r.after
		page, err := r.read(ctx, params)
		if err != nil {
			return err
		}
		if err := taskview.LogLines(r.Printer, page.Lines); err != nil {
			return err
		}
		if page.NextCursor != nil {
			r.after = page.NextCursor
		}
		if !page.More && len(page.Lines) < flags.LogPageLimit { // an older server does not tell
			return nil
		}
	}
}

// printTail prints the last lines that exist already, which it reads from the end.
func (r *logReader) printTail(ctx context.Context) error {
	wanted := flags.LogPageLimit
	if r.Tail != nil {
		wanted = min(*r.Tail, flags.LogPageLimit)
	}
	params := r.params()
	if params.Before = r.Before; params.Before == nil {
		params.Tail = new(max(1, wanted)) // of no lines, the cursor
	} else {
		params.Limit = new(max(1, wanted))
	}
	var lines []json.RawMessage
	for {
		page, err := r.read(ctx, params)
		if err != nil {
			return err
		}
		lines = slices.Concat(page.Lines, lines)
		if page.NextCursor != nil {
			r.after = page.NextCursor
		}
		if page.PreviousCursor == nil || len(lines) >= wanted {
			return taskview.LogLines(r.Printer, lines[max(0, len(lines)-wanted):])
		}
		params.Tail, params.Before, params.Limit = nil, page.PreviousCursor, new(wanted-len(lines))
	}
}

// follow prints new lines until the task has ended.
func (r *logReader) follow(ctx context.Context) error {
	follow := true
	return r.client.Follow(ctx, rest.Stream{
		Open: func(ctx context.Context) (*http.Response, error) {
			params := r.params()
			params.Follow, params.After = &follow, r.after
			return r.client.Streams.ReadLogs(ctx, r.ID, params)
		},
		Lost: func(reason error) { r.Printer.Errorf("%s", r.client.LostText(reason)) },
		Take: r.take,
	})
}

func (r *logReader) take(m client.Message) (done bool, err error) {
	switch m.Name {
	case "end":
		return true, nil
	case "log":
		r.after = flags.NilIfZero(m.ID)
		return false, taskview.LogLine(r.Printer, m.Data)
	case "dropped":
		var gone wire.Dropped
		if err := json.Unmarshal(m.Data, &gone); err != nil {
			return true, rest.Misunderstood(err)
		}
		if gone.Detail != nil {
			r.Printer.Warn([]string{*gone.Detail})
		}
	}
	return false, nil
}
