package web

import (
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/schedule"
)

// A strip shows what became of ticks: a bar for each, the newest at the right. Each result has a shape and a colour of
// its own, so that a strip reads without colours, too.
const (
	stripPitch  = 6  // from one bar to the next
	stripHeight = 20 // of a strip
	tapeHeight  = 44 // of the bars above a strip that show how long runs took
)

// Kinds of bars that are no results of their own: who asked for the run matters more than that it succeeded.
const (
	byHand     = "triggered"
	byBackfill = "backfilled"
	noTick     = "" // there is no tick yet
)

// barShape is how a kind of bar is drawn: from a place beside the middle of the bar, and below its top.
type barShape struct {
	kind, class string
	dx, y       float64
	path        string // relative to that place
	thin        bool
}

// barShapes are all kinds of bars, in the order in which they are counted.
var barShapes = []barShape{
	{kind: string(schedule.ResultSucceeded), class: "s-ok2", y: 2, path: "v16"},
	{kind: byHand, class: "s-ok", y: 2, path: "v2m0 3v11"},
	{kind: byBackfill, class: "s-ok", y: 2, path: "v11m0 3v2"},
	{kind: string(schedule.ResultFailed), class: "s-bad", y: 2, path: "v6m0 4v6"},
	{kind: string(schedule.ResultMissed), class: "s-bad", dx: -1.4, y: 2.6, path: "h2.8v14.8h-2.8z", thin: true},
	{kind: string(schedule.ResultSkipped), class: "s-warn", y: 11, path: "v7"},
	{kind: string(schedule.ResultCancelled), class: "s-off", y: 6, path: "v8"},
	{kind: string(schedule.ResultReplaced), class: "s-off", y: 6, path: "v3m0 2v3"},
	{kind: string(schedule.ResultExcluded), class: "s-off", y: 15, path: "v3"},
	{kind: string(schedule.ResultRunning), class: "s-run", y: 3, path: "v3m0 2v3m0 2v3m0 2v2"},
	{kind: string(schedule.ResultWaiting), class: "s-wait", dx: -1.4, y: 10.6, path: "h2.8v6.8h-2.8z", thin: true},
	{kind: string(schedule.ResultUnknown), class: "s-line", y: 8, path: "v4"},
	{kind: noTick, class: "s-line", y: 15, path: "v1"},
}

// around draws a bar whose middle is at x.
func (s barShape) around(x int) string { return fmt.Sprintf("M%g %g%s", float64(x)+s.dx, s.y, s.path) }

// kindOf is the kind of the bar of a result.
func kindOf(r schedule.TickResult) string {
	switch {
	case r.Result == schedule.ResultSucceeded && r.Manual:
		return byHand
	case r.Result == schedule.ResultSucceeded && r.Backfill:
		return byBackfill
	}
	return string(r.Result)
}

// kindName is a kind of bar in a word.
func (v *visit) kindName(kind string) string {
	switch kind {
	case byHand:
		return string(v.T("triggered"))
	case byBackfill:
		return string(v.T("backfilled"))
	}
	return v.ResultName(schedule.Result(kind))
}

// strip is a row of bars.
type strip struct {
	Width, Height int
	Places        int // for bars
	Bars          []barPath
	Label         string // the same in words
}

// barPath is the path of all bars of a kind.
type barPath struct {
	Class string
	Thin  bool
	Path  template.HTMLAttr
}

// stripOf draws the newest n results, which come the oldest first. Places at the left stay empty if there are fewer.
func (v *visit) stripOf(results []schedule.TickResult, n int) strip {
	results = results[max(0, len(results)-n):]
	kinds := make([]string, n-len(results), n)
	for _, r := range results {
		kinds = append(kinds, kindOf(r))
	}
	s := strip{Width: n * stripPitch, Height: stripHeight, Places: n, Label: v.stripLabel(kinds)}
	for _, shape := range barShapes {
		if path := shape.at(kinds); path != "" {
			s.Bars = append(s.Bars, barPath{shape.strokes(), shape.thin, pathOf(path)})
		}
	}
	return s
}

// strokes is the class of the path.
func (s barShape) strokes() string {
	if s.thin {
		return s.class + " thin"
	}
	return s.class
}

// at draws the bars of a shape wherever its kind is in a row of kinds.
func (s barShape) at(kinds []string) string {
	var path strings.Builder
	for i, kind := range kinds {
		if kind == s.kind {
			path.WriteString(s.around(i*stripPitch + stripPitch/2))
		}
	}
	return path.String()
}

// stripLabel counts kinds of bars, and says which one is the newest.
func (v *visit) stripLabel(kinds []string) string {
	var counts []string
	total := 0
	for _, shape := range barShapes {
		n := 0
		for _, kind := range kinds {
			if kind == shape.kind && kind != noTick {
				n++
			}
		}
		if n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, v.kindName(shape.kind)))
			total += n
		}
	}
	if total == 0 {
		return string(v.T("No tick yet"))
	}
	newest := v.kindName(kinds[len(kinds)-1])
	return string(v.T("Last %d: %s; newest %s", total, v.List(counts), newest))
}

// legendOf is the shapes of the kinds that are among some results, with their names.
func (v *visit) legendOf(all ...[]schedule.TickResult) (legend []legendItem) {
	var kinds []string
	for _, results := range all {
		for _, r := range results {
			kinds = append(kinds, kindOf(r))
		}
	}
	for _, shape := range barShapes {
		if slices.Contains(kinds, shape.kind) {
			bar := barPath{shape.strokes(), shape.thin, pathOf(shape.around(4))}
			legend = append(legend, legendItem{v.kindName(shape.kind), bar})
		}
	}
	return legend
}

// legendItem is a shape and its name.
type legendItem struct {
	Name string
	Bar  barPath
}

// tape is a strip with the durations of the runs above.
type tape struct {
	strip
	Took, TookBad template.HTMLAttr // the bars of runs that went well, and of those that failed
	Most          time.Duration     // the longest of them
	Known         bool              // how long a run took is known of one of them, which may be 0
}

// tapeOf draws the newest n results.
func (v *visit) tapeOf(results []schedule.TickResult, n int) tape {
	results = results[max(0, len(results)-n):]
	t := tape{strip: v.stripOf(results, n)}
	for _, r := range results {
		took, known := r.Took()
		t.Most, t.Known = max(t.Most, took), t.Known || known
	}
	var good, bad strings.Builder
	for i, r := range results {
		took, known := r.Took()
		if !known {
			continue
		}
		out := &good
		if r.Result == schedule.ResultFailed {
			out = &bad
		}
		x := (n-len(results)+i)*stripPitch + stripPitch/2
		height := max(float64(tapeHeight-2)*float64(took)/float64(max(t.Most, 1)), 1)
		fmt.Fprintf(out, "M%d %dv-%.1f", x, tapeHeight, height)
	}
	t.Took, t.TookBad = pathOf(good.String()), pathOf(bad.String())
	return t
}
