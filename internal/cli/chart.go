package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// chart is numbers over time, one a minute, as bars. A bar is the greatest number of its minutes.
type chart struct {
	from   time.Time // in the zone of its labels
	values []int
	width  int // characters a line
}

const (
	chartRows  = 8
	labelWidth = 8 // of a time on the axis, and some room
)

// The eighths of a row.
var blocks = []rune(" ▁▂▃▄▅▆▇█")

// Minutes that fit well into an hour or a day: of a bar, and between two labels.
var (
	barMinutes   = []int{1, 2, 3, 5, 10, 15, 20, 30, 60, 120, 180, 240, 360}
	labelMinutes = []int{5, 10, 15, 30, 60, 120, 180, 240, 360, 720, 1440}
)

// atLeast is the first of them that is not less than n, else n.
func atLeast(n int, of []int) int {
	if i := slices.IndexFunc(of, func(m int) bool { return m >= n }); i >= 0 {
		return of[i]
	}
	return n
}

// perBar is how many minutes one bar stands for.
func (c chart) perBar() int {
	room := max(1, c.width-c.margin()-1) // one, since the first bar may have only a part of its minutes
	return atLeast((len(c.values)+room-1)/room, barMinutes)
}

// margin is what stands to the left of the bars.
func (c chart) margin() int { return len(fmt.Sprint(slices.Max(c.values))) + 2 }

// sinceMidnight is the time of day of the first minute.
func (c chart) sinceMidnight() int { return c.from.Hour()*60 + c.from.Minute() }

// bars is the chart's bars. They begin at round times of the day, so the first one may have only a part of its minutes.
func (c chart) bars() []int {
	per := c.perBar()
	skip := c.sinceMidnight() % per
	var bars []int
	for i, value := range c.values {
		at := (i + skip) / per
		if at == len(bars) {
			bars = append(bars, 0)
		}
		bars[at] = max(bars[at], value)
	}
	return bars
}

// lines draws the chart: the bars, the axis, and the times below it.
func (c chart) lines() []string {
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

// block is the piece of a bar that is in a row, counted from below. What is not nothing can be seen.
func block(value, peak, row int) rune {
	eighths := value * chartRows * 8 / peak
	if value > 0 {
		eighths = max(eighths, 1)
	}
	return blocks[min(max(eighths-row*8, 0), 8)]
}

// axis is the line below the bars, and the times of the bars that are marked on it.
func (c chart) axis(bars int) (string, string) {
	per := c.perBar()
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
		at := c.from.Add(time.Duration(i*per-c.sinceMidnight()%per) * time.Minute)
		if pad := i - utf8.RuneCountInString(times); pad >= 0 {
			times += strings.Repeat(" ", pad) + at.Format(layout)
		}
	}
	return string(line), times
}
