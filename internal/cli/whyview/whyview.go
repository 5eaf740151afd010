// Package whyview shows what a task, a schedule or a queue waits for.
package whyview

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/printer"
)

// Columns are what a pipe gets of each reason, for the help of commands.
const Columns = "code, since, ahead, next_attempt_at, last_error, detail, to_do, tasks"

// Show prints the answer: sentences on a terminal, and a line for each reason in a pipe.
func Show(p *printer.Printer, name string, answer rest.Answer[wire.Why]) error {
	p.Warn(answer.Value.Warnings)
	return p.Show(answer.Raw, func() error {
		if p.OutIsTerminal {
			return p.Printf("%s", text(p, name, answer.Value))
		}
		return printer.PrintTable(p, columns, slices.Concat(reasonsOf(answer.Value), answer.Value.Beside))
	})
}

var columns = []printer.Column[wire.WaitingFor]{
	{Name: "code", Value: func(r wire.WaitingFor) any { return r.Code }},
	{Name: "since", Value: func(r wire.WaitingFor) any { return r.Since }},
	{Name: "ahead", Value: func(r wire.WaitingFor) any { return number(r.Ahead) }},
	{Name: "next_attempt_at", Value: func(r wire.WaitingFor) any { return r.NextAttemptAt }},
	{Name: "last_error", Value: func(r wire.WaitingFor) any { return r.LastError }},
	{Name: "detail", Value: func(r wire.WaitingFor) any { return r.Detail }},
	{Name: "to_do", Value: func(r wire.WaitingFor) any { return r.ToDo }},
	{Name: "tasks", Value: func(r wire.WaitingFor) any { return number(r.Tasks) }},
}

// number is a number for a pipe; "" if it is not known.
func number(n *int) any {
	if n == nil {
		return ""
	}
	return *n
}

// reasonsOf returns all reasons, what must change first at the beginning.
func reasonsOf(w wire.Why) []wire.WaitingFor {
	if w.WaitingFor == nil {
		return nil
	}
	return append([]wire.WaitingFor{*w.WaitingFor}, w.Also...)
}

// text is what people read: what it does now, if that is known, and each reason with what to do.
func text(p *printer.Printer, name string, w wire.Why) string {
	var lines []string
	subject := printer.Flat(name)
	if w.Now != nil {
		lines = append(lines, subject+": "+printer.Flat(*w.Now), "")
		subject = "It"
	}
	for i, r := range reasonsOf(w) {
		switch i {
		case 0:
			lines = append(lines, subject+" waits for this:")
		case 1:
			lines = append(lines, "", "Then this must change, too:")
		}
		lines = append(lines, paragraph(p, r)...)
	}
	if w.WaitingFor == nil {
		lines = append(lines, subject+" waits for nothing.")
	}
	for i, r := range w.Beside {
		if i == 0 {
			lines = append(lines, "", "Beside that:")
		}
		lines = append(lines, paragraph(p, r)...)
	}
	return strings.Join(lines, "\n") + "\n"
}

// paragraph is a reason, and what to do.
func paragraph(p *printer.Printer, r wire.WaitingFor) []string {
	return []string{"  " + heading(p, r), "    " + printer.Flat(r.Detail), "    " + printer.Flat(r.ToDo)}
}

// heading is the code of a reason, since when it holds, and how many tasks go first or, of a queue, wait for it.
func heading(p *printer.Printer, r wire.WaitingFor) string {
	words := []string{string(r.Code)}
	if r.Since != nil && r.Since.Before(p.Now()) {
		if span := printer.Span(p.Now().Sub(r.Since.Time)); span != "" {
			words = append(words, "for "+span)
		}
	}
	if r.NextAttemptAt != nil {
		words = append(words, "due "+p.Text(r.NextAttemptAt))
	}
	switch {
	case r.Tasks != nil && r.Ahead != nil:
		words = append(words, fmt.Sprintf("%d of %s", *r.Tasks, printer.Counted(*r.Ahead, "task")))
	case r.Ahead != nil:
		words = append(words, printer.Counted(*r.Ahead, "task")+" ahead")
	}
	return strings.Join(words, ", ")
}
