package model

import "github.com/dts-sched/dts/lua"

// ownTask returns the own task of the run; nil if there is no run.
func (m *Model) ownTask(s *State) *Task {
	if m.Steps == 0 {
		return nil
	}
	return &s.Redis.Tasks[m.Steps]
}

// signal notes a signal for the run, which gets it once it has begun. One that is noted, or that the run has, is noted
// again.
func (m *Model) signal(s *State, c Call) Reply {
	switch t := &s.Redis.Tasks[c.Task]; {
	case t.State == None:
		return refused(lua.CodeNotFound)
	case t.State.Final():
		return refused(lua.CodeState)
	}
	s.Redis.Told, s.Redis.Noted = true, true
	return Reply{}
}

// readFlow reads of the outbox whether something was asked of the run, and the oldest end of each step.
func (m *Model) readFlow(s *State, _ Call) Reply {
	r := FlowRead{Reading: ReadRun, Told: s.Redis.Told}
	for i := range m.Steps {
		step := &r.Steps[i]
		step.With, step.Told = s.Redis.Tasks[i].Follow.oldest()
	}
	return Reply{Read: r}
}

// readSteps reads the run, and the tasks of the steps that have ended by the outbox.
func (m *Model) readSteps(s *State, c Call) Reply {
	r, own := c.Read, m.ownTask(s)
	r.Reading, r.Flow, r.Noted = ReadAll, s.Redis.Flow, s.Redis.Noted
	r.Own = OwnRead{own.State, own.end(), own.Cancel}
	for i := range m.Steps {
		if step, t := &r.Steps[i], &s.Redis.Tasks[i]; step.Told != None {
			step.State, step.End = t.State, t.end()
		}
	}
	return Reply{Read: r}
}

// advance has a run go on as its leader has planned, and removes what the leader has read from the outbox. Of a run
// that neither runs nor begins it does only that.
func (m *Model) advance(s *State, c Call) Reply {
	r, read := &s.Redis, &c.Read
	idle := !read.Own.goesOn()
	switch {
	case m.fenced(s, c, AdvanceFence):
		return refused(lua.CodeFenced)
	case r.Flow.Cursor != read.Flow.Cursor && m.has(AdvanceCursor), !idle && !m.finds(s, read):
		return refused(lua.CodeChanged)
	}
	for i := range m.Steps {
		m.took(&r.Tasks[i], &read.Steps[i])
	}
	if idle {
		r.Told = r.Told && !read.Told && m.has(AdvanceTakes)
		return Reply{}
	}
	r.Told, r.Noted = false, false
	m.carryOn(s, read)
	return Reply{}
}

// carryOn writes what a leader has planned.
func (m *Model) carryOn(s *State, read *FlowRead) {
	own, next := m.ownTask(s), m.planned(read)
	if read.Own.State == Queued {
		own.begun(runFlow, 0)
	}
	for i := range m.Steps {
		was, is, t := &read.Flow.Steps[i], &next.Steps[i], &s.Redis.Tasks[i]
		tied := read.Own.State == Queued && next.Attempt > 1 && is.Generation > 0
		switch {
		case is.Generation > was.Generation:
			m.release(s, t, is.Generation)
		case is.Stopping && !was.Stopping:
			m.stop(s, t)
		case tied && t.State.Final():
			t.Follow.Marked = true
		}
	}
	next.Cursor = s.freshCursor()
	s.Redis.Flow = next
	if next.Ended && own.State == Running {
		m.endRun(s, m.outcome(&next))
	}
}

// endRun ends the own task of a run, and frees the tasks of its steps.
func (m *Model) endRun(s *State, outcome TaskState) {
	for i := range m.Steps {
		t := &s.Redis.Tasks[i]
		if s.Redis.Flow.Steps[i].Generation > 0 && t.State.Final() && m.has(AdvanceFrees) {
			t.Follow.Marked = false
		}
	}
	own := m.ownTask(s)
	cancel := own.Cancel && !m.has(CancelAttempt)
	m.endAttempt(s, uint8(m.Steps), runFlow, outcome, Nowhere)
	own.Cancel = cancel
}

// goesOn reports whether the run runs, or begins.
func (o *OwnRead) goesOn() bool {
	return o.State == Queued || o.State == Running && o.End.Run == runFlow
}

// finds reports whether the tasks that a leader has read are as they were.
func (m *Model) finds(s *State, read *FlowRead) bool {
	own := m.ownTask(s)
	if m.has(AdvanceOwn) && read.Own != (OwnRead{own.State, own.end(), own.Cancel}) {
		return false
	}
	if m.has(AdvanceAsked) && read.Noted != s.Redis.Noted {
		return false
	}
	for i := range m.Steps {
		step, t := &read.Steps[i], &s.Redis.Tasks[i]
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

// took removes an end that a leader has read from the outbox. The mark stays until the run ends.
func (m *Model) took(t *Task, read *StepRead) {
	if !m.has(AdvanceTakes) {
		t.Follow.Owed = [maxAttempts + 1]ends{}
	}
	if read.Told != None {
		t.Follow.Owed[read.With].remove(read.Told)
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
		t.Follow.Owed[t.Attempt].add(t.State)
	}
}
