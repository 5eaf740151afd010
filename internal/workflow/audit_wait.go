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
	var came, refused bool // what it waited for
	switch {
	case w.Signal != "":
		came = slices.ContainsFunc(a.r.Signals, func(g Signal) bool { return g.Name == w.Signal && !g.At.After(s.At) })
	case w.Approval != nil:
		answer := s.Answer()
		came, refused = answer != nil && answer.Approved, answer != nil && !answer.Approved
	default:
		isLong := w.For == 0 || !s.Until.Before(s.Since.Add(w.For))
		return s.State == State(Succeeded) && isOver && isLong
	}
	switch s.State {
	case State(Succeeded):
		return came || isOver && w.Effective() == TimeoutContinue
	case State(Failed):
		return refused || isOver && !came && w.Effective() == TimeoutFail
	}
	return isOver && !came && w.Effective() == TimeoutSkip
}
