package graph

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Options say how a graph is drawn.
type Options struct {
	Width int  // columns of the terminal; 0: DefaultWidth
	ASCII bool // with characters of ASCII only
}

// Widths, in columns.
const (
	DefaultWidth = 80
	labelWidth   = 24 // what lines leave free for the names of steps
)

// separate is how many lines to the same steps run beside each other. Further ones join one of them.
const separate = 8

// Draw returns the graph as text: a row for each step, layer by layer, with lines that lead down to what needs it. A
// line that comes to a step from above or from the side is one of its needs:
//
//	✓ extract  succeeded
//	│ ✓ prices  succeeded
//	│ │
//	▸─┘ join  active
//
// Steps whose lines take more width than there is are a list, which says what each one needs.
func Draw(steps []Step, o Options) string {
	d := &drawing{Options: o, signs: unicode, steps: steps, needs: edges(steps)}
	if d.Width == 0 {
		d.Width = DefaultWidth
	}
	if d.ASCII {
		d.signs = ascii
	}
	d.behind = make([][]int, len(steps))
	for i, from := range d.needs {
		for _, f := range from {
			d.behind[f] = append(d.behind[f], i)
		}
	}
	places := Layout(steps)
	order := make([]int, len(steps))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(places[a].Layer, places[b].Layer), cmp.Compare(places[a].Row, places[b].Row))
	})
	for at, i := range order {
		if at > 0 && places[i].Layer != places[order[at-1]].Layer {
			d.between()
		}
		if d.step(i); 2*len(d.lines)+labelWidth > d.Width {
			return d.list(order)
		}
	}
	return d.text.String()
}

// signs are the characters of a drawing.
type signs struct {
	states                           map[string]string
	down, across                     string
	leftOn, rightOn, on              string // a line that goes on below: at the left end, at the right end, between
	leftEnd, rightEnd, end, ellipsis string // a line that ends here
}

var (
	unicode = signs{
		states: map[string]string{
			"": "●", "blocked": "○", "active": "▸", "succeeded": "✓", "failed": "✗", "cancelled": "⊘", "skipped": "»",
			"upstream_failed": "⊗", "waiting": "◷",
		},
		down: "│", across: "─", leftOn: "├", rightOn: "┤", on: "┼", leftEnd: "└", rightEnd: "┘", end: "┴", ellipsis: "…",
	}
	ascii = signs{
		states: map[string]string{
			"": "*", "blocked": "o", "active": ">", "succeeded": "+", "failed": "x", "cancelled": "/", "skipped": "~",
			"upstream_failed": "!", "waiting": "w",
		},
		down: "|", across: "-", leftOn: "|", rightOn: "|", on: "|", leftEnd: "`", rightEnd: "'", end: "'", ellipsis: "...",
	}
)

// drawing is a graph whose first rows are drawn.
type drawing struct {
	Options
	signs
	steps  []Step
	needs  [][]int
	behind [][]int // the steps that need each one
	lines  [][]int // by column: the steps below to which a line still leads; nil: the column is free
	text   strings.Builder
}

// step draws the row of a step.
func (d *drawing) step(i int) {
	var from []int // the columns of lines that lead to the step
	at := -1       // the column of the step
	for c, line := range d.lines {
		if !slices.Contains(line, i) {
			continue
		}
		from = append(from, c)
		if len(line) == 1 && at < 0 {
			at = c // the line ends here, and that of the step takes its place
		}
	}
	if at < 0 {
		at = d.free(from)
	}
	d.row(at, from, d.sign(i), i)
	d.text.WriteString(" " + d.label(i, len(d.lines)) + "\n")
	for _, c := range from {
		d.lines[c] = without(d.lines[c], i)
	}
	d.lines[at] = d.behind[i]
	d.share(at)
	d.trim()
}

