package main

import (
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/task"
)

func TestMachinedoc_ShowsEveryTransitionInDiagramAndTable(t *testing.T) {
	var b strings.Builder
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	for _, from := range rows() {
		for _, action := range task.Actions {
			to, ok := task.Next(from, action)
			if !ok {
				continue
			}
			arrow := "    " + node(from) + " --> " + node(to) + ": "
			if line := lineWith(b.String(), arrow); !strings.Contains(line, string(action)) {
				t.Errorf("%s from %s: the diagram says %q", action, name(from), line)
			}
			row := strings.Split(lineWith(b.String(), "| **"+name(from)+"** |"), "|")
			if got := strings.TrimSpace(row[column(action)]); got != name(to) {
				t.Errorf("%s from %s: the table says %q, want %q", action, name(from), got, name(to))
			}
		}
	}
}

func lineWith(text, prefix string) string {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, prefix) {
			return line
		}
	}
	return ""
}

// column is where the action stands in a row cut at its bars: after the empty start and the state.
func column(action task.Action) int {
	for i, a := range task.Actions {
		if a == action {
			return i + 2
		}
	}
	return 0
}
