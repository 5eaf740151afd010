package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
)

// logPageLimit is how many lines the server puts into one page at most.
const logPageLimit = 1000

type logsOptions struct {
	session *session
	id      string
	follow  bool
	tail    int
	after   *string // the cursor of the newest line that is known
}

func newLogsCommand(s *session) *cobra.Command {
	o := logsOptions{session: s}
	cmd := &cobra.Command{
		Use: "logs ID", Short: "Print what a task wrote", Args: named("ID"),
		Long: `logs prints the lines a task wrote, of all its attempts; the newest 1,000 are remembered. What the task wrote to its
standard output goes to standard output, everything else to standard error. With -o json or -o yaml, all lines go
to standard output, one object each, with their attempt, stream and time.

With --follow it goes on until the task has ended, or until it is interrupted, and then ends with 0. A connection that
breaks is taken up again; no line is lost or printed twice.`,
		Example: `  dtsctl task logs nightly
  dtsctl task logs nightly -f --tail 20`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.id = args[0]
			if o.tail < 0 && cmd.Flags().Changed("tail") {
				return usagef("--tail: %d is negative", o.tail)
			}
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().BoolVarP(&o.follow, "follow", "f", false, "go on until the task has ended")
	cmd.Flags().IntVar(&o.tail, "tail", -1, "only so many of the lines that are there (default all)")
	return cmd
}

func (o *logsOptions) run(ctx context.Context) error {
	if !o.follow || o.tail >= 0 {
		if err := o.printWritten(ctx); err != nil {
			return err
		}
	}
	if !o.follow {
		return nil
	}
	return orInterrupted(ctx, o.runFollow(ctx))
}

// orInterrupted is err, but for the end of a command that goes on until somebody ends it.
func orInterrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// printWritten prints the lines that are there.
func (o *logsOptions) printWritten(ctx context.Context) error {
	lines, err := o.written(ctx)
	if err != nil {
		return err
	}
	if o.tail >= 0 && len(lines) > o.tail {
		lines = lines[len(lines)-o.tail:]
	}
	for _, raw := range lines {
		if err := o.print(raw); err != nil {
			return err
		}
	}
	return nil
}

// written reads all lines that are there, as the server sent them.
func (o *logsOptions) written(ctx context.Context) ([]json.RawMessage, error) {
	c, err := o.session.calls()
	if err != nil {
		return nil, err
	}
	var lines []json.RawMessage
	limit := logPageLimit
	for {
		a, err := ask[rawLogPage](c.ReadLogsWithResponse(ctx, o.id, &client.ReadLogsParams{
			Namespace: o.session.namespaceParam(), After: o.after, Limit: &limit,
		}))
		if err != nil {
			return nil, err
		}
		lines = append(lines, a.value.Lines...)
		if a.value.NextCursor != nil {
			o.after = a.value.NextCursor
		}
		if len(a.value.Lines) < limit {
			return lines, nil
		}
	}
}

// rawLogPage is a LogPage whose lines are as the server sent them.
type rawLogPage struct {
	Lines      []json.RawMessage `json:"lines"`
	NextCursor *string           `json:"next_cursor"`
}

func (o *logsOptions) runFollow(ctx context.Context) error {
	c, err := o.session.streams()
	if err != nil {
		return err
	}
	follow := true
	return o.session.follow(ctx, feed{
		open: func(ctx context.Context) (*http.Response, error) {
			return c.ReadLogs(ctx, o.id, &client.ReadLogsParams{
				Namespace: o.session.namespaceParam(), Follow: &follow, After: o.after,
			})
		},
		opened: func() {}, lost: o.session.sayLost, take: o.take,
	})
}

func (o *logsOptions) take(m client.Message) (done bool, err error) {
	switch m.Name {
	case "end":
		return true, nil
	case "log":
		o.after = orNil(m.ID)
		return false, o.print(m.Data)
	}
	return false, nil
}

// print prints one line where it belongs.
func (o *logsOptions) print(raw json.RawMessage) error {
	return o.session.showLine(raw, func() error {
		var line client.LogLine
		if err := json.Unmarshal(raw, &line); err != nil {
			return misunderstood(err)
		}
		return o.session.printLog(line)
	})
}

func (s *session) printLog(line client.LogLine) error {
	var to io.Writer
	text := line.Text
	switch line.Stream {
	case "stdout":
		to = s.Out
	case "stderr":
		to = s.Err
	default: // a remark of DTS's
		to, text = s.Err, line.Stream+": "+text
	}
	if _, err := fmt.Fprintln(to, text); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	return nil
}
