package command

import (
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/cli/server"
)

// ShowPages prints a list, and says on stderr what is missing in it, whether it goes on, and how. Of a list that goes on, a
// document says so by itself, unless it is shorter than was asked for.
func ShowPages[T any](p *printer.Printer, pages server.Pages[T], columns []printer.Column[T]) error {
	raw, err := pages.JSON()
	if err != nil {
		return err
	}
	p.Warn(pages.Warnings)
	switch {
	case pages.Late:
		defer p.Notef("Stopped with %d, as few of those that were looked at match. Go on with --cursor %s, look longer with --within, "+
			"or at all of them with --all.", len(pages.Rows), pages.Next)
	case pages.More && p.IsTable():
		defer p.Notef("There are more; --all lists them.")
	}
	return p.Show(raw, func() error { return printer.PrintTable(p, columns, pages.Rows) })
}
