package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"github.com/dts-sched/dts/internal/api/client"
)

// What goes into one request; the server takes 1,000 tasks and 8 MiB.
const (
	batchTasks = 1000
	batchBytes = 6 << 20
)

// batch is some of the lines of a file.
type batch struct {
	lines   []json.RawMessage
	numbers []int // of the lines in the file, from 1
	bytes   int
}

// runFile submits the tasks of a file, as many in a request as the server takes.
func (o *submitOptions) runFile(ctx context.Context) error {
	if other := o.besidesFile(); other != "" {
		return usagef("--file and --%s: the tasks in the file say everything themselves", other)
	}
	in, err := o.session.openInput(o.file)
	if err != nil {
		return usagef("--file: %v", err)
	}
	defer func() { _ = in.Close() }()
	refused := 0
	err = eachBatch(in, func(b batch) error {
		no, err := o.session.submitBatch(ctx, b)
		refused += no
		return err
	})
	if err != nil {
		return err
	}
	if refused > 0 {
		o.session.say("%d of the tasks %s refused", refused, wasOrWere(refused))
		return errFailed
	}
	return nil
}

func wasOrWere(n int) string {
	if n == 1 {
		return "was"
	}
	return "were"
}

// besidesFile is the name of a flag that does not go with --file, "" if there is none.
func (o *submitOptions) besidesFile() (name string) {
	o.flags.Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "file", "server", "namespace", "output", "request-timeout":
		default:
			name = f.Name
		}
	})
	return name
}

// eachBatch cuts lines into batches. Empty lines are passed over; their number counts.
func eachBatch(in io.Reader, send func(batch) error) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, textLimit)
	var b batch
	number := 0
	for lines.Scan() {
		number++
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		if !json.Valid(line) {
			return usagef("--file: line %d is not JSON", number)
		}
		if len(b.lines) == batchTasks || len(b.lines) > 0 && b.bytes+len(line) > batchBytes {
			if err := send(b); err != nil {
				return err
			}
			b = batch{}
		}
		b.add(number, line)
	}
	if err := lines.Err(); err != nil {
		return usagef("--file: after line %d: %v", number, err)
	}
	if len(b.lines) == 0 {
		return nil
	}
	return send(b)
}

func (b *batch) add(number int, line []byte) {
	b.numbers = append(b.numbers, number)
	b.lines = append(b.lines, bytes.Clone(line))
	b.bytes += len(line)
}

// submitBatch submits the lines, prints what became of each, and returns how many were refused.
func (s *session) submitBatch(ctx context.Context, b batch) (refused int, err error) {
	c, err := s.calls()
	if err != nil {
		return 0, err
	}
	body, err := bodyOf(map[string][]json.RawMessage{"tasks": b.lines})
	if err != nil {
		return 0, err
	}
	a, err := ask[client.BatchAnswer](c.SubmitTasksWithBodyWithResponse(ctx, &client.SubmitTasksParams{Namespace: s.namespaceParam()}, jsonType, body))
	if err != nil {
		return 0, fmt.Errorf("the tasks from line %d on (tasks[0] is that line): %w", b.numbers[0], err)
	}
	if len(a.value.Results) != len(b.lines) {
		return 0, misunderstood(fmt.Errorf("it has %d results for %d tasks", len(a.value.Results), len(b.lines)))
	}
	for _, r := range a.value.Results {
		if r.Error != nil {
			refused++
		}
	}
	return refused, s.show(a.raw, func() error { return s.printTabbed(resultLines(b, a.value.Results)) })
}

// resultLines has a line for each task: its line in the file, its id, the status, and what was wrong with it.
func resultLines(b batch, results []client.BatchResult) [][]any {
	lines := make([][]any, len(results))
	for i, r := range results {
		var id, reason string
		if r.Task != nil {
			id = r.Task.ID
		}
		if r.Error != nil {
			reason = strings.TrimSpace((&refusal{*r.Error}).Error())
		}
		lines[i] = []any{b.numbers[i], id, r.Status, reason}
	}
	return lines
}
