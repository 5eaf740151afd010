package model

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Trace is a shortest way to a step that breaks a promise, or to a state from which not everything can end.
type Trace []Step

// Step is an event and what the script, if one ran, replied.
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

// way returns a shortest way to a state.
func (g *found) way(to int32) Trace { return g.follow(g.Path(to)) }

// follow returns a trace that passes through states that are canonical. Its own are not, so that leaders, workers and ids keep
// their names.
func (g *found) follow(path []int32) Trace {
	s := g.m.initial()
	var t Trace
	for _, i := range path[1:] {
		t = append(t, g.stepTo(&s, i))
		s = t[len(t)-1].After
	}
	return t
}

// last returns a step that breaks a promise, from the last state of the way to the state of that index.
func (g *found) last(index int32, p Promise) Step {
	s := g.m.initial()
	if t := g.way(index); len(t) > 0 {
		s = t[len(t)-1].After
	}
	for _, e := range g.m.events(&s) {
		after, reply := g.m.happen(&s, e)
		if slices.Contains(g.m.breaks(&s, e, reply, &after), p) {
			return Step{e, reply, after}
		}
	}
	panic("model: a state keeps a promise that its canonical state breaks")
}

// stepTo returns a step from a state to the canonical state of that index.
func (g *found) stepTo(s *State, to int32) Step {
	for _, e := range g.m.events(s) {
		after, reply := g.m.happen(s, e)
		if g.m.canonical(&after) == *g.At(to) {
			return Step{e, reply, after}
		}
	}
	panic("model: the canonical state has successors that the state itself does not have")
}

// Cover returns traces that together take a step of every class. Each begins with a shortest way to a class that is missing, and goes
// on to others while one is near.
func (r *Report) Cover() []Trace {
	g, missing := r.g, maps.Clone(r.g.first)
	var traces []Trace
	for len(missing) > 0 {
		next := g.firstOf(missing)
		t := g.way(next.from)
		s := g.m.initial()
		if len(t) > 0 {
			s = t[len(t)-1].After
		}
		canonical := *g.At(next.from)
		after, reply := g.m.happen(&canonical, next.event)
		last := g.stepOf(&s, g.m.classOf(&canonical, next.event, reply, &after))
		t = append(t, last)
		g.m.eachClass(t, func(c Class) { delete(missing, c) })
		for on := g.m.nearest(last.After, missing); len(on) > 0; on = g.m.nearest(last.After, missing) {
			last = on[len(on)-1]
			t = append(t, on...)
			g.m.eachClass(t, func(c Class) { delete(missing, c) })
		}
		traces = append(traces, t)
	}
	return traces
}

// firstOf returns the step that the search found first.
func (g *found) firstOf(steps map[Class]step) step {
	return slices.MinFunc(slices.Collect(maps.Values(steps)), func(a, b step) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.event.String(), b.event.String()))
	})
}

// near is the number of states among which nearest looks.
const near = 300

// nearest returns a shortest trace from a state that ends with a step of one of the classes; none if there is none near.
func (m *Model) nearest(from State, classes map[Class]step) Trace {
	type node struct {
		parent int
		step   Step
	}
	nodes := []node{{-1, Step{After: from}}}
	known := map[State]bool{m.canonical(&from): true}
	for i := 0; i < len(nodes) && len(classes) > 0; i++ {
		before := nodes[i].step.After
		for _, e := range m.events(&before) {
			after, reply := m.happen(&before, e)
			next := Step{e, reply, after}
			if _, missing := classes[m.classOf(&before, e, reply, &after)]; missing {
				t := Trace{next}
				for ; i > 0; i = nodes[i].parent {
					t = append(t, nodes[i].step)
				}
				slices.Reverse(t)
				return t
			}
			if c := m.canonical(&after); len(nodes) < near && !known[c] {
				known[c] = true
				nodes = append(nodes, node{i, next})
			}
		}
	}
	return nil
}

// stepOf returns a step of a class.
func (g *found) stepOf(s *State, class Class) Step {
	for _, e := range g.m.events(s) {
		after, reply := g.m.happen(s, e)
		if g.m.classOf(s, e, reply, &after) == class {
			return Step{e, reply, after}
		}
	}
	panic("model: a state has no step of the class that its canonical state has")
}
