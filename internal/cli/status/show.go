package status

import (
	"fmt"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/printer"
)

var columns = []printer.Column[wire.StatusReason]{
	{Name: "code", Value: func(r wire.StatusReason) any { return string(r.Code) }},
	{Name: "severity", Value: func(r wire.StatusReason) any { return printer.Status(r.Severity) }},
	{Name: "since", Value: func(r wire.StatusReason) any { return r.Since }},
	{Name: "about", Value: func(r wire.StatusReason) any { return string(r.About) }},
	{Name: "namespace", Value: func(r wire.StatusReason) any { return r.Namespace }},
	{Name: "id", Value: func(r wire.StatusReason) any { return r.ID }},
	{Name: "detail", Value: func(r wire.StatusReason) any { return r.Detail }},
	{Name: "to_do", Value: func(r wire.StatusReason) any { return r.ToDo }},
	{Name: "more", Value: func(r wire.StatusReason) any { return wire.Value(r.More) }},
}

// show prints a status: sentences for people, and a line for each reason in a pipe.
func show(p *printer.Printer, s wire.Status) error {
	if !p.OutIsTerminal {
		return printer.PrintTable(p, columns, s.Reasons)
	}
	lines := []string{printer.Flat(s.Sentence)}
	for _, r := range s.Reasons {
		lines = append(lines, "", heading(p, r), "  "+printer.Flat(r.Detail), "  "+printer.Flat(r.ToDo))
		if r.More != nil {
			lines = append(lines, fmt.Sprintf("  The same holds for %d more.", *r.More))
		}
	}
	lines = append(lines, "")
	lines = append(lines, figures(p, s.Figures)...)
	return p.Printf("%s\n", strings.Join(lines, "\n"))
}

// heading is how bad a reason is, its code, what it is about and since when it holds.
func heading(p *printer.Printer, r wire.StatusReason) string {
	words := []string{p.StatusWord(printer.Status(r.Severity)), string(r.Code)}
	if r.ID != nil {
		words = append(words, string(r.About)+" "+printer.Flat(*r.ID))
	}
	text := strings.Join(words, "  ")
	if r.Since != nil && r.Since.Before(p.Now()) {
		if span := printer.Span(p.Now().Sub(r.Since.Time)); span != "" {
			text += "  for " + span
		}
	}
	return text
}

// figures are the numbers of a status, as lines.
func figures(p *printer.Printer, f wire.StatusFigures) []string {
	rate := func(perSecond *float32) string { return p.Text(printer.Rate(wire.Value(perSecond))) }
	memory := func(n int64) string { return p.Text(printer.Bytes(n)) }
	lines := []string{fmt.Sprintf("Now: %s, %d of %s taken", printer.Counted(f.Nodes, "node"), f.Running,
		printer.Counted(f.Capacity, "slot"))}
	if f.Waiting != nil {
		lines[0] += ", " + printer.Counted(*f.Waiting, "task") + " waiting"
		if f.WaitingUnderLimits != nil {
			lines[0] += fmt.Sprintf(", %d of them under limits", *f.WaitingUnderLimits)
		}
	}
	if f.OverMs != nil {
		span := printer.Span(time.Duration(*f.OverMs) * time.Millisecond)
		lines = append(lines,
			fmt.Sprintf("Last %s: %s begun, %s ended, %s failed a second", span, rate(f.BegunPerSecond),
				rate(f.EndedPerSecond), rate(f.FailedPerSecond)))
	}
	if f.LateMaxMs != nil {
		lines = append(lines,
			fmt.Sprintf("Lateness: median %s, 99 %% below %s, at most %s", duration(f.LateP50Ms), duration(f.LateP99Ms),
				duration(f.LateMaxMs)))
	}
	if f.RedisMemory == nil {
		return lines
	}
	text := "Redis: " + memory(*f.RedisMemory)
	if f.RedisMaxMemory != nil {
		text += " of " + memory(*f.RedisMaxMemory)
	}
	if f.RedisRoundTripMs != nil {
		text += fmt.Sprintf(", answers in %.1f ms", *f.RedisRoundTripMs)
	}
	return append(lines, text)
}

// duration is a time in ms, as Go writes it.
func duration(ms *int64) string { return (time.Duration(wire.Value(ms)) * time.Millisecond).String() }
