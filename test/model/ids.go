package model

import (
	"cmp"
	"hash/maphash"
	"math/bits"
)

// set is a set of ids.
type set uint16

func (u *set) add(id ID) { *u |= 1 << id }

// least returns the least id, from 1, that is not in the set.
func (u set) least() ID { return ID(bits.TrailingZeros16(^uint16(u | 1))) }

// freshFence returns a fence that nobody has.
func (s *State) freshFence() ID {
	var used set
	used.add(s.Redis.Lease.Newest)
	used.add(s.Replica.Lease.Newest)
	used.add(s.Copy.Fence)
	for i := range s.Leaders {
		used.add(s.Leaders[i].Fence)
	}
	return used.least()
}

// freshCursor returns a cursor of the run that nobody has.
func (s *State) freshCursor() ID {
	var used set
	for _, f := range s.flows() {
		used.add(f.Cursor)
	}
	return used.least()
}

// freshRun returns the token of a run that nobody has.
func (s *State) freshRun() ID {
	var used set
	used.add(s.Copy.Run)
	for i := range s.Redis.Tasks {
		used.add(s.Redis.Tasks[i].Run)
		used.add(s.Replica.Tasks[i].Run)
		for k := range s.Leaders {
			used.add(s.Leaders[k].Hands[i].Run)
		}
	}
	for i := range s.Workers {
		used.add(s.Workers[i].Run)
		used.add(s.Workers[i].Earlier)
	}
	for _, id := range s.runsOfFlow() {
		used.add(*id)
	}
	return used.least()
}

// freshClaim returns a claim of a task that nobody knows.
func (s *State) freshClaim(task int) ID {
	var used set
	for _, r := range []*Redis{&s.Redis, &s.Replica} {
		used.add(r.Tasks[task].Claim)
		for _, d := range r.Tasks[task].Deliveries {
			used.add(d.Claim)
		}
	}
	for i := range s.Leaders {
		used.add(s.Leaders[i].Hands[task].Claim)
	}
	for i := range s.Workers {
		if int(s.Workers[i].Task) == task {
			used.add(s.Workers[i].Claim)
		}
	}
	if int(s.Copy.Task) == task {
		used.add(s.Copy.Claim)
	}
	return used.least()
}

// freshLeaseEnd returns an end of the lease of a task's run that nobody knows.
func (s *State) freshLeaseEnd(task int) ID {
	var used set
	used.add(s.Redis.Tasks[task].LeaseEnd)
	used.add(s.Replica.Tasks[task].LeaseEnd)
	for i := range s.Leaders {
		used.add(s.Leaders[i].Hands[task].LeaseEnd)
	}
	if int(s.Copy.Task) == task {
		used.add(s.Copy.LeaseEnd)
	}
	return used.least()
}

// names gives ids new names, in the order in which they are seen.
type names struct {
	of   [16]ID
	next ID
}

//go:norace
func (n *names) rename(id *ID) {
	if *id == 0 || *id >= runFlow {
		return
	}
	if n.of[*id] == 0 {
		n.next++
		n.of[*id] = n.next
	}
	*id = n.of[*id]
}

// canonical returns the state that stands for all that differ in the names of ids and in the order of leaders and workers only.
//
//go:norace
func (m *Model) canonical(s *State) State {
	c := *s
	order := 0
	if m.Workers > 1 {
		order = cmp.Compare(c.Workers[0].order(), c.Workers[1].order())
	}
	if order > 0 {
		c.swapWorkers()
	}
	tie := m.Workers > 1 && order == 0 && c.Workers[0] != c.Workers[1]
	c = m.withLeadersInOrder(c)
	if !tie {
		return c
	}
	other := *s
	other.swapWorkers()
	return least(c, m.withLeadersInOrder(other))
}

// withLeadersInOrder brings the leaders into order, and renames the ids.
//
//go:norace
func (m *Model) withLeadersInOrder(c State) State {
	if m.Leaders < 2 {
		m.rename(&c)
		return c
	}
	order := cmp.Compare(c.orderOf(0), c.orderOf(1))
	other := c
	other.swapLeaders()
	m.rename(&other)
	if order > 0 {
		return other
	}
	m.rename(&c)
	if order < 0 {
		return c
	}
	return least(c, other)
}

// seed makes the order of least, which is another one in each process.
var seed = maphash.MakeSeed()

// least returns one of two states, whichever is the first.
func least(a, b State) State {
	if maphash.Comparable(seed, a) <= maphash.Comparable(seed, b) {
		return a
	}
	return b
}

func (s *State) swapWorkers() { s.Workers[0], s.Workers[1] = s.Workers[1], s.Workers[0] }

