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
	states list[State]
	parent list[int32]
	table  []int32 // open addressing; 0 is free, else the index of a state plus 1
	first  map[Class]step
	own    list[edge] // the steps that happen by themselves
}

// edge is the indices of two states, of which one leads to the other.
type edge struct{ from, to int32 }

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
	for i := int32(0); i < g.states.len(); i++ { //nolint:intrange // their number grows meanwhile
		before := *g.states.at(i)
		for _, e := range m.events(&before) {
			after, reply := m.happen(&before, e)
			r.Steps++
			for _, p := range m.breaks(&before, e, reply, &after) {
				if _, known := r.Broken[p]; !known {
					r.Broken[p] = append(g.way(i), g.last(i, p))
				}
				if slices.Contains(until, p) {
					r.States = int(g.states.len())
					return r
				}
			}
			class := m.classOf(&before, e, reply, &after)
			if _, known := g.first[class]; !known {
				g.first[class] = step{i, e}
			}
			if after == before || !m.goesOn(&after) {
				continue
			}
			next := g.add(m.canonical(&after), i)
			if m.byItself(e) {
				g.own.add(edge{i, next})
			}
		}
	}
	farthest := g.states.len() - 1 // states are found in the order of their distance
	r.States, r.Classes, r.Depth = int(g.states.len()), len(g.first), len(g.path(farthest))-1
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
func (g *graph) add(s State, parent int32) int32 {
	if 2*int(g.states.len()) >= len(g.table) {
		g.grow()
	}
	at := g.place(&s)
	if g.table[at] == 0 {
		g.states.add(s)
		g.parent.add(parent)
		g.table[at] = g.states.len()
	}
	return g.table[at] - 1
}

// place returns where a state is in the table, or where it belongs.
//
//go:norace
func (g *graph) place(s *State) int {
	mask := len(g.table) - 1
	at := int(maphash.Comparable(seed, *s)) & mask
	for g.table[at] != 0 && *g.states.at(g.table[at] - 1) != *s {
		at = (at + 1) & mask
	}
	return at
}

//go:norace
func (g *graph) grow() {
	g.table = make([]int32, 2*len(g.table))
	for i := range g.states.len() {
		g.table[g.place(g.states.at(i))] = i + 1
	}
}

// stuck returns the first state from which not everything can end by itself, if there is one.
//
//go:norace
func (g *graph) stuck() (int32, bool) {
	begin := make([]int32, g.states.len()+1) // where the steps to a state begin in order
	for i := range g.own.len() {
		begin[g.own.at(i).to+1]++
	}
	for i := range g.states.len() {
		begin[i+1] += begin[i]
	}
	order := make([]int32, g.own.len())
	fill := slices.Clone(begin)
	for i := range g.own.len() {
		e := g.own.at(i)
		order[fill[e.to]] = e.from
		fill[e.to]++
	}
	ends := make([]bool, g.states.len())
	var queue []int32
	for i := range g.states.len() {
		if g.m.settled(g.states.at(i)) {
			ends[i], queue = true, append(queue, i)
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
