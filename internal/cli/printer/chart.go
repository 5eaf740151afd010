package printer

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Chart is a bar chart of numbers over time, one per minute. A bar is the greatest number of its minutes.
type Chart struct {
	From   time.Time // the first minute, in the zone of the labels
	Values []int
	Width  int // columns per line
}

const (
	chartRows  = 8
	labelWidth = 8 // columns of a time on the axis, with a gap
)

// blocks are the eighths of a row.
var blocks = []rune(" ▁▂▃▄▅▆▇█")

// Numbers of minutes that divide an hour or a day well: per bar, and between two labels.
var (
	barMinutes   = []int{1, 2, 3, 5, 10, 15, 20, 30, 60, 120, 180, 240, 360}
	labelMinutes = []int{5, 10, 15, 30, 60, 120, 180, 240, 360, 720, 1440}
)

// atLeast returns the first of the ascending numbers that is not less than n, or n if there is none.
func atLeast(n int, numbers []int) int {
	if i := slices.IndexFunc(numbers, func(m int) bool { return m >= n }); i >= 0 {
		return numbers[i]
	}
	return n
}

// MinutesPerBar returns how many minutes one bar stands for.
func (c Chart) MinutesPerBar() int {
	room := max(1, c.Width-c.margin()-1) // one less, since the first bar may have only a part of its minutes
	return atLeast((len(c.Values)+room-1)/room, barMinutes)
}

// margin returns how many columns are to the left of the bars.
func (c Chart) margin() int { return len(fmt.Sprint(slices.Max(c.Values))) + 2 }

// sinceMidnight returns the minute of the day of the first number.
func (c Chart) sinceMidnight() int { return c.From.Hour()*60 + c.From.Minute() }

// bars returns the bars. They begin at round times of the day, so the first one may have only a part of its minutes.
func (c Chart) bars() []int {
	per := c.MinutesPerBar()
	skip := c.sinceMidnight() % per
	var bars []int
	for i, value := range c.Values {
		at := (i + skip) / per
		if at == len(bars) {
			bars = append(bars, 0)
		}
		bars[at] = max(bars[at], value)
	}
	return bars
}

// Lines draws the chart: the bars, the axis, and the times below it.
func (c Chart) Lines() []string {
	bars := c.bars()
	peak := max(1, slices.Max(bars))
	margin := c.margin()
	var lines []string
	for row := chartRows - 1; row >= 0; row-- {
		label := ""
		if row == chartRows-1 {
			label = fmt.Sprint(peak)
		}
		var b strings.Builder
		fmt.Fprintf(&b, "%*s │", margin-2, label)
		for _, value := range bars {
			b.WriteRune(block(value, peak, row))
		}
		lines = append(lines, strings.TrimRight(b.String(), " "))
	}
	axis, times := c.axis(len(bars))
	return append(lines,
		fmt.Sprintf("%*d └%s", margin-2, 0, axis),
		strings.Repeat(" ", margin)+times)
}

// block returns the piece of a bar in a row, counted from below. A value above zero is always visible.
func block(value, peak, row int) rune {
	eighths := value * chartRows * 8 / peak
	if value > 0 {
		eighths = max(eighths, 1)
	}
	return blocks[min(max(eighths-row*8, 0), 8)]
}

// axis returns the line below the bars, and the line with the times of the bars that it marks.
func (c Chart) axis(bars int) (string, string) {
	per := c.MinutesPerBar()
	every := atLeast(labelWidth*per, labelMinutes)
	layout := "15:04"
	if every >= 1440 {
		layout = "Mon 2"
	}
	line, times := []rune(strings.Repeat("─", bars)), ""
	first := c.sinceMidnight() / per * per
	for i := range bars {
		if (first+i*per)%every != 0 {
			continue
		}
		line[i] = '┬'
		at := c.From.Add(time.Duration(i*per-c.sinceMidnight()%per) * time.Minute)
		if pad := i - utf8.RuneCountInString(times); pad >= 0 {
			times += strings.Repeat(" ", pad) + at.Format(layout)
		}
	}
	return string(line), times
}
