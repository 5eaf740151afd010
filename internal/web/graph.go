package web

import (
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strings"

	"github.com/dts-sched/dts/internal/workflow"
	"github.com/dts-sched/dts/internal/workflow/graph"
)

// How much of a section of a graph is drawn.
const (
	drawnBoxes = 50
	drawnLines = 250 // from a layer to the next one
	boxName    = 17  // characters of an id
)

// Sizes of a drawing.
const (
	boxWidth  = 158
	boxHeight = 46
	boxRoom   = 64 // that a box takes of the height of its layer
	passRoom  = 24 // that a line takes which passes a layer
	layerStep = 200
)

// drawing is a section of a graph, as SVG.
type drawing struct {
	Name          string // of the section: steps, on_failure or finally
	Width, Height int
	Steps         int
	Lines         []classPath
	Boxes         []graphBox
	Joined        bool // some boxes stand for several steps
	LeftOut       int  // steps that are not drawn, as there are too many
	Thinned       bool // so are lines
	Planned       bool // it is of a definition, not of a run
}

// ViewWidth and ViewHeight are the size of the picture, with room for borders and for what is behind a box.
func (d drawing) ViewWidth() int { return d.Width + 10 }

// ViewHeight is as ViewWidth: the room above and below boxes is not part of it.
func (d drawing) ViewHeight() int { return d.Height - (boxRoom - boxHeight) + 10 }

// classPath is lines that look the same.
type classPath struct {
	Class string
	Path  template.HTMLAttr
}

// graphBox is a step, or several that are alike.
type graphBox struct {
	shownStep
	X, Y  int
	First string // the id of the step, or of the first one
	Name  string // as much of that as there is room for
	More  int    // further steps; 0: the box is one step
	Parts []graphPart
}

// graphPart is a part of the line below a box that stands for several steps: for those that came out the same.
type graphPart struct {
	Class    string
	X, Width int
}

// shownStep is how a step is shown.
type shownStep struct {
	State workflow.State
	Mark  mark
	Word  string // its state
	Took  string // how long it took; "" if it has not ended, or nobody knows. Without a state: what it is
	Href  string
}

// Sub is the second line of a box.
func (s shownStep) Sub() string {
	if s.Took == "" || s.Word == "" {
		return s.Word + s.Took
	}
	return s.Word + " · " + s.Took
}

// Waits reports whether a step has not begun, or never does: its box is dashed.
func (s shownStep) Waits() bool {
	return s.State == workflow.Blocked || isPassedOver(s.State)
}

// Border is the class of the border of a box: that of what is under way, waits for something, or has failed.
func (s shownStep) Border() string {
	switch s.State {
	case workflow.Active:
		return "s-run"
	case workflow.Waiting:
		return "s-ask"
	case workflow.State(workflow.Failed):
		return "s-bad"
	}
	return ""
}

// isPassedOver reports whether a step has a verdict without having run.
func isPassedOver(s workflow.State) bool {
	return s == workflow.State(workflow.Skipped) || s == workflow.State(workflow.UpstreamFailed)
}

// drawings draw the sections of a graph. steps are all of their steps by their ids.
func drawings(sections []graph.Section, steps map[string]shownStep) (all []drawing) {
	for _, s := range sections {
		all = append(all, drawingOf(s, steps))
	}
	return all
}

func drawingOf(s graph.Section, steps map[string]shownStep) drawing {
	boxes, groups := boxesOf(s.Steps)
	layers := graph.Layers(boxes)
	kept := keptBoxes(s.Steps, groups, layers)
	d := drawing{Name: s.Name, Steps: len(s.Steps)}
	places := d.place(layers, kept)
	for i, members := range groups {
		if !kept[i] {
			d.LeftOut += len(members)
			continue
		}
		d.Joined = d.Joined || len(members) > 1
		d.Boxes = append(d.Boxes, boxOf(s.Steps, members, places.box(i), steps))
	}
	d.draw(boxes, kept, places)
	return d
}

