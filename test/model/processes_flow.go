package model

import "slices"

// flowCalls returns the calls with which a leader follows up what the outbox has of a run. It does so in a loop of its
// own.
//
//go:norace
func (m *Model) flowCalls(s *State, l *Leader) []Call {
	if m.Steps == 0 {
		return nil
	}
	switch l.Read.Reading {
	case ReadRun:
		return []Call{{Script: ReadSteps, Read: l.Read}}
	case ReadAll:
		return []Call{{Script: Advance, Fence: l.Fence, Read: l.Read}}
	}
	told := s.Redis.Told || l.Hands[m.Steps].Doing != Nothing // it was claimed, or waits for its begin
	for i := range m.Steps {
		told = told || s.Redis.Tasks[i].Follow.owes()
	}
	if !told {
		return nil
	}
	return []Call{{Script: ReadFlow}}
}

// planned returns the run that follows from what a leader has read, as package workflow plans it.
func (m *Model) planned(r *FlowRead) Flow {
	f := r.Flow
	if r.Own.State == Queued && r.Own.End.Attempt > f.Attempt {
		m.begins(&f, r.Own.End.Attempt)
	}
	if f.Ended {
		return f
	}
	f.Cancelled, f.Given = f.Cancelled || r.Own.Cancel, f.Given || r.Noted
	f.Ended = true
	for i := range m.Steps {
		m.proceed(&f, i, r.Steps[i])
		f.Ended = f.Ended && f.Steps[i].State.Final()
	}
	return f
}

// begins begins an attempt of the run. After the first, the steps run again that did not succeed, and those that need
// them; all, if all succeeded.
func (m *Model) begins(f *Flow, attempt uint8) {
	all := !slices.ContainsFunc(f.Steps[:m.Steps], func(s StepRun) bool { return s.State != StepSucceeded })
	f.Attempt, f.Cancelled, f.Ended = attempt, false, false
	behind := false
	for i := range m.Steps {
		step := &f.Steps[i]
		if again := all || behind || step.State != StepSucceeded; again {
			*step = StepRun{Generation: step.Generation}
			behind = !m.Apart
		}
	}
}

// proceed gives a step its verdict, or releases it.
func (m *Model) proceed(f *Flow, i int, read StepRead) {
	step := &f.Steps[i]
	need := StepSucceeded
	switch {
	case i > 0 && !m.Apart:
		need = f.Steps[i-1].State
	case i == 0 && m.Signals && !f.Given:
		need = Blocked
	}
	switch {
	case step.State == Open:
		step.observes(read, f.Cancelled)
	case step.State == Blocked && (f.Cancelled || need.Final() && need != StepSucceeded):
		step.State = Unreleased
	case step.State == Blocked && need == StepSucceeded:
		step.State, step.Generation = Open, step.Generation+1
	}
}

// observes gives a step that was released the verdict of its task, if that has ended.
func (s *StepRun) observes(read StepRead, cancelled bool) {
	switch {
	case read.State == Succeeded:
		s.decided(StepSucceeded, read.End)
	case read.Told != None && (read.State.Final() || read.State == None):
		s.decided(StepFailed, read.End)
	default:
		s.Stopping = cancelled
	}
}

// decided gives a step the verdict of its task.
func (s *StepRun) decided(verdict StepState, end Ending) {
	s.State, s.Stopping, s.Result = verdict, false, end
}

// outcome returns how a run ends with these verdicts.
func (m *Model) outcome(f *Flow) TaskState {
	if f.Cancelled {
		return Cancelled
	}
	for i := range m.Steps {
		if f.Steps[i].State != StepSucceeded {
			return Failed
		}
	}
	return Succeeded
}

// answered goes on to what a leader does next with a run.
func (r *FlowRead) answered(c Call, reply Reply) {
	*r = reply.Read
	if c.Script == Advance {
		*r = FlowRead{}
	}
}
