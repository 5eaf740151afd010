package importer

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/printer"
)

// importing puts the schedules of an import.
type importing struct {
	client    *rest.Client
	printer   *printer.Printer
	lines     []imported
	labels    wire.Labels // of its schedules
	prune     bool        // delete the leftovers
	leftovers []imported
}

// run puts all schedules, and looks for those of earlier imports that are left over. Error: the server cannot be reached, and
// the rest is not done.
func (i *importing) run(ctx context.Context) error {
	if err := i.put(ctx); err != nil {
		return err
	}
	if err := i.findLeftovers(ctx); err != nil {
		return fmt.Errorf("looking for schedules that are left over: %w", err)
	}
	if i.prune && i.whyNotPrune() == "" {
		return i.pruneLeftovers(ctx)
	}
	return nil
}

// put puts all schedules; a refusal of one does not hold back the others. Error: the server cannot be reached, and the rest is not put.
func (i *importing) put(ctx context.Context) error {
	for n := range i.lines {
		if i.lines[n].outcome != "" {
			continue
		}
		err := i.putOne(ctx, &i.lines[n])
		refusal := rest.RefusalIn(err)
		switch {
		case refusal != nil:
			i.lines[n].outcome, i.lines[n].reason = refused, refusal.Error()
		case err != nil:
			return fmt.Errorf("line %d and those after it: %w", i.lines[n].number, err)
		}
	}
	return nil
}

func (i *importing) putOne(ctx context.Context, line *imported) error {
	body, err := wire.Encode(line.definition)
	if err != nil {
		return err
	}
	params := &client.PutScheduleParams{Namespace: i.client.Namespace}
	response, err := i.client.PutScheduleWithBodyWithResponse(ctx, line.id, params, rest.JSONType, bytes.NewReader(body))
	answer, err := rest.Read[wire.Schedule](response, err)
	if err != nil {
		return err
	}
	i.printer.Warn(answer.Value.Warnings)
	line.outcome = response.HTTPResponse.Header.Get("Dts-Change")
	return nil
}

// conclude tells what became of each line, and the sum. failure is why not all were put.
func (i *importing) conclude(failure error) error {
	tellRefusals(i.printer, i.lines)
	if err := i.show(); err != nil && failure == nil {
		failure = err
	}
	i.printer.Notef("%s", summary(i.lines))
	i.tellLeftovers()
	if failure == nil {
		failure = anyRefused(slices.Concat(i.lines, i.leftovers))
	}
	return failure
}

// result is what became of a line, or of a schedule that is of no line any more, as JSON.
type result struct {
	Line    int    `json:"line,omitempty"`
	ID      string `json:"id,omitempty"`
	Outcome string `json:"outcome"`
	Reason  string `json:"reason,omitempty"`
}

func (i *importing) show() error {
	results := []result{}
	var rows [][]any
	for _, line := range slices.Concat(i.lines, i.leftovers) {
		if line.outcome == "" {
			continue
		}
		results = append(results, result{line.number, line.id, line.outcome, line.reason})
		rows = append(rows, []any{cell(line.number), line.id, line.outcome, line.reason})
	}
	raw, err := wire.Encode(map[string]any{"results": results})
	if err != nil {
		return err
	}
	return i.printer.Show(raw, func() error {
		if !i.printer.ForPeople() {
			return i.printer.PrintTabbed(rows)
		}
		for _, r := range results {
			if r.Outcome == refused {
				continue // it is told already
			}
			if err := i.printer.Printf("%sschedule %s %s\n", r.place(), r.ID, r.Outcome); err != nil {
				return err
			}
		}
		return nil
	})
}

// place is where a person finds the line.
func (r result) place() string {
	if r.Line == 0 {
		return ""
	}
	return fmt.Sprintf("line %d: ", r.Line)
}

// cell is the number of a line in a table; it is empty for what is of no line.
func cell(number int) any {
	if number == 0 {
		return ""
	}
	return number
}

// tellRefusals names the lines that were not imported.
func tellRefusals(p *printer.Printer, lines []imported) {
	for _, line := range lines {
		if line.outcome == refused {
			p.Errorf("line %d: %s", line.number, line.reason)
		}
	}
}

func anyRefused(lines []imported) error {
	for _, line := range lines {
		if line.outcome == refused {
			return command.ErrReported
		}
	}
	return nil
}

// summary counts the lines by what became of them.
func summary(lines []imported) string {
	count := make(map[string]int)
	for _, line := range lines {
		count[line.outcome]++
	}
	done := count["created"] + count["changed"] + count["unchanged"]
	text := fmt.Sprintf("%d of %d lines were imported", done, len(lines))
	if n := count["unchanged"]; n > 0 {
		text += fmt.Sprintf(" (%d of them unchanged)", n)
	}
	if n := count[refused]; n > 0 {
		text += fmt.Sprintf(", %d refused", n)
	}
	return text
}
