package model

import (
	"cmp"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
)

// Report is what a search found.
type Report struct {
	States, Steps int // different states, and events that lead from one to another
	Depth         int // of the state that is farthest from the beginning
	Broken        map[Promise]Trace
	Classes       int // kinds of steps

	g *graph
}

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

// Class is what steps have in common that take the same way through a script: the script, what it found in Redis, and its answer.
type Class struct {
	What               What
	Script             Script
	To                 TaskState
	State              TaskState // of the task before
	Place              Place
	Delivery           DeliveryState
	Refused, Changed   bool
	Bare               bool
	Fenced             bool
	Stale, Cancel      bool
	Over, Look         bool
	Attempt, Run       match // of the task, compared with those of the call
	Claim, LeaseEnd    match
	Stamp, Cursor      match // of the delivery, and of the schedule
	Room               bool  // another task waits on the wheel
	Live, Waits, Empty bool  // of a schedule: a task is live, a tick waits, and the plan is only about such
}

// match says how an id or a number in Redis compares with that of a call.
type match uint8

// compare returns 0 if one of them is none, 1 if both are the same, and 2 if they differ.
func compare[N ID | uint8](inRedis, ofCall N) match {
	switch {
	case inRedis == 0 || ofCall == 0:
		return 0
	case inRedis == ofCall:
		return 1
	}
	return 2
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

// path returns the states on a shortest way to a state, from the beginning.
func (g *graph) path(to int32) []int32 {
	var path []int32
	for ; to >= 0; to = g.parent[to] {
		path = append(path, to)
	}
	slices.Reverse(path)
	return path
}

// way returns a shortest way to a state.
func (g *graph) way(to int32) Trace { return g.follow(g.path(to)) }

// follow returns a trace that passes through states that are canonical. Its own are not, so that leaders, workers and ids keep
// their names.
func (g *graph) follow(path []int32) Trace {
	s := g.m.initial()
	var t Trace
	for _, i := range path[1:] {
		t = append(t, g.stepTo(&s, i))
		s = t[len(t)-1].After
	}
	return t
}

// last returns a step that breaks a promise, from the last state of the way to the state of that index.
func (g *graph) last(index int32, p Promise) Step {
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
func (g *graph) stepTo(s *State, to int32) Step {
	for _, e := range g.m.events(s) {
		after, reply := g.m.happen(s, e)
		if g.m.canonical(&after) == g.states[to] {
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
		canonical := g.states[next.from]
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
func (g *graph) firstOf(steps map[Class]step) step {
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
func (g *graph) stepOf(s *State, class Class) Step {
	for _, e := range g.m.events(s) {
		after, reply := g.m.happen(s, e)
		if g.m.classOf(s, e, reply, &after) == class {
			return Step{e, reply, after}
		}
	}
	panic("model: a state has no step of the class that its canonical state has")
}

// eachClass calls visit for the class of each step of a trace.
func (m *Model) eachClass(t Trace, visit func(Class)) {
	before := m.initial()
	for i := range t {
		visit(m.classOf(&before, t[i].Event, t[i].Reply, &t[i].After))
		before = t[i].After
	}
}

// classOf returns the class of a step.
//
//go:norace
func (m *Model) classOf(before *State, e Event, reply Reply, after *State) Class {
	c := e.Call
	switch e.What {
	case Calls:
	case Arrives:
		c = before.Copy
	case Sends, Dies, Lags, FailsOver, EndsWork:
		return Class{What: e.What}
	default:
		c = Call{Task: e.Task, Attempt: e.Attempt}
	}
	class := Class{
		What: e.What, Script: c.Script, To: c.To, Refused: reply.Refused != "", Changed: before.Redis != after.Redis,
		Fenced: c.Script.ofLeader() && before.Redis.stale(c.Fence),
	}
	class.found(&before.Redis, c, m.Ticks > 0)
	return class
}

// found notes what a script finds in Redis.
//
//go:norace
func (class *Class) found(r *Redis, c Call, ticks bool) {
	switch {
	case c.Script.ofQueue():
		d := r.Tasks[c.Task].Deliveries[max(c.Attempt, 1)-1]
		class.Delivery, class.Stale, class.Stamp = d.State, d.Stale, compare(d.Claim, c.Claim)
	case c.Script.ofTask() && c.Task != noTask:
		t := &r.Tasks[c.Task]
		class.State, class.Bare, class.Cancel, class.Over, class.Look = t.State, t.Bare, t.Cancel, t.Over, t.Look
		class.Place = t.Place
		class.Attempt, class.Run = compare(t.Attempt, c.Attempt), compare(t.Run, c.Run)
		class.Claim, class.LeaseEnd = compare(t.Claim, c.Claim), compare(t.LeaseEnd, c.LeaseEnd)
	}
	switch c.Script {
	case Claim:
		for i, other := range r.Tasks {
			class.Room = class.Room || i != int(c.Task) && other.Place == Due
		}
	case Fire, Finish, Cancel, ReapScript:
		if ticks {
			class.Cursor, class.Live, class.Waits = compare(r.Schedule.Cursor+1, c.Plan.Cursor+1), r.live(), r.Schedule.waits() > 0
			class.Empty = c.Plan.Cursor == c.Plan.Upto
		}
	}
}
