package printer

import (
	"cmp"
	"slices"
	"strings"
)

// Column is one column of a table of Ts.
type Column[T any] struct {
	Name  string
	Value func(T) any // see Text for the types of values
	Gives bool        // its values are cut on a terminal for which the table is too wide
}

const (
	usualWidth = 120 // of a terminal that does not tell its width
	leastWidth = 8   // of values that are cut
)

// PrintTable prints one line per row: aligned under a header on a terminal, separated by tabs elsewhere. It does not
// use text/tabwriter, which counts bytes, colour codes included, as columns.
func PrintTable[T any](p *Printer, columns []Column[T], rows []T) error {
	cells := Cells(columns, rows)
	if !p.OutIsTerminal {
		return p.PrintTabbed(cells)
	}
	if len(rows) == 0 {
		return p.Printf("Nothing found.\n")
	}
	header := make([]any, len(columns))
	for i, c := range columns {
		header[i] = strings.ToUpper(c.Name)
	}
	lines := append([][]any{header}, cells...)
	excess := -2 - cmp.Or(p.Width, usualWidth)
	widths := p.widths(lines)
	for _, w := range widths {
		excess += w + 2
	}
	for i, c := range slices.Backward(columns) {
		if c.Gives && excess > 0 {
			limit := max(widths[i]-excess, leastWidth, Width(c.Name))
			excess -= max(0, widths[i]-limit)
			for _, row := range cells {
				row[i] = clip(p.Text(row[i]), limit)
			}
		}
	}
	return p.PrintAligned(lines)
}

// Cells returns the values of a table, row by row.
func Cells[T any](columns []Column[T], rows []T) [][]any {
	cells := make([][]any, len(rows))
	for i, row := range rows {
		for _, c := range columns {
			cells[i] = append(cells[i], c.Value(row))
		}
	}
	return cells
}

// PrintTabbed prints lines of values separated by tabs.
func (p *Printer) PrintTabbed(lines [][]any) error {
	var b strings.Builder
	for _, line := range lines {
		for i, cell := range line {
			if i > 0 {
				b.WriteByte('\t')
			}
			b.WriteString(p.Text(cell))
		}
		b.WriteByte('\n')
	}
	return p.Printf("%s", b.String())
}

// PrintAligned prints lines of values whose columns are as wide as their widest value.
func (p *Printer) PrintAligned(lines [][]any) error {
	widths := p.widths(lines)
	var b strings.Builder
	for _, line := range lines {
		p.writeAligned(&b, line, widths)
	}
	return p.Printf("%s", b.String())
}

// widths are how wide the widest value of each column is.
func (p *Printer) widths(lines [][]any) []int {
	var widths []int
	for _, line := range lines {
		for i, cell := range line {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], Width(p.Text(cell)))
		}
	}
	return widths
}

func (p *Printer) writeAligned(b *strings.Builder, line []any, widths []int) {
	gap := 0
	for i, cell := range line {
		text := p.Text(cell)
		if text != "" {
			b.WriteString(strings.Repeat(" ", gap))
			b.WriteString(p.colourCell(cell, text))
			gap = 0
		}
		gap += widths[i] - Width(text) + 2
	}
	b.WriteByte('\n')
}

// Detail is one line about a thing. A value whose text is empty is left out.
type Detail struct {
	Name  string // as the API names it
	Value any
}

// PrintDetails prints one name and value per line.
func (p *Printer) PrintDetails(details []Detail) error {
	var lines [][]any
	for _, d := range details {
		switch {
		case p.Text(d.Value) == "":
		case p.OutIsTerminal:
			lines = append(lines, []any{strings.ReplaceAll(d.Name, "_", " "), d.Value})
		default:
			lines = append(lines, []any{d.Name, d.Value})
		}
	}
	if p.OutIsTerminal {
		return p.PrintAligned(lines)
	}
	return p.PrintTabbed(lines)
}
