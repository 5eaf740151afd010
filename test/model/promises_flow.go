package model

// brokenByRun returns the promises about a run and the tasks of its steps.
//
//go:norace
func (m *Model) brokenByRun(before, after *State) noted {
	var broken noted
	f, own := &after.Redis.Flow, m.ownTask(after)
	broken.note(Final, before.Redis.Flow.revivedAs(f))
	for i := range m.Steps {
		step, t := &f.Steps[i], &after.Redis.Tasks[i]
		broken.note(Agreed, !step.agrees(t) || f.Ended && !step.State.Final())
		broken.note(Reasoned, !step.explains(t.State))
		broken.note(Followed, step.State == Open && t.State.Final() && !t.Follow.Owed[t.Attempt].has(t.State))
	}
	broken.note(Agreed, !m.endedAlike(own, f))
	broken.note(Kept, after.Seen.Signaled && !after.Redis.Noted && !f.Given)
	broken.note(Asked, f.Cancelled && after.Seen.Asked != f.Attempt)
	return broken
}

// endedAlike reports whether a run has ended as its steps say. One that was cancelled before it began, or before it
// began again, has steps that do not know it.
func (m *Model) endedAlike(own *Task, f *Flow) bool {
	waited := own.State == Cancelled && !f.Cancelled
	switch {
	case waited:
		return f.Ended || f.Attempt == 0
	case own.State.Final():
		return f.Ended && own.State == m.outcome(f)
	}
	return own.State != Running || !f.Ended
}

// revivedAs reports whether a run or a step has changed that had ended, though the run did not begin again.
func (f *Flow) revivedAs(is *Flow) bool {
	if f.Attempt < is.Attempt {
		return false
	}
	for i := range f.Steps {
		if f.Steps[i].State.Final() && f.Steps[i] != is.Steps[i] {
			return true
		}
	}
	return f.Ended && !is.Ended
}

// agrees reports whether a step that was released has a task, and its verdict and result are those of the task.
//
//go:norace
func (s *StepRun) agrees(t *Task) bool {
	switch s.State {
	case Open:
		return t.State != None
	case StepSucceeded:
		return t.State == Succeeded && s.Result == t.end()
	case StepFailed:
		return (t.State == Failed || t.State == Cancelled) && s.Result == t.end()
	}
	return true
}

// explains reports whether a step that was not released in this generation has no task, or one of an earlier one.
//
//go:norace
func (s *StepRun) explains(task TaskState) bool {
	switch {
	case s.State != Blocked && s.State != Unreleased:
		return true
	case s.Generation == 0:
		return task == None
	}
	return task.Final()
}

// brokenByAdvance returns the promises about what was asked of a run, and the tasks that it has released.
//
//go:norace
func (m *Model) brokenByAdvance(before, after *State) noted {
	var broken noted
	broken.note(Kept, m.unheeded(before, after))
	for i := range m.Steps {
		step := &after.Redis.Flow.Steps[i]
		was, is := before.Redis.Tasks[i], after.Redis.Tasks[i]
		broken.note(ReleasedOnce, was.releasedAs(&is) && before.Seen.Released[i] >= step.Generation)
		was.Follow = is.Follow
		stopped := step.Stopping && !was.State.Final()
		broken.note(OneTask, was.State != None && was != is && !was.releasedAs(&is) && !stopped)
	}
	return broken
}

// unheeded reports whether a run was claimed, or cancelled, and that has left Redis without effect.
//
//go:norace
func (m *Model) unheeded(before, after *State) bool {
	was, is, f := m.ownTask(before), m.ownTask(after), &after.Redis.Flow
	begin := was.State == Queued && is.State != Queued && f.Attempt != was.Attempt
	cancel := was.State == Running && was.Cancel && before.Redis.Told && !after.Redis.Told && !f.Cancelled
	return begin || cancel
}

// releasedAs reports whether a task was made, or was run again.
func (t *Task) releasedAs(is *Task) bool {
	return is.State == Scheduled && (t.State == None || t.State.Final() && t.Attempt == is.Attempt)
}
