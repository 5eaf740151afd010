// Package graph keeps the states that a search of a model has found, and how they lead to each other.
package graph

import (
	"hash/maphash"
	"slices"
)

// Graph is states in the order in which they were found. A breadth-first search finds them in the order of their
// distance from the beginning.
type Graph[S comparable] struct {
	states  list[S]
	parents list[int32]
	table   []int32 // open addressing; 0 is free, else the index of a state plus 1
	own     list[edge]
}

// edge is the indices of two states, of which one leads to the other.
type edge struct{ from, to int32 }

var seed = maphash.MakeSeed()

// Len returns the number of states.
//
//go:norace
func (g *Graph[S]) Len() int32 { return g.states.len() }

// At returns the state of an index.
//
//go:norace
func (g *Graph[S]) At(i int32) *S { return g.states.at(i) }

// Add adds a state unless it is known, and returns its index. The parent is the index of the state that leads to it; -1
// for the first one.
//
//go:norace
func (g *Graph[S]) Add(s S, parent int32) int32 {
	if 2*int(g.states.len()) >= len(g.table) {
		g.grow()
	}
	at := g.place(&s)
	if g.table[at] == 0 {
		g.states.add(s)
		g.parents.add(parent)
		g.table[at] = g.states.len()
	}
	return g.table[at] - 1
}

// Link notes that one state leads to another without further help, as Stuck needs to know.
//
//go:norace
func (g *Graph[S]) Link(from, to int32) { g.own.add(edge{from, to}) }

// place returns where a state is in the table, or where it belongs.
//
//go:norace
func (g *Graph[S]) place(s *S) int {
	mask := len(g.table) - 1
	at := int(maphash.Comparable(seed, *s)) & mask
	for g.table[at] != 0 && *g.states.at(g.table[at] - 1) != *s {
		at = (at + 1) & mask
	}
	return at
}

//go:norace
func (g *Graph[S]) grow() {
	g.table = make([]int32, max(1<<12, 2*len(g.table)))
	for i := range g.states.len() {
		g.table[g.place(g.states.at(i))] = i + 1
	}
}

// Path returns the states on a shortest way to a state, from the beginning.
func (g *Graph[S]) Path(to int32) []int32 {
	var path []int32
	for ; to >= 0; to = *g.parents.at(to) {
		path = append(path, to)
	}
	slices.Reverse(path)
	return path
}

// Stuck returns the first state from which no links lead to a state that is settled, if there is one.
//
//go:norace
func (g *Graph[S]) Stuck(settled func(*S) bool) (int32, bool) {
	begin := make([]int32, g.states.len()+1) // where the links to a state begin in order
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
		if settled(g.states.at(i)) {
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
