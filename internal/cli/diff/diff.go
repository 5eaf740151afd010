// Package diff shows how definitions of schedules differ.
package diff

import (
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/manifest"
)

// Print prints the changes for people, one field per line.
func Print(p *printer.Printer, changes []manifest.Change) error {
	lines := make([][]any, len(changes))
	for i, c := range changes {
		lines[i] = []any{"  " + c.Name, orDash(c.Before), "->", orDash(c.After)}
	}
	return p.PrintAligned(lines)
}

func orDash(value string) printer.Remark {
	if value == "" {
		return "-"
	}
	return printer.Remark(value)
}