// boxesOf are the boxes of a section: a step each or, if there are too many, one for all steps that are alike.
func boxesOf(steps []graph.Step) (boxes []graph.Step, groups [][]int) {
	needs := 0
	for i, s := range steps {
		needs += len(s.Needs)
		groups = append(groups, []int{i})
	}
	if len(steps) > drawnBoxes || needs > drawnLines {
		return graph.Fold(steps)
	}
	return steps, groups
}

// keptBoxes says which boxes are drawn: all or, of too many, those around the first one that has not come out well.
func keptBoxes(steps []graph.Step, groups [][]int, layers [][]graph.Spot) []bool {
	var order []int
	for _, layer := range layers {
		for _, spot := range layer {
			if !spot.Passes {
				order = append(order, spot.Step)
			}
		}
	}
	isOpen := func(i int) bool {
		state := workflow.State(steps[i].State)
		return state != workflow.State(workflow.Succeeded) && state != workflow.State(workflow.Skipped)
	}
	first := slices.IndexFunc(order, func(g int) bool { return slices.ContainsFunc(groups[g], isOpen) })
	from := max(min(first-drawnBoxes/4, len(order)-drawnBoxes), 0)
	kept := make([]bool, len(groups))
	for _, g := range order[from:min(from+drawnBoxes, len(order))] {
		kept[g] = true
	}
	return kept
}

// inLayer is a spot in a layer.
type inLayer struct {
	layer int
	graph.Spot
}

// point is where something is: the left end, at half its height.
type point struct{ x, y int }

// places are where boxes and lines that pass are.
type places struct {
	at    map[inLayer]point
	layer map[int]int // of each box
}

func (p places) box(i int) point { return p.at[inLayer{p.layer[i], graph.Spot{Step: i}}] }

// place gives boxes and lines their places: a column for each layer, in the middle of the height.
func (d *drawing) place(layers [][]graph.Spot, kept []bool) places {
	p := places{map[inLayer]point{}, map[int]int{}}
	room := func(s graph.Spot) int {
		if s.Passes {
			return passRoom
		}
		return boxRoom
	}
	heights := make([]int, len(layers))
	for l := range layers {
		layers[l] = slices.DeleteFunc(layers[l], func(s graph.Spot) bool { return !kept[s.Step] })
		for _, spot := range layers[l] {
			heights[l] += room(spot)
		}
		d.Height = max(d.Height, heights[l])
	}
	x := 0
	for l, layer := range layers {
		if len(layer) == 0 {
			continue
		}
		y := (d.Height - heights[l]) / 2
		for _, spot := range layer {
			p.at[inLayer{l, spot}] = point{x, y + room(spot)/2}
			y += room(spot)
			if !spot.Passes {
				p.layer[spot.Step] = l
			}
		}
		x += layerStep
	}
	d.Width = max(x-layerStep+boxWidth, 0)
	return p
}

// boxOf is the box of some steps that are alike, or of one.
func boxOf(steps []graph.Step, members []int, at point, shown map[string]shownStep) graphBox {
	first := steps[members[0]].ID
	b := graphBox{
		shownStep: shown[first], X: at.x, Y: at.y - boxHeight/2, First: first, Name: cutMiddle(first, boxName),
		More: len(members) - 1,
	}
	if b.More == 0 {
		return b
	}
	counts := map[string]int{} // by the class of the state
	for _, m := range members {
		s := shown[steps[m].ID]
		counts[partClass(s)]++
		if urgency(s.State) > urgency(b.State) {
			b.shownStep = s
		}
	}
	b.Took, b.Href = "", "?like="+first+"#steps"
	if b.State == "" { // of a definition: others may be something else
		b.Word = ""
	}
	x := 0
	for _, class := range []string{"f-ok", "f-off", "f-bad", "f-warn", "f-run", "f-ask", "f-line"} {
		width := counts[class] * boxWidth / len(members)
		if counts[class] > 0 {
			b.Parts = append(b.Parts, graphPart{class, x, max(width, 1)})
		}
		x += width
	}
	return b
}