// free returns a free column, to the right of the first line that leads to the step.
func (d *drawing) free(from []int) int {
	first := 0
	if len(from) > 0 {
		first = from[0]
	}
	for c := first; c < len(d.lines); c++ {
		if len(d.lines[c]) == 0 {
			return c
		}
	}
	d.lines = append(d.lines, nil)
	return len(d.lines) - 1
}

// row draws all columns. Between the column at, which has a sign of its own, and the columns from, there is a line.
func (d *drawing) row(at int, from []int, sign string, step int) {
	lo, hi := at, at
	if len(from) > 0 {
		lo, hi = min(at, from[0]), max(at, from[len(from)-1])
	}
	for c, line := range d.lines {
		switch {
		case c == at:
			d.text.WriteString(sign)
		case slices.Contains(from, c):
			ends := len(line) == 1 && line[0] == step
			d.text.WriteString(d.corner(c, lo, hi, ends))
		case len(line) > 0:
			d.text.WriteString(d.down)
		default:
			d.text.WriteString(either(lo < c && c < hi, d.across, " "))
		}
		if c < len(d.lines)-1 {
			d.text.WriteString(either(lo <= c && c < hi, d.across, " "))
		}
	}
}

// corner returns the sign for where a line leaves its column c, for a step on a way from lo to hi.
func (d *drawing) corner(c, lo, hi int, ends bool) string {
	switch c {
	case lo:
		return either(ends, d.leftEnd, d.leftOn)
	case hi:
		return either(ends, d.rightEnd, d.rightOn)
	}
	return either(ends, d.end, d.on)
}

func either(holds bool, a, b string) string {
	if holds {
		return a
	}
	return b
}

// share has the newest line join one that leads to the same steps, once there are many lines.
func (d *drawing) share(at int) {
	if len(d.lines[at]) == 0 || len(d.lines) <= separate {
		return
	}
	for c, line := range d.lines {
		if c != at && slices.Equal(line, d.lines[at]) {
			d.row(at, []int{c}, either(at > c, d.rightEnd, d.leftEnd), -1)
			d.text.WriteByte('\n')
			d.lines[at] = nil
			return
		}
	}
}

// between draws a row between two layers: just the lines. Steps above each other without it are not connected.
func (d *drawing) between() {
	var row strings.Builder
	for _, line := range d.lines {
		row.WriteString(either(len(line) > 0, d.down, " ") + " ")
	}
	d.text.WriteString(strings.TrimRight(row.String(), " ") + "\n")
}

// trim forgets free columns at the right.
func (d *drawing) trim() {
	for len(d.lines) > 0 && len(d.lines[len(d.lines)-1]) == 0 {
		d.lines = d.lines[:len(d.lines)-1]
	}
}

func (d *drawing) sign(i int) string {
	if sign, known := d.states[d.steps[i].State]; known {
		return sign
	}
	return "?"
}

// label returns the name of a step and its state, as far as there is width behind columns of lines.
func (d *drawing) label(i, columns int) string {
	s := d.steps[i]
	return d.cut(s.ID+either(s.State == "", "", "  "+s.State), d.Width-2*columns)
}

// cut shortens a text, whose characters take a column each.
func (d *drawing) cut(text string, width int) string {
	if r := []rune(text); len(r) > width {
		return string(r[:max(width-len([]rune(d.ellipsis)), 0)]) + d.ellipsis
	}
	return text
}

// list returns the steps without lines.
func (d *drawing) list(order []int) string {
	var text strings.Builder
	for _, i := range order {
		label := d.label(i, 1)
		if needs := d.steps[i].Needs; len(needs) > 0 {
			label = d.cut(fmt.Sprintf("%s  needs %s", label, strings.Join(needs, ", ")), d.Width-2)
		}
		text.WriteString(d.sign(i) + " " + label + "\n")
	}
	return text.String()
}

func without(steps []int, step int) []int {
	return slices.DeleteFunc(slices.Clone(steps), func(i int) bool { return i == step })
}
