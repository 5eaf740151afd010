package model

import "github.com/dts-sched/dts/lua"

// tell notes in the outbox what a client asks of the run: to cancel it, or to run it again after it ended as the client
// has seen it.
func (m *Model) tell(s *State, c Call) Reply {
	f, asks := &s.Redis.Flow, &s.Redis.Asks
	switch {
	case c.To == Cancelled && f.Attempt > 0 && f.Ended == None:
		asks.Cancel = f.Attempt
	case c.To == Scheduled && f.Attempt == c.Attempt && f.Ended != None:
		asks.Begin = true
	default:
		return refused(lua.CodeState)
	}
	return Reply{}
}

// readFlow reads the run, and the outbox: what was asked, and the oldest end of each step.
func (m *Model) readFlow(s *State, _ Call) Reply {
	r := FlowRead{Reading: ReadAll, Flow: s.Redis.Flow, Asks: s.Redis.Asks}
	for i := range m.Steps {
		step := &r.Steps[i]
		if step.With, step.Told = s.Redis.Tasks[i].Follow.oldest(); step.Told != None {
			r.Reading = ReadRun
		}
	}
	return Reply{Read: r}
}

// readSteps reads the tasks of the steps that have ended by the outbox.
func (m *Model) readSteps(s *State, c Call) Reply {
	r := c.Read
	r.Reading = ReadAll
	for i := range m.Steps {
		if step, t := &r.Steps[i], &s.Redis.Tasks[i]; step.Told != None {
			step.State, step.End = t.State, t.end()
		}
	}
	return Reply{Read: r}
}

// advance has a run go on as its leader has planned, and removes what the leader has read from the outbox.
func (m *Model) advance(s *State, c Call) Reply {
	r, read := &s.Redis, &c.Read
	switch {
	case m.fenced(s, c, AdvanceFence):
		return refused(lua.CodeFenced)
	case r.Flow.Cursor != read.Flow.Cursor && m.has(AdvanceCursor), !m.finds(r, read):
		return refused(lua.CodeChanged)
	}
	next := m.planned(read)
	for i := range m.Steps {
		was, is, t := &read.Flow.Steps[i], &next.Steps[i], &r.Tasks[i]
		m.took(t, &read.Steps[i])
		switch {
		case is.Generation > was.Generation:
			m.release(s, t, is.Generation)
		case is.Stopping && !was.Stopping:
			m.stop(s, t)
		}
	}
	m.tookAsks(&r.Asks, &read.Asks)
	if next != read.Flow {
		next.Cursor = s.freshCursor()
		r.Flow = next
	}
	return Reply{}
}

// finds reports whether the tasks that a leader has read are as they were.
func (m *Model) finds(r *Redis, read *FlowRead) bool {
	for i := range m.Steps {
		step, t := &read.Steps[i], &r.Tasks[i]
		switch {
		case step.Told == None:
		case t.State != step.State && m.has(AdvanceStates):
			return false
		case t.Attempt != step.End.Attempt && m.has(AdvanceAttempts), t.Run != step.End.Run && m.has(AdvanceRuns):
			return false
		}
	}
	return true
}

// end returns by which attempt and run a task has ended, if it has.
func (t *Task) end() Ending { return Ending{t.Attempt, t.Run} }

// took removes an end that a leader has read from the outbox, and the mark if the task has that end still.
func (m *Model) took(t *Task, read *StepRead) {
	if !m.has(AdvanceTakes) {
		t.Follow.Owed, t.Follow.Marked = [maxAttempts + 1]ends{}, false
	}
	if read.Told == None || !t.Follow.Owed[read.With].has(read.Told) {
		return
	}
	t.Follow.Owed[read.With].remove(read.Told)
	if t.State == read.Told && t.Attempt == read.With {
		t.Follow.Marked = false
	}
}

// tookAsks removes what a leader has read.
func (m *Model) tookAsks(a, read *Asks) {
	a.Begin = a.Begin && !read.Begin && m.has(AdvanceTakes)
	if a.Cancel == read.Cancel || !m.has(AdvanceTakes) {
		a.Cancel = 0
	}
}

// release creates the task of a step, or has one run again that has ended in an earlier generation. A task stays as it
// is that a worker has restored, as Redis lost its release. If it has ended, that is told again.
func (m *Model) release(s *State, t *Task, generation uint8) {
	switch {
	case t.State == None || !m.has(ReleaseExisting):
		t.created(s, Due)
	case !t.State.Final():
	case generation > 1:
		t.become(Task{State: Scheduled, Place: Due, Attempt: t.Attempt})
		t.Follow.Marked = false
	case m.has(ReleaseTells):
		t.Follow.Marked = true
		t.Follow.Owed[t.Attempt].add(t.State)
	}
}
