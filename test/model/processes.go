package model

import (
	"slices"

	"github.com/dts-sched/dts/lua"
)

// Who is a process.
type Who struct {
	Kind  Kind
	Index uint8 // of the leader or the worker
}

// Kind is a kind of process.
type Kind uint8

// The kinds.
const (
	Client Kind = iota
	ALeader
	AWorker
	AFollower // runs a follow-up; nothing else of it is modelled
)

// Request is a call that a process may make now.
type Request struct {
	Who  Who
	Call Call
}

// requests returns what the processes may ask of Redis now. Nobody makes a call that a living process would not make, but anybody
// may be late with one, because what it knows may be outdated.
//
//go:norace
func (m *Model) requests(s *State) []Request {
	var all []Request
	for i := range m.Tasks {
		all = append(all, Request{Call: Call{Script: Create, Task: uint8(i)}})
	}
	for i := range m.tasks() {
		all = append(all, m.clientCalls(&s.Redis.Tasks[i], uint8(i))...)
	}
	all = append(all, m.lostFollowUps(s)...)
	for i := range m.Leaders {
		for _, c := range m.leaderCalls(s, uint8(i)) {
			all = append(all, Request{Who{ALeader, uint8(i)}, c})
		}
	}
	for i := range m.Workers {
		for _, c := range m.workerCalls(s, &s.Workers[i]) {
			all = append(all, Request{Who{AWorker, uint8(i)}, c})
		}
	}
	return all
}

// clientCalls returns the calls that a client may make about a task that it has submitted.
//
//go:norace
func (m *Model) clientCalls(t *Task, task uint8) (all []Request) {
	if t.State == None {
		return nil
	}
	if m.Cancels {
		all = append(all, Request{Call: Call{Script: Cancel, Task: task}})
	}
	if m.Signals && m.isOwn(task) {
		all = append(all, Request{Call: Call{Script: Signal, Task: task}})
	}
	if m.Forgets {
		all = append(all, Request{Call: Call{Script: Forget, Task: task}})
	}
	if m.Retries && t.Attempt < maxAttempts && (m.Steps == 0 || m.isOwn(task)) {
		all = append(all, Request{Call: Call{Script: Retry, Task: task, Attempt: t.Attempt, To: t.State}})
	}
	return all
}

// lostFollowUps returns the calls with which workers restore follow-ups that Redis has lost.
//
//go:norace
func (m *Model) lostFollowUps(s *State) (all []Request) {
	for i := range m.tasks() {
		for attempt, followed := range s.Seen.Followed[i] {
			if followed && s.Failed && !s.Redis.Tasks[i].Follow.There[attempt] {
				restore := Call{Script: Restore, Task: uint8(i), Attempt: uint8(attempt), Child: true}
				all = append(all, Request{Who{Kind: AFollower}, restore})
			}
		}
	}
	return all
}

// leaderCalls returns the calls that a leader may make.
//
//go:norace
func (m *Model) leaderCalls(s *State, index uint8) []Call {
	l := &s.Leaders[index]
	if l.Fence == 0 {
		return []Call{{Script: AcquireLease, Owner: index + 1}}
	}
	calls := []Call{{Script: RenewLease, Fence: l.Fence}}
	if *l == (Leader{Fence: l.Fence}) { // at the end of its term it waits for its loops
		calls = append(calls, Call{Script: ReleaseLease, Fence: l.Fence})
	}
	if *l == (Leader{Fence: l.Fence, Entry: l.Entry, Read: l.Read}) {
		calls = append(calls, Call{Script: LookAfter, Fence: l.Fence})
	}
	calls = append(calls, m.followCalls(s, l)...)
	calls = append(calls, m.flowCalls(s, l)...)
	if m.Ticks > 0 && !l.Plan.Made {
		calls = append(calls, Call{Script: DueSchedules, Fence: l.Fence})
	} else if m.Ticks > 0 {
		calls = append(calls, Call{Script: Fire, Fence: l.Fence, Plan: l.Plan})
	}
	for i := range m.tasks() {
		calls = append(calls, m.taskCalls(s, l, uint8(i))...)
	}
	if m.Backlog && slices.ContainsFunc(s.Redis.Tasks[:], func(t Task) bool { return t.Place == Due }) {
		calls = append(calls, Call{Script: Claim, Fence: l.Fence, Task: noTask})
	}
	return calls
}

// followCalls returns the calls with which a leader follows up ends. It does so in a loop of its own.
//
//go:norace
func (m *Model) followCalls(s *State, l *Leader) (calls []Call) {
	switch e := l.Entry; {
	case e.State != None && e.Parent == Unread:
		return []Call{{Script: ReadTasks, Task: e.Task}}
	case e.State != None:
		return []Call{{
			Script: FollowUp, Fence: l.Fence, Task: e.Task, Attempt: e.Attempt, To: e.State, Child: e.Parent == Exists,
		}}
	}
	for i := range m.tasks() {
		if m.Steps == 0 && s.Redis.Tasks[i].Follow.owes() {
			calls = append(calls, Call{Script: ReadOutbox, Task: uint8(i)})
		}
	}
	return calls
}