// partClass is the colour of the part for a step of a box that stands for several.
func partClass(s shownStep) string {
	switch s.State {
	case workflow.State(workflow.Succeeded):
		return "f-ok"
	case workflow.State(workflow.Failed):
		return "f-bad"
	case workflow.State(workflow.UpstreamFailed):
		return "f-warn"
	case workflow.Active:
		return "f-run"
	case workflow.Waiting:
		return "f-ask"
	case workflow.Blocked, "":
		return "f-line"
	}
	return "f-off"
}

// urgency orders states by how much they tell of steps that are alike.
func urgency(s workflow.State) int {
	return slices.Index([]workflow.State{
		workflow.State(workflow.Skipped), workflow.State(workflow.Succeeded), workflow.State(workflow.Cancelled),
		workflow.Blocked, workflow.State(workflow.UpstreamFailed), workflow.Active, workflow.Waiting,
		workflow.State(workflow.Failed),
	}, s)
}

// cutMiddle is a text with at most some characters of ASCII, cut in its middle: its end tells ids apart.
func cutMiddle(text string, most int) string {
	if len(text) <= most {
		return text
	}
	end := most / 3
	return text[:most-1-end] + "…" + text[len(text)-end:]
}

// way is a line from a box, or from where a line passes, to the next of these.
type way struct {
	from, to point
	passes   bool // to is where it passes
}

// path is the line as a part of a path; at a box, it has a tip.
func (l way) path() string {
	x := l.from.x + boxWidth
	end := "m-5-3l5 3-5 3"
	if l.passes {
		end = fmt.Sprintf("h%d", boxWidth)
	}
	return fmt.Sprintf("M%d %dC%d %d %d %d %d %d", x, l.from.y, x+20, l.from.y, l.to.x-20, l.to.y, l.to.x, l.to.y) + end
}

// lineClasses are the looks of lines, the least important one first: of what is passed over, of what has not come to
// pass, and of the way that the run has taken.
var lineClasses = []string{"edge no", "edge", "edge hot"}

// lineClass is the look of a line between steps with these states, as an index of lineClasses.
func lineClass(from, to workflow.State) int {
	switch {
	case isPassedOver(from) || isPassedOver(to):
		return 0
	case from.Final() && from != "" && to != workflow.Blocked:
		return 2
	}
	return 1
}

// draw draws the lines from what boxes need to these, as long as there are not too many.
func (d *drawing) draw(boxes []graph.Step, kept []bool, p places) {
	index, states := map[string]int{}, map[string]workflow.State{}
	for i, s := range boxes {
		index[s.ID] = i
	}
	for _, b := range d.Boxes {
		states[b.First] = b.State
	}
	classes := map[way]int{}
	for i, s := range boxes {
		for _, id := range s.Needs {
			f := index[id]
			switch {
			case !kept[f] || !kept[i]:
			case len(classes) >= drawnLines:
				d.Thinned = true
			default:
				p.trace(f, i, func(l way) { classes[l] = max(classes[l], lineClass(states[id], states[s.ID])) })
			}
		}
	}
	paths := make([]strings.Builder, len(lineClasses))
	for _, l := range slices.SortedFunc(maps.Keys(classes), way.compare) {
		paths[classes[l]].WriteString(l.path())
	}
	for i, class := range lineClasses {
		if paths[i].Len() > 0 {
			d.Lines = append(d.Lines, classPath{class, pathOf(paths[i].String())})
		}
	}
}

// trace goes from a box to another one, by where the line passes the layers between.
func (p places) trace(from, to int, each func(way)) {
	at := p.box(from)
	for l := p.layer[from] + 1; l < p.layer[to]; l++ {
		if pass, has := p.at[inLayer{l, graph.Spot{Step: from, Passes: true}}]; has {
			each(way{at, pass, true})
			at = pass
		}
	}
	each(way{at, p.box(to), false})
}

func (l way) compare(other way) int {
	return cmp.Or(cmp.Compare(l.from.x, other.from.x), cmp.Compare(l.from.y, other.from.y),
		cmp.Compare(l.to.x, other.to.x), cmp.Compare(l.to.y, other.to.y))
}
