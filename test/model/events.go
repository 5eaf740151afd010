package model

import (
	"fmt"
	"slices"
)

// What is what happens.
type What uint8

// What can happen.
const (
	Calls      What = iota // a process calls a script and gets the reply
	EndsWork               // the work of an attempt ends
	ComesDue               // time passes: a task on the wheel is due
	MustLook               // time passes: the leader must look after a delivery
	LeaseOver              // time passes: the lease of a run is over
	TurnsStale             // time passes: the lease of a delivery is about to end
	Expires                // time passes: the lease of the partition ends
	TickComes              // time passes: a tick comes
	Sends                  // a copy of a call is on its way: the reply to the call will be lost, or it arrives twice, or late
	Arrives                // the copy arrives; nobody gets the reply
	Dies                   // a process dies, and another one starts in its place
	Lags                   // the replica begins to lag
	FailsOver              // the primary dies, and the replica is Redis now
	Deletes                // somebody deletes the list of the deliveries that wait
)

// byItself reports whether an event happens without a client, without a fault, and without further ticks. With these alone,
// everything has to end.
func (m *Model) byItself(e Event) bool {
	return e.What <= Expires && (e.What != Calls || e.Who.Kind == ALeader || e.Who.Kind == AWorker)
}

// Event is something that can happen in a state.
type Event struct {
	What    What
	Request           // of Calls, Sends, EndsWork and Dies
	Task    uint8     // of a passage of time
	Attempt uint8     // of TurnsStale
	To      TaskState // of EndsWork
}

func (w Who) String() string {
	switch w.Kind {
	case ALeader:
		return fmt.Sprintf("leader %d", w.Index+1)
	case AWorker:
		return fmt.Sprintf("worker %d", w.Index+1)
	case AFollower:
		return "a worker of the follow-up"
	}
	return "a client"
}

func (e Event) String() string {
	task := fmt.Sprintf("task %d", e.Task+1)
	switch e.What {
	case Calls:
		return fmt.Sprintf("%s calls %s", e.Who, e.Call)
	case EndsWork:
		return fmt.Sprintf("%s ends its work, which makes the task %s", e.Who, e.To)
	case ComesDue:
		return task + " comes due"
	case MustLook:
		return task + " has waited long for a worker"
	case LeaseOver:
		return "the lease of the run of " + task + " is over"
	case TurnsStale:
		return fmt.Sprintf("the lease of the delivery of %s, attempt %d, is almost over", task, e.Attempt)
	case Expires:
		return "the lease of the partition ends"
	case TickComes:
		return "a tick comes"
	case Sends:
		return fmt.Sprintf("%s sends a copy of %s, which is delayed", e.Who, e.Call)
	case Arrives:
		return "the copy arrives"
	case Dies:
		return fmt.Sprintf("%s dies", e.Who)
	case Lags:
		return "the replica begins to lag"
	case Deletes:
		return "somebody deletes the list in which the delivery of " + task + " waits"
	}
	return "the primary dies, and what the replica lacks is lost"
}

// events returns everything that can happen in a state.
//
//go:norace
func (m *Model) events(s *State) []Event {
	requests := m.requests(s)
	all := make([]Event, 0, 2*len(requests)+8)
	for _, r := range requests {
		all = append(all, Event{What: Calls, Request: r})
	}
	all = append(all, m.ends(s)...)
	all = append(all, m.passages(s)...)
	if m.Copies && s.Copy.Script == NoScript {
		for _, r := range requests {
			all = append(all, Event{What: Sends, Request: r})
		}
	}
	if s.Copy.Script != NoScript {
		all = append(all, Event{What: Arrives})
	}
	return append(append(all, m.deaths(s)...), m.deletions(s)...)
}

