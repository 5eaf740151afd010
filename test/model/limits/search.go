package limits

import (
	"slices"
	"strings"

	"github.com/dts-sched/dts/test/model/graph"
)

// Report is what a search found.
type Report struct {
	States, Steps int // different states, and events that lead from one to another
	Depth         int // of the state that is farthest from the beginning
	Broken        map[Promise]Trace
}

// Explore searches all states that the model can reach, breadth first. It stops when one of the promises in until is
// broken. Finishes and Served, which are about all states, are looked at only when it did not stop before.
//
//go:norace
func (m *Model) Explore(until ...Promise) Report {
	g := &graph.Graph[State]{}
	r := Report{Broken: make(map[Promise]Trace)}
	initial := m.initial()
	g.Add(m.canonical(&initial), -1)
	for i := int32(0); i < g.Len(); i++ { //nolint:intrange // their number grows meanwhile
		before := *g.At(i)
		for _, e := range m.events(&before) {
			after, _ := m.happen(&before, e)
			r.Steps++
			for _, p := range m.breaks(&before, e, &after) {
				if _, known := r.Broken[p]; !known {
					r.Broken[p] = m.lastStep(m.way(g, i), p)
				}
				if slices.Contains(until, p) {
					r.States = int(g.Len())
					return r
				}
			}
			if after == before {
				continue
			}
			if next := g.Add(m.canonical(&after), i); e.byItself() {
				g.Link(i, next)
			}
		}
	}
	r.States, r.Depth = int(g.Len()), len(g.Path(g.Len()-1))-1
	if stuck, found := g.Stuck(m.finished); found {
		r.Broken[Finishes] = m.way(g, stuck)
	}
	for p := range m.Partitions {
		if !m.Fair {
			break
		}
		if starving, found := m.starves(g, p); found {
			r.Broken[Served] = m.way(g, starving)
		}
	}
	return r
}

// Trace is a shortest way to a step that breaks a promise, or to a state from which not everything can finish.
type Trace []Step

// Step is an event, what the script, if one ran, replied, and the state after it.
type Step struct {
	Event Event
	Reply Reply
	After State
}

func (t Trace) String() string {
	var b strings.Builder
	for _, s := range t {
		b.WriteString("  " + s.Event.String())
		if s.Reply.Refused != "" {
			b.WriteString(": refused with " + string(s.Reply.Refused))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// end returns the last state of a trace.
func (m *Model) end(t Trace) State {
	if len(t) == 0 {
		return m.initial()
	}
	return t[len(t)-1].After
}

// way returns a shortest way to a state of the graph. Its states are not canonical, so that versions grow.
func (m *Model) way(g *graph.Graph[State], to int32) (t Trace) {
	for _, i := range g.Path(to)[1:] {
		t = m.stepTo(t, func(_ Event, _, after *State) bool { return m.canonical(after) == *g.At(i) })
	}
	return t
}

// lastStep returns the trace with a step that breaks a promise.
func (m *Model) lastStep(t Trace, p Promise) Trace {
	return m.stepTo(t, func(e Event, before, after *State) bool { return slices.Contains(m.breaks(before, e, after), p) })
}

// stepTo returns the trace with a further step, the one that is accepts.
func (m *Model) stepTo(t Trace, is func(e Event, before, after *State) bool) Trace {
	before := m.end(t)
	for _, e := range m.events(&before) {
		after, reply := m.happen(&before, e)
		if is(e, &before, &after) {
			return append(t, Step{e, reply, after})
		}
	}
	panic("limits: a state has no step that its canonical state has")
}