func (s *State) swapLeaders() {
	s.Leaders[0], s.Leaders[1] = s.Leaders[1], s.Leaders[0]
	for _, owner := range []*uint8{&s.Redis.Lease.Owner, &s.Replica.Lease.Owner, &s.Copy.Owner} {
		if *owner > 0 && *owner < ofCopy {
			*owner = maxLeaders + 1 - *owner
		}
	}
}

// order is the place of a worker among others, without regard to ids.
//
//go:norace
func (w *Worker) order() int {
	n := int(w.Missing)<<21 | int(w.Phase)<<16 | int(w.Task)<<12 | int(w.Attempt)<<8 | int(w.To)<<1
	if w.Stopped {
		n++
	}
	if w.Before {
		n += 1 << 20
	}
	return n
}

// orderOf is the place of a leader among others, without regard to ids.
//
//go:norace
func (s *State) orderOf(leader int) int {
	l, n := &s.Leaders[leader], 0
	switch {
	case l.Fence == 0:
	case l.Fence == s.Redis.Lease.Newest:
		n = 2
	default:
		n = 1
	}
	if int(s.Redis.Lease.Owner) == leader+1 {
		n += 4
	}
	for _, h := range l.Hands {
		n = n<<5 | int(h.Doing)<<2 | int(h.Attempt)
	}
	return n<<4 | int(l.Plan.Cursor)<<2 | int(l.Plan.Upto)
}

// rename names the ids in the order in which they are seen.
//
//go:norace
func (m *Model) rename(s *State) {
	if m.Steps > 0 {
		s.renameCursors()
	}
	s.renameFences()
	s.renameRuns(m.Steps > 0)
	for i := range s.Redis.Tasks {
		s.renameTask(i)
	}
}

//go:norace
func (s *State) renameFences() {
	var n names
	n.rename(&s.Redis.Lease.Newest)
	n.rename(&s.Replica.Lease.Newest)
	for i := range s.Leaders {
		n.rename(&s.Leaders[i].Fence)
	}
	n.rename(&s.Copy.Fence)
}

// flows returns the texts of the run that somebody has.
//
//go:norace
func (s *State) flows() [3 + maxLeaders]*Flow {
	return [...]*Flow{
		&s.Redis.Flow, &s.Replica.Flow, &s.Leaders[0].Read.Flow, &s.Leaders[1].Read.Flow, &s.Copy.Read.Flow,
	}
}

//go:norace
func (s *State) renameCursors() {
	var n names
	for _, f := range s.flows() {
		n.rename(&f.Cursor)
	}
}

// runsOfFlow returns the runs of tasks that somebody knows by the run of the workflow.
//
//go:norace
func (s *State) runsOfFlow() []*ID {
	all := make([]*ID, 0, maxSteps*(3+maxLeaders+1+maxLeaders))
	for i := range maxSteps {
		for _, f := range s.flows() {
			all = append(all, &f.Steps[i].Result.Run)
		}
		for _, r := range []*FlowRead{&s.Leaders[0].Read, &s.Leaders[1].Read, &s.Copy.Read} {
			all = append(all, &r.Steps[i].End.Run)
		}
	}
	return all
}

//go:norace
func (s *State) renameRuns(ofFlow bool) {
	var n names
	for i := range s.Redis.Tasks {
		n.rename(&s.Redis.Tasks[i].Run)
		n.rename(&s.Replica.Tasks[i].Run)
	}
	for i := range s.Workers {
		n.rename(&s.Workers[i].Run)
		n.rename(&s.Workers[i].Earlier)
	}
	for i := range s.Leaders {
		for k := range s.Leaders[i].Hands {
			n.rename(&s.Leaders[i].Hands[k].Run)
		}
	}
	n.rename(&s.Copy.Run)
	if ofFlow {
		for _, id := range s.runsOfFlow() {
			n.rename(id)
		}
	}
}

// renameTask renames the claims and lease ends of a task.
//
//go:norace
func (s *State) renameTask(task int) {
	var claims, ends names
	for _, r := range []*Redis{&s.Redis, &s.Replica} {
		t := &r.Tasks[task]
		claims.rename(&t.Claim)
		ends.rename(&t.LeaseEnd)
		for k := range t.Deliveries {
			claims.rename(&t.Deliveries[k].Claim)
		}
	}
	for i := range s.Leaders {
		h := &s.Leaders[i].Hands[task]
		claims.rename(&h.Claim)
		ends.rename(&h.LeaseEnd)
	}
	for i := range s.Workers {
		if int(s.Workers[i].Task) == task {
			claims.rename(&s.Workers[i].Claim)
		}
	}
	if int(s.Copy.Task) == task {
		claims.rename(&s.Copy.Claim)
		ends.rename(&s.Copy.LeaseEnd)
	}
}
