package task

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/flags"
	"github.com/dts-sched/dts/internal/cli/server"
)

// batchTasks is the most tasks that the server takes in one request.
const batchTasks = 1000

// lineBatch is some lines of a file.
type lineBatch struct {
	lines   []json.RawMessage
	numbers []int // of the lines in the file, from 1
	bytes   int
}

// submitFileRun submits the tasks of a file, as many per request as the server takes.
func submitFileRun(ctx context.Context, opts *submitOptions) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	in, err := flags.OpenInput(opts.Stdin, *opts.File)
	if err != nil {
		return command.Usagef("--file: %v", err)
	}
	defer func() { _ = in.Close() }()
	refused := 0
	err = eachBatch(in, func(b lineBatch) error {
		n, err := submitBatch(ctx, c, opts, b)
		refused += n
		return err
	})
	switch {
	case err != nil:
		return err
	case refused == 1:
		opts.Printer.Errorf("1 of the tasks was refused")
	case refused > 1:
		opts.Printer.Errorf("%d of the tasks were refused", refused)
	default:
		return nil
	}
	return command.ErrReported
}

// eachBatch cuts the lines of a file into batches. It skips empty lines, but counts them.
func eachBatch(in io.Reader, send func(lineBatch) error) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, flags.TextLimit)
	var b lineBatch
	number := 0
	for lines.Scan() {
		number++
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		if !json.Valid(line) {
			return command.Usagef("--file: line %d is not JSON", number)
		}
		if len(b.lines) == batchTasks || len(b.lines) > 0 && b.bytes+len(line) > server.BatchBytes {
			if err := send(b); err != nil {
				return err
			}
			b = lineBatch{}
		}
		b.add(number, line)
	}
	if err := lines.Err(); err != nil {
		return command.Usagef("--file: after line %d: %v", number, err)
	}
	if len(b.lines) == 0 {
		return nil
	}
	return send(b)
}

func (b *lineBatch) add(number int, line []byte) {
	b.numbers = append(b.numbers, number)
	b.lines = append(b.lines, bytes.Clone(line))
	b.bytes += len(line)
}

// submitBatch submits the lines, prints what became of each, and returns how many were refused.
func submitBatch(ctx context.Context, c *server.Client, opts *submitOptions, b lineBatch) (refused int, err error) {
	answer, err := c.SubmitBatch(ctx, c.Namespace, b.lines)
	if err != nil {
		return 0, fmt.Errorf("the tasks from line %d on (tasks[0] is that line): %w", b.numbers[0], err)
	}
	for _, r := range answer.Value.Results {
		if r.Error != nil {
			refused++
		}
	}
	p := opts.Printer
	return refused, p.Show(answer.Raw, func() error { return p.PrintTabbed(resultLines(b, answer.Value.Results)) })
}

// resultLines returns a line per task: its line in the file, its id, the status, and the reason for a refusal.
func resultLines(b lineBatch, results []client.BatchResult) [][]any {
	lines := make([][]any, len(results))
	for i, r := range results {
		var id, reason string
		if r.Task != nil {
			id = r.Task.ID
		}
		if r.Error != nil {
			reason = strings.TrimSpace((&server.Refusal{Problem: *r.Error}).Error())
		}
		lines[i] = []any{b.numbers[i], id, r.Status, reason}
	}
	return lines
}
