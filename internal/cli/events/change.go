package events

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/printer"
)

// isChange reports whether an event of that type is about something else than a task.
func isChange(kind string) bool {
	about, _, _ := strings.Cut(kind, ".")
	switch wire.EventSubject(about) {
	case wire.SubjectSchedule, wire.SubjectWorkflow, wire.SubjectQueue, wire.SubjectLimit, wire.SubjectNode:
		return true
	}
	return false
}

func printChange(p *printer.Printer, c wire.Change) error {
	if p.OutIsTerminal {
		return p.Printf("%s\n", sentenceOf(p, c))
	}
	return p.PrintTabbed([][]any{{
		c.At, c.Type, c.Namespace, "", c.State, "", c.Queue, "", c.Node, "", "", "", "", "",
		c.Schedule, cell(c.Revision), cell(capacityOf(c)), c.By, c.Note, c.Workflow, c.LimitName,
	}})
}

// sentenceOf returns a change for people: when, what, of which thing, and the details.
func sentenceOf(p *printer.Printer, c wire.Change) string {
	about, what, _ := strings.Cut(c.Type, ".")
	name := cmp.Or(c.Schedule, c.Workflow, c.Queue, c.LimitName, c.Node) // it has one
	words := []string{
		c.At.In(p.Zone).Format("15:04:05.000"), printer.Pad(printer.Flat(what), 10),
		printer.Flat(about + " " + wire.Value(name)),
	}
	if c.Revision != nil {
		words = append(words, fmt.Sprintf("revision %d", *c.Revision))
	}
	switch capacity := capacityOf(c); {
	case capacity != nil && *capacity > 0:
		words = append(words, fmt.Sprintf("capacity %d", *capacity))
	case capacity != nil:
		words = append(words, "capacity none")
	}
	if c.State != nil {
		words = append(words, printer.Flat(*c.State))
	}
	if c.By != nil {
		words = append(words, "by "+printer.Flat(*c.By))
	}
	if c.Note != nil {
		words = append(words, "("+printer.Flat(*c.Note)+")")
	}
	return strings.Join(words, "  ")
}

// capacityOf returns the capacity of a queue in a change. Nodes of earlier releases call it limit only.
func capacityOf(c wire.Change) *int { return cmp.Or(c.Capacity, c.Limit) }
