package web

import (
	"fmt"
	"html/template"
	"math"
	"strings"
	"time"
)

// Charts are made of numbers only, and have no text but that of their callers. Sizes are in units of their viewBox.
const (
	chartWidth  = 300.0
	chartHeight = 48.0
)

// bars is the path of a bar for each value, of which most is as high as the chart.
func bars(values []int, most int, step, width, height float64) template.HTMLAttr {
	var path strings.Builder
	for i, value := range values {
		if value == 0 {
			continue
		}
		h := max(height*float64(value)/float64(max(most, 1)), 0.5)
		fmt.Fprintf(&path, "M%.0f %.0fv-%.1fh%.0fv%.1fz", float64(i)*step, height, h, width, h)
	}
	return pathOf(path.String())
}

// line is the path of a line through values on a logarithmic scale from low to high. A negative value is a gap.
func line(values []time.Duration, low, high time.Duration) template.HTMLAttr {
	var path strings.Builder
	verb := "M"
	for i, value := range values {
		if value < 0 {
			verb = "M"
			continue
		}
		share := math.Log(float64(max(value, low))/float64(low)) / math.Log(float64(high)/float64(low))
		x := chartWidth * float64(i) / float64(max(len(values)-1, 1))
		fmt.Fprintf(&path, "%s%.1f %.1f", verb, x, chartHeight-min(share, 1)*(chartHeight-1)-0.5)
		verb = "L"
	}
	return pathOf(path.String())
}

func pathOf(d string) template.HTMLAttr {
	return template.HTMLAttr(`d="` + d + `"`) //nolint:gosec // it has numbers only
}

// segment is a piece of a meter, in percent of its width.
type segment struct {
	Class    string
	From, To float64
}

// Width is how wide the segment is, in percent.
func (s segment) Width() float64 { return s.To - s.From }

// amount is a number that a meter shows, with the class of its colour.
type amount struct {
	Class string
	N     int
}

// meterOf is the segments of a meter that has room for most, one after another.
func meterOf(most int, amounts ...amount) []segment {
	at := 0.0
	segments := make([]segment, 0, len(amounts))
	for _, a := range amounts {
		width := 100 * float64(a.N) / float64(max(most, 1))
		segments = append(segments, segment{a.Class, at, min(at+width, 100)})
		at += width
	}
	return segments
}
