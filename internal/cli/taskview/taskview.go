// Package taskview shows what became of a task, at once or after waiting for its end.
package taskview

import (
	"cmp"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/printer"
)

// Show prints what became of a task: a sentence on a terminal, its id and state in a pipe.
func Show(p *printer.Printer, answer rest.Answer[wire.Task]) error {
	return p.Show(answer.Raw, func() error {
		if p.OutIsTerminal {
			return p.Printf("%s\n", Sentence(p, answer.Value))
		}
		return p.PrintTabbed([][]any{{answer.Value.ID, answer.Value.State}})
	})
}

// Sentence tells people in a few words what became of a task.
func Sentence(p *printer.Printer, t wire.Task) string {
	words := []string{t.ID, p.StatusWord(printer.Status(t.State))}
	switch {
	case WaitsFor(t) != "":
		words = append(words, "until the end of", WaitsFor(t))
	case t.State == wire.StateScheduled:
		words = append(words, "due", p.Text(t.RunAt))
	case t.State == wire.StateRunning && t.CancelRequestedAt != nil:
		words = append(words, "asked to stop")
	case t.State == wire.StateRunning && t.MoveRequestedAt != nil:
		words = append(words, "asked to move")
		if t.MoveTo != nil {
			words = append(words, "to", *t.MoveTo)
		}
	case duration(t) > 0:
		words = append(words, "after", p.Text(duration(t)))
	}
	if reason := printer.Deref(t.Error); reason != "" && t.State != wire.StateSucceeded {
		words = append(words, "("+printer.Flat(reason)+")")
	}
	return strings.Join(words, " ")
}

// WaitsFor returns the task whose end a task with a key waits for; "" for none.
func WaitsFor(t wire.Task) string {
	if t.State != wire.StateScheduled || t.Once == nil || !t.RunAt.IsZero() {
		return ""
	}
	return cmp.Or(printer.Deref(t.Once.After), "another task with its key")
}

// Reason says in words why a task did not succeed.
func Reason(t wire.Task) string {
	text := t.ID + " " + string(t.State)
	if t.State == wire.StateCancelled {
		text = t.ID + " was cancelled"
	}
	if reason := printer.Deref(t.Error); reason != "" {
		text += ": " + printer.Flat(reason)
	}
	return text
}

// duration returns how long the newest attempt ran, 0 if it has not ended.
func duration(t wire.Task) time.Duration {
	if t.StartedAt == nil || t.FinishedAt == nil {
		return 0
	}
	return max(0, t.FinishedAt.Sub(t.StartedAt.Time))
}
