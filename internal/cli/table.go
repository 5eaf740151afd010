package cli

import (
	"strings"
	"unicode/utf8"
)

// column is one column of a table of Ts.
type column[T any] struct {
	name  string
	value func(T) any
}

// printTable prints one line a row: aligned under a header on a terminal, separated by tabs elsewhere. It does
// not use text/tabwriter, which counts the bytes that switch colours.
func printTable[T any](s *session, columns []column[T], rows []T) error {
	if !s.OutIsTerminal {
		return s.printTabbed(cellsOf(columns, rows))
	}
	if len(rows) == 0 {
		return s.printf("Nothing found.\n")
	}
	header := make([]any, len(columns))
	for i, c := range columns {
		header[i] = strings.ToUpper(c.name)
	}
	return s.printAligned(append([][]any{header}, cellsOf(columns, rows)...))
}

func cellsOf[T any](columns []column[T], rows []T) [][]any {
	cells := make([][]any, len(rows))
	for i, row := range rows {
		for _, c := range columns {
			cells[i] = append(cells[i], c.value(row))
		}
	}
	return cells
}

func (s *session) printTabbed(lines [][]any) error {
	var b strings.Builder
	for _, line := range lines {
		for i, cell := range line {
			if i > 0 {
				b.WriteByte('\t')
			}
			b.WriteString(s.text(cell))
		}
		b.WriteByte('\n')
	}
	return s.printf("%s", b.String())
}

func (s *session) printAligned(lines [][]any) error {
	var widths []int
	for _, line := range lines {
		for i, cell := range line {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(s.text(cell)))
		}
	}
	var b strings.Builder
	for _, line := range lines {
		s.writeAligned(&b, line, widths)
	}
	return s.printf("%s", b.String())
}

func (s *session) writeAligned(b *strings.Builder, line []any, widths []int) {
	gap := 0
	for i, cell := range line {
		text := s.text(cell)
		if text != "" {
			b.WriteString(strings.Repeat(" ", gap))
			b.WriteString(s.coloured(cell, text))
			gap = 0
		}
		gap += widths[i] - utf8.RuneCountInString(text) + 2
	}
	b.WriteByte('\n')
}

// detail is one line about a thing; a value that prints as nothing is left out.
type detail struct {
	name  string // as the API names it
	value any
}

// printDetails prints a name and a value a line.
func (s *session) printDetails(details []detail) error {
	var lines [][]any
	for _, d := range details {
		switch {
		case s.text(d.value) == "":
		case s.OutIsTerminal:
			lines = append(lines, []any{strings.ReplaceAll(d.name, "_", " "), d.value})
		default:
			lines = append(lines, []any{d.name, d.value})
		}
	}
	if s.OutIsTerminal {
		return s.printAligned(lines)
	}
	return s.printTabbed(lines)
}

// The colours, as terminals switch them on; reset switches them off.
const (
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	cyan   = "\x1b[36m"
	grey   = "\x1b[90m"
	reset  = "\x1b[0m"
)

// colours is which status has which colour. Those that only say that things go on have none.
var colours = map[status]string{
	"succeeded": green, "alive": green,
	"failed": red, "timeout": red, "lost": red, "dead": red,
	"running": cyan, "queued": cyan,
	"cancelled": yellow, "paused": yellow, "draining": yellow,
	"ended":  grey,
	"proved": green, "not proved": red,
	"missed": red, "skipped_overlap": yellow, "replaced": yellow, "excluded": grey,
}

func (s *session) coloured(cell any, text string) string {
	word, ok := cell.(status)
	if !ok || !s.colourful() {
		return text
	}
	if colour, ok := colours[word]; ok {
		return colour + text + reset
	}
	return text
}

func (s *session) colourful() bool {
	return s.OutIsTerminal && s.Getenv("NO_COLOR") == "" && s.Getenv("TERM") != "dumb"
}