// ends returns how attempts can end.
//
//go:norace
func (m *Model) ends(s *State) []Event {
	var all []Event
	for i := range m.Workers {
		w := &s.Workers[i]
		if w.Phase != Works {
			continue
		}
		r := Request{Who: Who{AWorker, uint8(i)}}
		all = append(all, Event{What: EndsWork, Request: r, To: Succeeded}, Event{What: EndsWork, Request: r, To: m.next(w.Attempt)})
		if w.Stopped {
			all = append(all, Event{What: EndsWork, Request: r, To: Cancelled})
		}
	}
	return all
}

// passages returns what the passage of time can bring.
//
//go:norace
func (m *Model) passages(s *State) []Event {
	var all []Event
	for i := range m.tasks() {
		t := &s.Redis.Tasks[i]
		switch {
		case t.Place == Later:
			all = append(all, Event{What: ComesDue, Task: uint8(i)})
		case t.State == Queued && !t.Look:
			all = append(all, Event{What: MustLook, Task: uint8(i)})
		case t.State == Running && !t.Over && t.Run != runFlow:
			all = append(all, Event{What: LeaseOver, Task: uint8(i)})
		}
		for k, d := range t.Deliveries {
			if d.State == Active && !d.Stale {
				all = append(all, Event{What: TurnsStale, Task: uint8(i), Attempt: uint8(k) + 1})
			}
		}
	}
	if !s.Redis.Lease.Free {
		all = append(all, Event{What: Expires})
	}
	if int(s.Clock) < m.Ticks {
		all = append(all, Event{What: TickComes})
	}
	return all
}

// deaths returns which processes can die, and what can become of Redis.
//
//go:norace
func (m *Model) deaths(s *State) []Event {
	var all []Event
	for i := range m.Leaders {
		if s.Leaders[i] != (Leader{}) {
			all = append(all, Event{What: Dies, Request: Request{Who: Who{ALeader, uint8(i)}}})
		}
	}
	for i := range m.Workers {
		if s.Workers[i].Phase != Idle {
			all = append(all, Event{What: Dies, Request: Request{Who: Who{AWorker, uint8(i)}}})
		}
	}
	switch {
	case m.Lag == 0 || s.Failed:
	case s.Lag == 0 && m.Early && slices.ContainsFunc(s.Redis.Tasks[:], func(t Task) bool { return t.Attempt > 0 }):
	case s.Lag == 0:
		all = append(all, Event{What: Lags})
	case s.Lag > 1:
		all = append(all, Event{What: FailsOver})
	}
	return all
}

// deletions returns which lists somebody can delete.
//
//go:norace
func (m *Model) deletions(s *State) []Event {
	var all []Event
	for i := range m.tasks() {
		if m.Deletes && slices.ContainsFunc(s.Redis.Tasks[i].Deliveries[:], Delivery.waits) {
			all = append(all, Event{What: Deletes, Task: uint8(i)})
		}
	}
	return all
}

// happen returns the state after an event, and the reply of the script if one ran.
//
//go:norace
func (m *Model) happen(before *State, e Event) (State, Reply) {
	s := *before
	var reply Reply
	switch e.What {
	case Calls:
		reply = m.execute(&s, e.Call)
		m.answered(&s, e.Request, reply)
	case Arrives:
		c := s.Copy
		s.Copy = Call{}
		reply = m.execute(&s, c)
		for _, l := range []*Lease{&s.Redis.Lease, &s.Replica.Lease} {
			if l.Owner == ofCopy {
				l.Owner = 0
			}
		}
	case Sends:
		s.Copy = e.Call
	case EndsWork:
		w := &s.Workers[e.Who.Index]
		w.Phase, w.To, w.Missing, w.Earlier = Ended, e.To, Found, 0
	case Dies:
		s.die(e.Who)
	case Lags:
		s.Replica, s.Lag = s.Redis, 1
	case FailsOver:
		s.failOver()
	case Deletes:
		m.deleteList(&s, e.Task)
	default:
		s.pass(e)
	}
	return s, reply
}

