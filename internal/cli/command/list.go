package command

import (
	"math"

	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/cli/server"
)

// terminalRows is how many rows a terminal gets at most: a table is as wide as the widest of them, so all are kept.
const terminalRows = 10_000

// ListPages reads a list and prints it. A pipe gets the rows of each page as it comes. It says on stderr what is
// missing in the list, whether it goes on, and how. The field name of each page has the rows.
func ListPages[T any](
	p *printer.Printer, w server.Window, name string, read server.Reader, columns []printer.Column[T],
) (pages server.Pages[T], err error) {
	if p.IsTable() && !p.OutIsTerminal {
		pass := func(rows []T) error { return printer.PrintTable(p, columns, rows) }
		if pages, err = server.PassPages(w, name, read, pass); err == nil {
			p.Warn(pages.Warnings)
			noteMore(p, w, pages)
		}
		return pages, err
	}
	if w.All && p.IsTable() {
		w.All, w.Limit, w.Within = false, terminalRows, math.MaxInt64
	}
	if pages, err = server.ReadPages[T](w, name, read); err != nil {
		return pages, err
	}
	raw, err := pages.JSON()
	if err != nil {
		return pages, err
	}
	p.Warn(pages.Warnings)
	defer noteMore(p, w, pages)
	return pages, p.Show(raw, func() error { return printer.PrintTable(p, columns, pages.Rows) })
}

// noteMore says whether a list goes on, and how. A document says so by itself, unless it is shorter than was asked for.
func noteMore[T any](p *printer.Printer, w server.Window, pages server.Pages[T]) {
	switch {
	case pages.Late:
		p.Notef("Stopped with %d, as few of those that were looked at match. Go on with --cursor %s, look longer with "+
			"--within, or at all of them with --all.", pages.Count, pages.Next)
	case pages.More && p.IsTable() && w.Limit >= terminalRows:
		p.Notef("There are more; --cursor %s lists those behind these, and --all in a pipe lists all of them.", pages.Next)
	case pages.More && p.IsTable():
		p.Notef("There are more; --all lists them.")
	}
}
