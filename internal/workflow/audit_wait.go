package workflow

import "slices"

// checkWait checks that a step waits, or has its verdict, for one of the reasons that its Wait has.
func (a *auditor) checkWait(i int) {
	s := a.r.Steps[i]
	_, hasTask := a.tasks[i]
	switch {
	case hasTask:
		a.say(i, "has a task, and waits for something else")
	case s.State == Active:
		a.say(i, "is active, and has no task to wait for")
	case s.State == Waiting && a.r.Phase == PhaseEnded:
		a.say(i, "waits, and the run has ended")
	case s.Released == 0 || !s.State.Final() || s.State == State(Cancelled):
	case !a.hasGoneOn(i):
		a.say(i, "is %s, and what it waited for does not say so", s.State)
	}
}

// hasGoneOn reports whether a step that waited has the verdict that what it waited for gives.
func (a *auditor) hasGoneOn(i int) bool {
	w, s := a.f.nodes[i].Wait, a.r.Steps[i]
	isOver := !s.Until.IsZero() && !s.At.Before(s.Until)
	if w.waitsForTime() {
		isLong := w.For == 0 || !s.Until.Before(s.Since.Add(w.For))
		return s.State == State(Succeeded) && isOver && isLong
	}
	came, refused := a.came(w, s)
	if came {
		return s.State == State(Succeeded)
	}
	if refused {
		return s.State == State(Failed)
	}
	then := map[OnTimeout]Verdict{TimeoutContinue: Succeeded, TimeoutFail: Failed, TimeoutSkip: Skipped}
	return isOver && s.State == State(then[w.Effective()])
}

// came reports whether what a step waited for had come by its verdict, and whether it was refused.
func (a *auditor) came(w *Wait, s StepRun) (came, refused bool) {
	if answer := s.Answer(); w.Approval != nil && answer != nil {
		return answer.Approved, !answer.Approved
	}
	isIt := func(g Signal) bool { return g.Name == w.Signal && !g.At.After(s.At) }
	return w.Signal != "" && slices.ContainsFunc(a.r.Signals, isIt), false
}
