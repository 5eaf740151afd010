package workflow

import (
	"slices"
	"time"
)

// Phase says which steps of a run may be released.
type Phase string

// The phases, in their order.
const (
	PhaseMain      Phase = "main"
	PhaseOnFailure Phase = "on_failure"
	PhaseFinally   Phase = "finally"
	PhaseEnded     Phase = "ended"
)

// section returns the section whose steps are decided in a phase of a run that has begun and has not ended.
func (p Phase) section() section {
	switch p {
	case PhaseOnFailure:
		return onFailure
	case PhaseFinally:
		return finally
	}
	return main
}

// State is that of a step: blocked, active, or its verdict.
type State string

// The states of a step that has no verdict.
const (
	Blocked State = "blocked" // not released
	Waiting State = "waiting" // it waits as its Wait says
	Active  State = "active"  // its task is there, and has not ended
)

// Final reports whether a step has a verdict.
func (s State) Final() bool { return s != Blocked && s != Waiting && s != Active }

// Run is what is known of an execution of a workflow. Times are in whole ms.
type Run struct {
	Plans     int       // how often it was planned
	Attempt   int       // of the run's own task
	Phase     Phase     // "": it has not begun
	Begun     time.Time // when this attempt began
	Closing   time.Time // when the phase before this one was over; zero in the phase main
	Cancelled bool      // somebody has cancelled it
	Late      bool      // its deadline is over
	Stopped   bool      // a failure has stopped it
	Paused    bool      // no step of the phase main is released
	Signals   []Signal  // that it was given, the oldest first
	Steps     []StepRun // in the order of Flow
}

// StepRun is what is known of a step in a run.
type StepRun struct {
	State      State
	Generation int       // how often it was released, or began to wait
	Released   int       // in which plan it was released, or began to wait; 0: in none
	Decided    int       // in which plan it got its verdict; 0: in none
	At         time.Time // of its newest change; zero while it is blocked
	Stopping   bool      // while active: its task was told to stop, and Reason says why
	Choice     int       // of one that decides and succeeded: the number of its branch, from 0
	Since      time.Time // of one that waits or has waited: when it began to
	Until      time.Time // of one that waits or has waited: until when at most; zero: until the run ends
	Reason     string    // why, if what it needs does not say it; at most ReasonLimit bytes
	Output     string    // of an approval that was answered: an Answer as JSON
}

// ReasonLimit is the length, in bytes, of the longest Reason. The error of an expression that is longer is cut.
const ReasonLimit = 300

// verdict returns the verdict, "" if there is none.
func (s StepRun) verdict() Verdict {
	if !s.State.Final() {
		return ""
	}
	return Verdict(s.State)
}

// NewRun returns a run of a flow that has not begun.
func NewRun(f *Flow) Run {
	r := Run{Steps: make([]StepRun, len(f.nodes))}
	for i := range r.Steps {
		r.Steps[i].State = Blocked
	}
	return r
}

// BeginAnew returns a run whose attempt began at that time. Nothing else is known of it any more. The tasks of its
// steps that are there are found when the steps are released.
func BeginAnew(f *Flow, attempt int, at time.Time) Run {
	r := NewRun(f)
	r.Attempt, r.Phase, r.Begun = attempt, PhaseMain, at
	return r
}

// Abandon returns a run that has ended, as nobody can plan it any more. Its steps without a verdict are cancelled.
func (r Run) Abandon(at time.Time) Run {
	r.Plans++
	r.Phase, r.Steps = PhaseEnded, slices.Clone(r.Steps)
	for i, s := range r.Steps {
		if !s.State.Final() {
			s.State, s.Decided, s.At, s.Stopping = State(Cancelled), r.Plans, at, false
			s.Reason = "its run could not go on"
			r.Steps[i] = s
		}
	}
	return r
}

// failedBefore reports whether a step failed before another one. In one plan, one that failed did before one that was
// cancelled.
func (s StepRun) failedBefore(other StepRun) bool {
	if s.Decided != other.Decided {
		return s.Decided < other.Decided
	}
	return s.State == State(Failed) && other.State != State(Failed)
}

// needsOf counts the verdicts of what a step needs.
func (f *Flow) needsOf(i int, steps []StepRun) (n Needs) {
	for _, e := range f.nodes[i].needs {
		from := steps[e.from]
		v := from.verdict()
		if v == Succeeded && !e.follows(from.Choice) {
			v = Skipped
		}
		n.add(v, f.nodes[e.from].AllowFailure)
	}
	return n
}
