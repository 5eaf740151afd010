package limits

import "github.com/dts-sched/dts/test/model/graph"

// action is what a process does, or what happens by itself, whatever it leads to. Fair processes do not put off for
// ever what they can do all the time.
type action struct {
	what                   What
	script                 Script
	partition, limit, task uint8
}

// actionOf returns the action of an event. An attempt ends sooner or later, in whichever way.
func actionOf(e Event) action {
	a := action{e.What, e.Call.Script, e.Call.Partition, e.Call.Limit, e.Call.Task}
	if a.what == Runs {
		a.what = Ends
	}
	return a
}

// waits is the states in which a partition waits, with the steps between them.
type waits struct {
	states  []int32         // the index in the graph
	number  map[int32]int32 // of a state here, by its index in the graph
	steps   [][]waitStep
	enabled []uint64 // the actions that are possible in a state, as bits
}

// waitStep leads to a state by an action, which is a bit.
type waitStep struct {
	to     int32
	action uint64
}

// starves returns a state from which a partition can wait for ever though all processes are fair, nobody dies and no
// person does anything.
func (m *Model) starves(g *graph.Graph[State], p int) (int32, bool) {
	w := m.waitsOf(g, p)
	for _, part := range w.components() {
		isIn := make(map[int32]bool, len(part))
		for _, i := range part {
			isIn[i] = true
		}
		always, done, steps := ^uint64(0), uint64(0), 0
		for _, i := range part {
			always &= w.enabled[i]
			for _, s := range w.steps[i] {
				if isIn[s.to] {
					done, steps = done|s.action, steps+1
				}
			}
		}
		if steps > 0 && always&^done == 0 {
			return w.states[part[0]], true
		}
	}
	return 0, false
}

// waitsOf returns the states in which the tasks of a partition wait.
func (m *Model) waitsOf(g *graph.Graph[State], p int) *waits {
	w := &waits{number: make(map[int32]int32)}
	for i := range g.Len() {
		if m.allWait(g.At(i), p) {
			w.number[i] = int32(len(w.states))
			w.states = append(w.states, i)
		}
	}
	bits := make(map[action]uint64)
	w.steps, w.enabled = make([][]waitStep, len(w.states)), make([]uint64, len(w.states))
	for n, i := range w.states {
		before := *g.At(i)
		for _, e := range m.events(&before) {
			if !e.byItself() {
				continue
			}
			bit, known := bits[actionOf(e)]
			if !known {
				bit = 1 << len(bits)
				bits[actionOf(e)] = bit
			}
			w.enabled[n] |= bit
			after, _ := m.happen(&before, e)
			if to, isHere := w.number[g.Add(m.canonical(&after), i)]; isHere {
				w.steps[n] = append(w.steps[n], waitStep{to, bit})
			}
		}
	}
	return w
}

// allWait reports whether all tasks of a partition wait.
func (m *Model) allWait(s *State, p int) bool {
	return int(s.Redis.Partitions[p].waiting(m.Tasks)) == m.Tasks && s.Works[p] == [maxTasks]bool{}
}

// components returns the sets of states that all lead to each other, by Tarjan's algorithm.
func (w *waits) components() (all [][]int32) {
	type visit struct{ state, step int32 }
	var (
		order   = make([]int32, len(w.states)) // when a state was found, from 1
		low     = make([]int32, len(w.states))
		isOpen  = make([]bool, len(w.states))
		open    []int32
		visits  []visit
		counted int32
	)
	enter := func(i int32) {
		counted++
		order[i], low[i], isOpen[i] = counted, counted, true
		open, visits = append(open, i), append(visits, visit{state: i})
	}
	for root := range w.states {
		if order[root] == 0 {
			enter(int32(root))
		}
		for len(visits) > 0 {
			v := &visits[len(visits)-1]
			i := v.state
			if int(v.step) < len(w.steps[i]) {
				to := w.steps[i][v.step].to
				v.step++
				if order[to] == 0 {
					enter(to)
				} else if isOpen[to] {
					low[i] = min(low[i], order[to])
				}
				continue
			}
			visits = visits[:len(visits)-1]
			if len(visits) > 0 {
				before := visits[len(visits)-1].state
				low[before] = min(low[before], low[i])
			}
			if low[i] == order[i] {
				var part []int32
				open, part = w.close(open, isOpen, i)
				all = append(all, part)
			}
		}
	}
	return all
}

// close takes a component off the open states, down to its first one.
func (w *waits) close(open []int32, isOpen []bool, first int32) (rest, part []int32) {
	at := len(open) - 1
	for ; open[at] != first; at-- {
		isOpen[open[at]] = false
	}
	isOpen[first] = false
	return open[:at], append([]int32(nil), open[at:]...)
}
