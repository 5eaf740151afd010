package model

import (
	"slices"

	"github.com/dts-sched/dts/test/model/graph"
)

// Report is what a search found.
type Report struct {
	States, Steps int // different states, and events that lead from one to another
	Depth         int // of the state that is farthest from the beginning
	Broken        map[Promise]Trace
	Classes       int // kinds of steps

	g *found
}

// found is the states that a search has found, and of each kind of step the first one.
type found struct {
	graph.Graph[State]
	m     *Model
	first map[Class]step
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
	g := &found{m: m, first: make(map[Class]step)}
	r := Report{Broken: make(map[Promise]Trace), g: g}
	initial := m.initial()
	g.Add(m.canonical(&initial), -1)
	for i := int32(0); i < g.Len(); i++ { //nolint:intrange // their number grows meanwhile
		before := *g.At(i)
		for _, e := range m.events(&before) {
			after, reply := m.happen(&before, e)
			r.Steps++
			for _, p := range m.breaks(&before, e, reply, &after) {
				if _, known := r.Broken[p]; !known {
					r.Broken[p] = append(g.way(i), g.last(i, p))
				}
				if slices.Contains(until, p) {
					r.States = int(g.Len())
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
			next := g.Add(m.canonical(&after), i)
			if m.byItself(e) {
				g.Link(i, next)
			}
		}
	}
	farthest := g.Len() - 1 // states are found in the order of their distance
	r.States, r.Classes, r.Depth = int(g.Len()), len(g.first), len(g.Path(farthest))-1
	if stuck, found := g.Stuck(m.settled); found {
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
