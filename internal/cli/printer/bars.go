package printer

import (
	"fmt"
	"strings"
)

// Bar is a number with a label.
type Bar struct {
	Label string
	Value int
}

// partBlocks are the eighths of a column.
var partBlocks = []string{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"}

// BarLines draws numbers as bars, one per line: its label, the bar, the number. The longest line is at most width columns
// wide, unless there is no room for a bar of one column. A number above zero is always visible.
func BarLines(bars []Bar, width int) []string {
	labels, numbers, peak := 0, 0, 1
	for _, b := range bars {
		labels = max(labels, Width(b.Label))
		numbers = max(numbers, len(fmt.Sprint(b.Value)))
		peak = max(peak, b.Value)
	}
	room := max(1, width-labels-numbers-Width(" │ "))
	lines := make([]string, len(bars))
	for i, b := range bars {
		pad := strings.Repeat(" ", labels-Width(b.Label))
		lines[i] = fmt.Sprintf("%s%s │%s %d", pad, b.Label, horizontalBar(b.Value, peak, room), b.Value)
	}
	return lines
}

// horizontalBar returns the bar of a value; that of the peak takes room columns.
func horizontalBar(value, peak, room int) string {
	eighths := value * room * 8 / peak
	if value > 0 {
		eighths = max(eighths, 1)
	}
	return strings.Repeat("█", eighths/8) + partBlocks[eighths%8]
}
