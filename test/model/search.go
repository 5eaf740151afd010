package model

import (
	"hash/maphash"
	"slices"
)

// Report is what a search found.
type Report struct {
	States, Steps int // different states, and events that lead from one to another
	Depth         int // of the state that is farthest from the beginning
	Broken        map[Promise]Trace
	Classes       int // kinds of steps

	g *graph
}

// graph is the states that were found, in order of their distance from the beginning.
type graph struct {
	m      *Model
	states []State
	parent []int32
	table  []int32 // open addressing; 0 is free, else the index of a state plus 1
	first  map[Class]step
	// from and to are the ends of the steps that happen by themselves.
	from, to []int32
}

// step is an event in a state.
type step struct {
	from  int32
	event Event
}

// Explore searches all states that the model can reach, breadth first. It stops when one of the promises in until is broken; Ends,
// which is about all states, is looked at only when it did not stop before.
//
//go:norace
func (m *Model) Explore(until ...Promise) Report {
	g := &graph{m: m, table: make([]int32, 1<<12), first: make(map[Class]step)}
	r := Report{Broken: make(map[Promise]Trace), g: g}
	initial := m.initial()
	g.add(m.canonical(&initial), -1)
	depth := []int32{0}
	for i := 0; i < len(g.states); i++ { //nolint:intrange // their number grows meanwhile
		before := g.states[i]
		for _, e := range m.events(&before) {
			after, reply := m.happen(&before, e)
			r.Steps++
			for _, p := range m.breaks(&before, e, reply, &after) {
				if _, known := r.Broken[p]; !known {
					r.Broken[p] = append(g.way(int32(i)), g.last(int32(i), p))
				}
				if slices.Contains(until, p) {
					r.States = len(g.states)
					return r
				}
			}
			class := m.classOf(&before, e, reply, &after)
			if _, known := g.first[class]; !known {
				g.first[class] = step{int32(i), e}
			}
			if after == before || !m.goesOn(&after) {
				continue
			}
			next, isNew := g.add(m.canonical(&after), int32(i))
			if isNew {
				depth = append(depth, depth[i]+1)
			}
			if m.byItself(e) {
				g.from, g.to = append(g.from, int32(i)), append(g.to, next)
			}
		}
	}
	r.States, r.Classes, r.Depth = len(g.states), len(g.first), int(slices.Max(depth))
	if stuck, found := g.stuck(); found {
		r.Broken[Ends] = g.way(stuck)
	}
	return r
}

// goesOn reports whether the search goes on from a state. It does not where the model without a guard has more attempts than it
// can count.
//
//go:norace
func (m *Model) goesOn(s *State) bool {
	return !slices.ContainsFunc(s.Redis.Tasks[:], func(t Task) bool { return t.Attempt > maxAttempts })
}

// add adds a state unless it is known, and returns its index.
//
//go:norace
func (g *graph) add(s State, parent int32) (int32, bool) {
	if 2*len(g.states) >= len(g.table) {
		g.grow()
	}
	at := g.place(&s)
	if g.table[at] != 0 {
		return g.table[at] - 1, false
	}
	g.states, g.parent = append(g.states, s), append(g.parent, parent)
	g.table[at] = int32(len(g.states))
	return int32(len(g.states)) - 1, true
}

// place returns where a state is in the table, or where it belongs.
//
//go:norace
func (g *graph) place(s *State) int {
	mask := len(g.table) - 1
	at := int(maphash.Comparable(seed, *s)) & mask
	for g.table[at] != 0 && g.states[g.table[at]-1] != *s {
		at = (at + 1) & mask
	}
	return at
}

//go:norace
func (g *graph) grow() {
	g.table = make([]int32, 2*len(g.table))
	for i := range g.states {
		g.table[g.place(&g.states[i])] = int32(i) + 1
	}
}

// stuck returns the first state from which not everything can end by itself, if there is one.
func (g *graph) stuck() (int32, bool) {
	begin := make([]int32, len(g.states)+1) // where the steps to a state begin in order
	for _, to := range g.to {
		begin[to+1]++
	}
	for i := range g.states {
		begin[i+1] += begin[i]
	}
	order := make([]int32, len(g.to))
	fill := slices.Clone(begin)
	for i, to := range g.to {
		order[fill[to]] = g.from[i]
		fill[to]++
	}
	ends := make([]bool, len(g.states))
	var queue []int32
	for i := range g.states {
		if g.m.settled(&g.states[i]) {
			ends[i], queue = true, append(queue, int32(i))
		}
	}
	for len(queue) > 0 {
		to := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for _, from := range order[begin[to]:begin[to+1]] {
			if !ends[from] {
				ends[from], queue = true, append(queue, from)
			}
		}
	}
	at := slices.Index(ends, false)
	return int32(at), at >= 0
}
