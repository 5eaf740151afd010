package command

import (
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/cli/server"
)

// ShowPages prints a list, and says on stderr what is missing in it, and whether it goes on. A document says both by itself.
func ShowPages[T any](p *printer.Printer, pages server.Pages[T], columns []printer.Column[T]) error {
	raw, err := pages.JSON()
	if err != nil {
		return err
	}
	p.Warn(pages.Warnings)
	if pages.More && p.IsTable() {
		defer p.Notef("There are more; --all lists them.")
	}
	return p.Show(raw, func() error { return printer.PrintTable(p, columns, pages.Rows) })
}
