package task

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/flags"
	"github.com/dts-sched/dts/internal/cli/printer"
)

// logPageLimit is the most lines that the server puts into one page.
const logPageLimit = 1000

type logsOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer

	ID     string
	Follow bool
	Tail   *int // nil means all lines
}

func newLogsCommand(f *command.Factory) *cobra.Command {
	opts := &logsOptions{Client: f.Client, Printer: f.Printer}
	cmd := &cobra.Command{
		Use: "logs ID", Short: "Print the log of a task", Args: command.ExactArgs("ID"),
		Annotations: command.Asks("readLogs", "getTask"),
		Long: `logs prints the lines a task wrote, of all its attempts; the server keeps the newest 1,000. What the task wrote to its
standard output goes to standard output, everything else to standard error. With -o json or -o yaml, all lines go
to standard output, one object each, with their attempt, stream and time. On a terminal, lines are shown without
colours and control characters; a pipe gets them as they were written.

With --follow it goes on until the task has ended, or until it is interrupted, and then ends with 0. When the connection
breaks, it reconnects; no line is lost or printed twice.`,
		Example: `  dtsctl task logs nightly
  dtsctl task logs nightly -f --tail 20`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if opts.Tail != nil && *opts.Tail < 0 {
				return command.Usagef("--tail: %d is negative", *opts.Tail)
			}
			opts.ID = args[0]
			return logsRun(cmd.Context(), opts)
		},
	}
	cmd.Flags().BoolVarP(&opts.Follow, "follow", "f", false, "go on until the task has ended")
	flags.Int(cmd.Flags(), &opts.Tail, "tail", "begin with so many of the newest lines (default all)")
	return cmd
}

func logsRun(ctx context.Context, opts *logsOptions) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	r := logReader{logsOptions: opts, client: c}
	if !opts.Follow || opts.Tail != nil {
		if err := r.printWritten(ctx); err != nil {
			return err
		}
	}
	if !opts.Follow {
		return nil
	}
	return command.UnlessInterrupted(ctx, r.follow(ctx))
}

// logReader reads the log of a task and prints it.
type logReader struct {
	*logsOptions
	client *rest.Client
	after  *string // the cursor of the newest line that was read
}

// printWritten prints the lines that exist already.
func (r *logReader) printWritten(ctx context.Context) error {
	lines, err := r.readWritten(ctx)
	if err != nil {
		return err
	}
	if r.Tail != nil && len(lines) > *r.Tail {
		lines = lines[len(lines)-*r.Tail:]
	}
	for _, raw := range lines {
		if err := r.print(raw); err != nil {
			return err
		}
	}
	return nil
}

// rawLogPage is a client.LogPage whose lines are as the server sent them.
type rawLogPage struct {
	Lines      []json.RawMessage `json:"lines"`
	NextCursor *string           `json:"next_cursor"`
	More       bool              `json:"more"`
	Warnings   []string          `json:"warnings"`
}

// readWritten reads all lines that exist already, as the server sent them.
func (r *logReader) readWritten(ctx context.Context) ([]json.RawMessage, error) {
	var lines []json.RawMessage
	limit := logPageLimit
	for {
		params := &client.ReadLogsParams{Namespace: r.client.Namespace, After: r.after, Limit: &limit}
		answer, err := rest.Read[rawLogPage](r.client.ReadLogsWithResponse(ctx, r.ID, params))
		if err != nil {
			return nil, err
		}
		page := answer.Value
		r.Printer.Warn(page.Warnings)
		lines = append(lines, page.Lines...)
		if page.NextCursor != nil {
			r.after = page.NextCursor
		}
		if !page.More && len(page.Lines) < limit { // an older server does not tell
			return lines, nil
		}
	}
}

// follow prints new lines until the task has ended.
func (r *logReader) follow(ctx context.Context) error {
	follow := true
	return r.client.Follow(ctx, rest.Stream{
		Open: func(ctx context.Context) (*http.Response, error) {
			params := &client.ReadLogsParams{Namespace: r.client.Namespace, Follow: &follow, After: r.after}
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
		return false, r.print(m.Data)
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

func (r *logReader) print(raw json.RawMessage) error {
	return r.Printer.ShowLine(raw, func() error {
		var line wire.LogLine
		if err := json.Unmarshal(raw, &line); err != nil {
			return rest.Misunderstood(err)
		}
		return printLogLine(r.Printer, line)
	})
}

// printLogLine prints a line where the task wrote it. What DTS itself wrote goes to standard error. A pipe gets the
// line as it was written; a terminal gets no colours and nothing else that it would obey.
func printLogLine(p *printer.Printer, line wire.LogLine) error {
	to, terminal, text := p.Err, p.ErrIsTerminal, line.Text
	switch line.Stream {
	case "stdout":
		to, terminal = p.Out, p.OutIsTerminal
	case "stderr":
	default:
		text = line.Stream + ": " + text
	}
	if terminal {
		text = printer.Harmless(text)
	}
	if _, err := fmt.Fprintln(to, text); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	return nil
}
