// Package graph places the steps of a workflow in layers, and draws them in a terminal. It knows no rules and no
// expressions, so that a client draws without what evaluates these.
package graph

import (
	"cmp"
	"slices"
)

// Step is a node of a graph.
type Step struct {
	ID    string
	Needs []string // ids of the steps that come before; those that are not in the graph are left out
	State string   // in a run: a workflow.State; "": there is no run
}

// Place is where a step is.
type Place struct {
	Layer int // the number of steps on the longest way to it
	Row   int // its position among the steps of its layer, from 0
}

// sweeps is how often all layers are sorted by those beside them, downwards and upwards in turns.
const sweeps = 8

// longest is how many layers a line can pass and still be kept clear of other lines. It bounds the work.
const longest = 32

// Spot is a place in a layer: that of a step, or where lines of a step pass the layer.
type Spot struct {
	Step   int  // by its index; of lines, the one that they come from
	Passes bool // it is one of lines, which lead on to later layers
}

// Layout returns a place for each step, so that few lines between them cross. The needs must have no cycle.
func Layout(steps []Step) []Place {
	places := make([]Place, len(steps))
	for at, layer := range Layers(steps) {
		row := 0
		for _, spot := range layer {
			if !spot.Passes {
				places[spot.Step] = Place{at, row}
				row++
			}
		}
	}
	return places
}

// Layers returns the layers that Layout places steps in. They also have the spots where lines pass that lead over
// several layers, so that a drawing keeps them clear of the steps there. Lines over more than 32 layers have none.
func Layers(steps []Step) [][]Spot {
	needs := edges(steps)
	at := make([]int, len(steps))
	for _, i := range byNeeds(needs) {
		for _, from := range needs[i] {
			at[i] = max(at[i], at[from]+1)
		}
	}
	untangled := untangle(layersOf(at, needs))
	layers := make([][]Spot, len(untangled))
	for i, layer := range untangled {
		for _, v := range layer {
			layers[i] = append(layers[i], v.Spot)
		}
	}
	return layers
}

// edges returns the indices of what each step needs.
func edges(steps []Step) [][]int {
	index := make(map[string]int, len(steps))
	for i, s := range steps {
		index[s.ID] = i
	}
	needs := make([][]int, len(steps))
	for i, s := range steps {
		for _, id := range s.Needs {
			if from, known := index[id]; known && !slices.Contains(needs[i], from) {
				needs[i] = append(needs[i], from)
			}
		}
	}
	return needs
}

// byNeeds returns all steps, each behind those that it needs. It leaves out those in a cycle.
func byNeeds(needs [][]int) (order []int) {
	missing := make([]int, len(needs))
	after := make([][]int, len(needs))
	for i, from := range needs {
		missing[i] = len(from)
		if len(from) == 0 {
			order = append(order, i)
		}
		for _, f := range from {
			after[f] = append(after[f], i)
		}
	}
	for at := 0; at < len(order); at++ {
		for _, i := range after[order[at]] {
			if missing[i]--; missing[i] == 0 {
				order = append(order, i)
			}
		}
	}
	return order
}

// vertex is a spot with what it is connected to.
type vertex struct {
	Spot
	at           float64
	above, below []*vertex // in the layers beside it
}

// layersOf returns the layers from the first on. All lines that leave a step share their points.
func layersOf(layer []int, needs [][]int) (layers [][]*vertex) {
	add := func(layer int, spot Spot) *vertex {
		for len(layers) <= layer {
			layers = append(layers, nil)
		}
		v := &vertex{Spot: spot, at: float64(len(layers[layer]))}
		layers[layer] = append(layers[layer], v)
		return v
	}
	lines := make([][]*vertex, len(layer)) // of each step: itself, and the points of its line
	for i, at := range layer {
		lines[i] = []*vertex{add(at, Spot{Step: i})}
	}
	for to, from := range needs {
		for _, f := range from {
			span := layer[to] - layer[f]
			if span < 1 || span > longest {
				continue
			}
			for len(lines[f]) < span {
				point := add(layer[f]+len(lines[f]), Spot{f, true})
				join(lines[f][len(lines[f])-1], point)
				lines[f] = append(lines[f], point)
			}
			join(lines[f][span-1], lines[to][0])
		}
	}
	return layers
}

func join(above, below *vertex) {
	above.below = append(above.below, below)
	below.above = append(below.above, above)
}

// untangle returns the layers in the order, of those that it tries, in which the fewest lines cross.
func untangle(layers [][]*vertex) (best [][]*vertex) {
	best, fewest := clone(layers), crossings(layers)
	for i := range sweeps {
		if i%2 == 0 {
			for _, layer := range layers {
				sortBy(layer, func(v *vertex) []*vertex { return v.above })
			}
		} else {
			for _, layer := range slices.Backward(layers) {
				sortBy(layer, func(v *vertex) []*vertex { return v.below })
			}
		}
		if n := crossings(layers); n < fewest {
			best, fewest = clone(layers), n
		}
	}
	return best
}

func clone(layers [][]*vertex) (copies [][]*vertex) {
	for _, layer := range layers {
		copies = append(copies, slices.Clone(layer))
	}
	return copies
}

// crossings counts how often lines cross between layers.
func crossings(layers [][]*vertex) (n int) {
	for _, layer := range layers {
		var ends []float64 // above, of the lines to what is further left in the layer, sorted
		for _, v := range layer {
			for _, from := range v.above {
				at, _ := slices.BinarySearch(ends, from.at+0.5)
				n += len(ends) - at
			}
			for _, from := range v.above {
				at, _ := slices.BinarySearch(ends, from.at)
				ends = slices.Insert(ends, at, from.at)
			}
		}
	}
	return n
}

// sortBy moves each vertex of a layer to the mean of its neighbours on one side. One without neighbours stays.
func sortBy(layer []*vertex, neighbours func(*vertex) []*vertex) {
	for _, v := range layer {
		sum := 0.0
		for _, n := range neighbours(v) {
			sum += n.at
		}
		if count := len(neighbours(v)); count > 0 {
			v.at = sum / float64(count)
		}
	}
	slices.SortStableFunc(layer, func(a, b *vertex) int { return cmp.Compare(a.at, b.at) })
	for i, v := range layer {
		v.at = float64(i)
	}
}
