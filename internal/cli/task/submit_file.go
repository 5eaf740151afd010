package task

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/flags"
	"github.com/dts-sched/dts/internal/cli/printer"
)

const (
	batchTasks   = 1000 // the most tasks that the server takes in one request
	refusalsTold = 20   // the most refused lines that are named one by one beside the result of each line
)

// submitFileRun submits the tasks of a file, as many per request as the server takes, and ends with a summary.
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
	opts.Printer.Persist = true
	s := fileSubmission{submitOptions: opts, client: c, line: printer.StatusLine{Printer: opts.Printer}}
	err = s.submit(ctx, in)
	s.line.Clear()
	return s.conclude(err)
}

// fileSubmission submits the tasks of a file.
type fileSubmission struct {
	*submitOptions
	client *rest.Client
	line   printer.StatusLine

	batch []fileLine
	bytes int // of the tasks in the batch

	created, existed, refused int
	sent                      bool // a request was sent
}

// submit submits all lines. Error: the file cannot be read, or a request failed; what was submitted before stays.
func (s *fileSubmission) submit(ctx context.Context, in io.Reader) error {
	for line, err := range fileLines(in) {
		if err != nil {
			return s.unreadable(ctx, err)
		}
		if len(s.batch) == batchTasks || s.bytes > 0 && s.bytes+len(line.task) > rest.BatchBytes {
			if err := s.flush(ctx); err != nil {
				return err
			}
		}
		s.batch = append(s.batch, line)
		s.bytes += len(line.task)
	}
	return s.flush(ctx)
}

// unreadable submits what was read and returns the error of the file.
func (s *fileSubmission) unreadable(ctx context.Context, reason error) error {
	if err := s.flush(ctx); err != nil {
		return err
	}
	if !s.sent {
		return command.Usagef("--file: %v", reason)
	}
	return fmt.Errorf("--file: %w", reason)
}

// flush submits the batch and tells what became of each line.
func (s *fileSubmission) flush(ctx context.Context) error {
	if len(s.batch) == 0 {
		return nil
	}
	batch := s.batch
	s.batch, s.bytes = nil, 0
	results, err := s.send(ctx, batch)
	if err != nil {
		return fmt.Errorf("line %d and those after it: %w", batch[0].number, err)
	}
	s.line.Clear()
	for i, r := range results {
		s.count(batch[i], r)
	}
	if err := s.show(batch, results); err != nil {
		return err
	}
	s.line.Draw(s.summary())
	return nil
}

// result is what became of a line: the result that the server answered, and the same in JSON.
type result struct {
	wire.BatchResult
	raw json.RawMessage
}

// send submits the lines that are tasks and returns a result for each line.
func (s *fileSubmission) send(ctx context.Context, batch []fileLine) ([]result, error) {
	results := make([]result, len(batch))
	var tasks []json.RawMessage
	var places []int
	for i, line := range batch {
		if line.task != nil {
			tasks, places = append(tasks, line.task), append(places, i)
			continue
		}
		p := wire.Problem{Code: wire.Invalid, Detail: line.why, Status: http.StatusBadRequest, Title: "The line is invalid", Type: "about:blank"}
		results[i].BatchResult = wire.BatchResult{Status: p.Status, Error: &p}
		raw, err := wire.Encode(results[i].BatchResult)
		if err != nil {
			return nil, err
		}
		results[i].raw = raw
	}
	if len(tasks) == 0 {
		return results, nil
	}
	s.sent = true
	answer, err := s.client.SubmitBatch(ctx, s.client.Namespace, tasks)
	if err != nil {
		return nil, err
	}
	var raw struct {
		Results []json.RawMessage `json:"results"`
	}
	if err := json.Unmarshal(answer.Raw, &raw); err != nil {
		return nil, rest.Misunderstood(err)
	}
	for n, r := range answer.Value.Results {
		results[places[n]] = result{r, raw.Results[n]}
	}
	return results, nil
}

// count counts a result, and names the line of a refused one.
func (s *fileSubmission) count(line fileLine, r result) {
	if r.Task != nil {
		s.Printer.Warn(rest.Troubles(*r.Task))
	}
	switch {
	case r.Status == http.StatusCreated:
		s.created++
	case r.Error == nil:
		s.existed++
	default:
		s.refused++
		if s.refused <= refusalsTold || s.Printer.ForPeople() {
			s.Printer.Errorf("line %d: %s", line.number, reasonOf(r))
		}
	}
}

func reasonOf(r result) string {
	if r.Error == nil {
		return ""
	}
	return strings.TrimSpace((&rest.Refusal{Problem: *r.Error}).Error())
}

// show prints the results where they are read by a program. People get the refused lines and the summary.
func (s *fileSubmission) show(batch []fileLine, results []result) error {
	if s.Printer.ForPeople() {
		return nil
	}
	all := make([]json.RawMessage, len(results))
	rows := make([][]any, len(results))
	for i, r := range results {
		all[i] = r.raw
		id := ""
		if r.Task != nil {
			id = r.Task.ID
		}
		rows[i] = []any{batch[i].number, id, r.Status, reasonOf(r)}
	}
	raw, err := wire.Encode(map[string]any{"results": all})
	if err != nil {
		return err
	}
	return s.Printer.Show(raw, func() error { return s.Printer.PrintTabbed(rows) })
}

// summary says how many tasks were accepted.
func (s *fileSubmission) summary() string {
	text := fmt.Sprintf("%d of %d tasks were accepted", s.created+s.existed, s.created+s.existed+s.refused)
	if s.existed > 0 {
		text += fmt.Sprintf(" (%d of them existed already)", s.existed)
	}
	if s.refused > 0 {
		text += fmt.Sprintf(", %d refused", s.refused)
	}
	return text
}

// conclude prints the summary and returns the error of the command. failure is why not all of the file was submitted.
func (s *fileSubmission) conclude(failure error) error {
	if failure != nil && !s.sent {
		return failure
	}
	if more := s.refused - refusalsTold; more > 0 && !s.Printer.ForPeople() {
		s.Printer.Notef("%d more lines were refused: the output says why", more)
	}
	s.Printer.Notef("%s", s.summary())
	if failure == nil && s.refused > 0 {
		return command.ErrReported
	}
	return failure
}