// execute runs a script and notes what somebody outside sees of it. A replica that lags too far catches up.
//
//go:norace
func (m *Model) execute(s *State, c Call) Reply {
	before := s.Redis
	reply := m.run(s, c)
	if s.Redis == before {
		if (c.Script == Begin || c.Script == ExtendRuns) && reply.Refused == "" {
			s.Seen.Word[c.Task] = true
		}
		return reply
	}
	if s.Lag++; s.Lag == 1 || int(s.Lag)-1 > m.Lag {
		s.Replica, s.Lag = Redis{}, 0
	}
	for i := range s.Redis.Tasks {
		s.Seen.Made[i] = s.Seen.Made[i] || s.Redis.Tasks[i].State != None
	}
	m.seen(s, &before, c, reply)
	return reply
}

// seen notes what somebody outside sees of a script that has changed something.
//
//go:norace
func (m *Model) seen(s *State, before *Redis, c Call, reply Reply) {
	switch {
	case (c.Script == Begin || c.Script == ExtendRuns) && reply.Refused == "":
		s.Seen.Word[c.Task] = true
	case c.Script == ReapScript:
		s.Seen.Reaped[c.Task][c.Attempt-1] = true
	case reply.Created:
		s.Seen.Followed[c.Task][c.Attempt] = true
	case c.Script == Advance:
		m.released(s, before)
	case c.Script == Cancel && m.isOwn(c.Task) && s.Redis.Told:
		s.Seen.Asked = s.Redis.Tasks[c.Task].Attempt
	case c.Script == Signal && reply.Refused == "":
		s.Seen.Signaled = true
	}
}

// released notes which steps were released.
func (m *Model) released(s *State, before *Redis) {
	for i := range m.Steps {
		if before.Tasks[i].releasedAs(&s.Redis.Tasks[i]) {
			s.Seen.Released[i] = max(s.Seen.Released[i], s.Redis.Flow.Steps[i].Generation)
		}
	}
}

// deleteList deletes the list of a task's queue, which the tasks of a schedule share.
func (m *Model) deleteList(s *State, task uint8) {
	for i := range s.Redis.Tasks {
		for k := range s.Redis.Tasks[i].Deliveries {
			d := &s.Redis.Tasks[i].Deliveries[k]
			d.Unlisted = d.Unlisted || d.State == Pending && (i == int(task) || m.Ticks > 0)
		}
	}
}

// failOver makes the replica Redis. What processes know of claims is from before.
func (s *State) failOver() {
	s.Redis, s.Replica, s.Lag, s.Failed = s.Replica, Redis{}, 0, true
	s.Copy.Before = s.Copy.Claim != 0
	for i := range s.Workers {
		s.Workers[i].Before = s.Workers[i].Claim != 0
	}
	for i := range s.Leaders {
		for k := range s.Leaders[i].Hands {
			s.Leaders[i].Hands[k].Before = s.Leaders[i].Hands[k].Claim != 0
		}
	}
}

// die ends a process. Its name is not used again.
func (s *State) die(who Who) {
	if who.Kind == AWorker {
		s.Workers[who.Index] = Worker{}
		return
	}
	s.Leaders[who.Index] = Leader{}
	left := uint8(0)
	if s.Copy.Owner == who.Index+1 {
		left, s.Copy.Owner = ofCopy, ofCopy
	}
	for _, l := range []*Lease{&s.Redis.Lease, &s.Replica.Lease} {
		if l.Owner == who.Index+1 {
			l.Owner = left
		}
	}
}

// pass lets time pass.
func (s *State) pass(e Event) {
	t := &s.Redis.Tasks[e.Task]
	switch e.What {
	case ComesDue:
		t.Place = Due
	case MustLook:
		t.Look = true
	case LeaseOver:
		t.Over = true
		s.Seen.Word[e.Task] = false
	case TurnsStale:
		t.Deliveries[e.Attempt-1].Stale = true
	case Expires:
		s.Redis.Lease.Free = true
	case TickComes:
		s.Clock++
	}
}