// taskCalls returns the calls that a leader may make about a task.
//
//go:norace
func (m *Model) taskCalls(s *State, l *Leader, task uint8) []Call {
	t := &s.Redis.Tasks[task]
	var calls []Call
	if !m.isOwn(task) { // what follows for a run's own task is in flowCalls
		calls = m.handCalls(l, task)
	}
	if l.Hands[task].Doing == Nothing && (t.Place == Due || t.Place == Ready || t.Place == Later && !m.has(ClaimDue)) {
		calls = append(calls, Call{Script: Claim, Fence: l.Fence, Task: task})
	}
	if m.has(Tending) && slices.ContainsFunc(t.Deliveries[:], func(d Delivery) bool { return d.Stale }) {
		calls = append(calls, Call{Script: TendQueue, Task: task})
	}
	return calls
}

// handCalls returns the calls that a leader may make about a task that it has in hand.
//
//go:norace
func (m *Model) handCalls(l *Leader, task uint8) []Call {
	h := l.Hands[task]
	enqueue := Call{Script: Enqueue, Task: task, Attempt: h.Attempt, Claim: h.Claim}
	takeBack := Call{Script: TakeBackScript, Fence: l.Fence, Task: task, Attempt: h.Attempt}
	reap := Call{Script: ReapScript, Fence: l.Fence, Task: task, Attempt: h.Attempt, Run: h.Run, LeaseEnd: h.LeaseEnd, To: m.next(h.Attempt)}
	switch h.Doing {
	case HandOver:
		if m.Backlog {
			return []Call{enqueue, takeBack}
		}
		return []Call{enqueue}
	case HandAgain:
		if m.Backlog {
			return []Call{enqueue, {Script: Recall, Task: task, Attempt: h.Attempt}}
		}
		return []Call{enqueue}
	case TakeBack:
		return []Call{takeBack}
	case End:
		return []Call{{Script: Finish, Task: task, Attempt: h.Attempt, Run: runForeign, Claim: h.Claim, Before: h.Before, To: m.next(h.Attempt)}}
	case Reap:
		return []Call{reap}
	case ReapCancelled:
		reap.To = Cancelled
		return []Call{reap}
	}
	return nil
}

// next is the state of a task after an attempt that did not succeed.
func (m *Model) next(attempt uint8) TaskState {
	if int(attempt) < m.Attempts || !m.has(Limit) && attempt < maxAttempts {
		return Scheduled
	}
	return Failed
}

// answered has a process take a reply to its call.
func (m *Model) answered(s *State, r Request, reply Reply) {
	switch r.Who.Kind {
	case Client:
		if r.Call.Script == Create {
			s.Seen.Accepted[r.Call.Task] = true
		}
	case ALeader:
		m.leaderAnswered(s, &s.Leaders[r.Who.Index], r.Call, reply)
	case AWorker:
		m.workerAnswered(s, &s.Workers[r.Who.Index], r.Call, reply)
	}
}

func (m *Model) leaderAnswered(s *State, l *Leader, c Call, reply Reply) {
	if reply.Refused == lua.CodeFenced || reply.Refused == lua.CodeLost {
		*l = Leader{}
		return
	}
	switch c.Script {
	case AcquireLease:
		l.Fence = reply.Fence
	case ReleaseLease:
		*l = Leader{}
	case Claim:
		if reply.Attempt > 0 {
			l.Hands[reply.Task] = Hand{Doing: HandOver, Attempt: reply.Attempt, Claim: reply.Claim}
		}
	case LookAfter:
		l.Hands = reply.Found
	case DueSchedules:
		if reply.Planned {
			l.Plan = Plan{Made: true, Cursor: reply.Cursor, Upto: max(s.Clock, reply.Cursor)}
		}
	case Fire:
		l.Plan = Plan{}
	case ReadFlow, ReadSteps, Advance:
		l.Hands[m.Steps] = Hand{}
		l.Read.answered(c, reply)
	case ReadOutbox, ReadTasks, FollowUp:
		l.Entry.answered(c, reply)
	case Enqueue, Recall, ReapScript, TakeBackScript, Finish:
		l.Hands[c.Task].answered(c, reply)
	}
}

// answered goes on to what a leader does next with an entry of the outbox.
func (e *Entry) answered(c Call, reply Reply) {
	switch c.Script {
	case ReadOutbox:
		*e = Entry{State: reply.State, Task: c.Task, Attempt: reply.Attempt}
	case ReadTasks:
		if e.Parent = Exists; reply.State == None {
			e.Parent = Missed
		}
	default:
		*e = Entry{}
	}
}

// answered goes on to what a leader does next with a task: nothing, in most cases.
func (h *Hand) answered(c Call, reply Reply) {
	switch {
	case c.Script == Enqueue && reply.Handled:
		h.Doing = End
	case c.Script == Recall && reply.Recalled:
		h.Doing = TakeBack
	case c.Script == ReapScript && reply.Refused == lua.CodeCancelled:
		h.Doing = ReapCancelled
	default:
		*h = Hand{}
	}
}
