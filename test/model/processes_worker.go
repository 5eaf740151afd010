package model

import "github.com/dts-sched/dts/lua"

// workerCalls returns the calls that a worker may make.
//
//go:norace
func (m *Model) workerCalls(s *State, w *Worker) []Call {
	of := Call{Task: w.Task, Attempt: w.Attempt}
	call := func(script Script) Call {
		c := of
		c.Script = script
		return c
	}
	run := func(script Script, to TaskState) Call {
		c := call(script)
		c.Run, c.Claim, c.Before, c.To = w.Run, w.Claim, w.Before, to
		return c
	}
	switch w.Missing {
	case Restores:
		return []Call{run(Restore, None)}
	case Reads:
		return []Call{call(ReadTasks)}
	case EndsBefore:
		c := run(Finish, Scheduled)
		c.Attempt, c.Run, c.Instead = w.Attempt-1, w.Earlier, true // there are two attempts at most
		return []Call{c}
	}
	switch w.Phase {
	case Idle:
		return m.takes(s)
	case Taken:
		return []Call{run(Begin, None), call(GiveBack), call(Extend)}
	case Works:
		return []Call{run(ExtendRuns, None), call(Extend)}
	case Ended:
		return []Call{run(Finish, w.To), call(Extend)}
	}
	calls := []Call{call(Done)}
	if w.To == Failed {
		calls[0].Script = Archive
	}
	if s.Failed && w.Run != 0 {
		calls = append(calls, run(Finish, w.To)) // once more, in case Redis has lost it
	}
	return calls
}

// takes returns the takes of deliveries that wait.
//
//go:norace
func (m *Model) takes(s *State) []Call {
	var calls []Call
	for i := range m.tasks() {
		for k, d := range s.Redis.Tasks[i].Deliveries {
			if d.waits() {
				calls = append(calls, Call{Script: Take, Task: uint8(i), Attempt: uint8(k) + 1})
			}
		}
	}
	return calls
}

func (m *Model) workerAnswered(s *State, w *Worker, c Call, reply Reply) {
	switch c.Script {
	case Take:
		if reply.Taken {
			*w = Worker{Phase: Taken, Task: c.Task, Attempt: c.Attempt, Run: reply.Run}
		}
	case Begin:
		if reply.Refused != "" {
			m.settle(w, None)
			return
		}
		w.Phase, w.Claim, w.Stopped = Works, reply.Claim, reply.Stopped
		s.Seen.Begun[c.Task][c.Attempt-1] = min(s.Seen.Begun[c.Task][c.Attempt-1]+1, 2)
	case Restore:
		w.Missing = Restored
	case ReadTasks:
		w.Missing = EndedBefore
		if w.Earlier = m.notEnded(&s.Redis.Tasks[c.Task], w); w.Earlier != 0 {
			w.Missing = EndsBefore
		}
	case ExtendRuns:
		if w.misses(s, reply) {
			return
		}
		if reply.Refused != "" { // its work ends as lost
			w.Phase, w.To = Ended, m.next(w.Attempt)
		}
		w.Stopped = w.Stopped || reply.Stopped
	case Finish:
		if c.Instead {
			w.endedBefore(reply)
			return
		}
		m.finished(s, w, c, reply)
	case GiveBack, Done, Archive:
		*w = Worker{}
	}
}

// finished has a worker take the reply to its report.
func (m *Model) finished(s *State, w *Worker, c Call, reply Reply) {
	switch {
	case w.misses(s, reply):
	case w.Phase == Settles: // it has reported before
	case reply.Refused == "":
		m.settle(w, c.To)
	case reply.Refused == lua.CodeCancelled:
		w.To = Cancelled
	default:
		m.settle(w, None)
	}
}

// notEnded returns the run of the attempt of a task that Redis shows as the next one to end, if it is before that of
// the worker; else 0, as of a task of the same name that was created later.
func (m *Model) notEnded(t *Task, w *Worker) ID {
	shown, run := t.Attempt, runUnknown
	switch t.State {
	case Scheduled:
		shown++
	case Queued:
	case Running:
		run = t.Run
	default:
		return 0
	}
	if shown >= w.Attempt || t.Later && w.Before && m.has(EndBeforeTask) {
		return 0
	}
	return run
}

// endedBefore has a worker take the reply to its report that the attempt before has ended.
func (w *Worker) endedBefore(reply Reply) {
	w.Missing, w.Earlier = Reads, 0
	if reply.Refused != "" {
		w.Missing = EndedBefore
	}
}

// misses has a worker that does not find its task restore it if a failover may have lost it, and try again; and one
// that finds an earlier attempt of it, end that. It reports whether it does. Real ones try for a minute, those of the
// model once, but as late as they like.
func (w *Worker) misses(s *State, reply Reply) bool {
	if reply.Behind && s.Failed && w.Missing != EndedBefore {
		w.Missing = Reads
		return true
	}
	if reply.Refused != lua.CodeNotFound || !s.Failed || w.Missing == Restored {
		w.Missing = Found
		return false
	}
	w.Missing = Restores
	return true
}

// settle has a worker settle its delivery: as a dead letter if the task has failed. If there can be a failover, it does
// not forget what it has reported.
func (m *Model) settle(w *Worker, to TaskState) {
	settles := Worker{Phase: Settles, Task: w.Task, Attempt: w.Attempt}
	switch {
	case m.Lag > 0 && to != None:
		settles.Run, settles.Claim, settles.Before, settles.To = w.Run, w.Claim, w.Before, to
	case to == Failed:
		settles.To = Failed
	}
	*w = settles
}
