package workflow

import (
	"fmt"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// fate is what becomes of a step by its rule.
type fate string

const (
	released   fate = "released"
	skipped    fate = "skipped"
	failsAbove fate = "upstream_failed"
)

// fates says what each rule makes of final verdicts: s steps succeeded, f failed and k were skipped. It is written
// apart from what plans runs, which is held against it.
var fates = map[Rule]func(s, f, k int) fate{
	RuleSuccess:        successFate,
	RuleMinOneSuccess:  successFate,
	RuleAllSuccess:     func(_, f, k int) fate { return pick(f > 0, failsAbove, pick(k > 0, skipped, released)) },
	RuleAllFailed:      func(s, _, k int) fate { return pick(s+k > 0, skipped, released) },
	RuleAllDone:        func(_, _, _ int) fate { return released },
	RuleAlways:         func(_, _, _ int) fate { return released },
	RuleAllDoneSuccess: func(s, _, k int) fate { return pick(k > 0, skipped, pick(s > 0, released, failsAbove)) },
	RuleAllSkipped:     func(s, f, _ int) fate { return pick(s+f > 0, skipped, released) },
	RuleOneSuccess:     func(s, f, _ int) fate { return pick(s > 0, released, pick(f > 0, failsAbove, skipped)) },
	RuleOneFailed:      func(_, f, _ int) fate { return pick(f > 0, released, skipped) },
	RuleFailure:        func(_, f, _ int) fate { return pick(f > 0, released, skipped) },
	RuleOneDone:        func(s, f, _ int) fate { return pick(s+f > 0, released, skipped) },
	RuleNoneFailed:     func(_, f, _ int) fate { return pick(f > 0, failsAbove, released) },
	RuleNoneSkipped:    func(_, _, k int) fate { return pick(k > 0, skipped, released) },
}

func successFate(s, f, _ int) fate {
	return pick(f > 0, failsAbove, pick(s > 0, released, skipped))
}

func pick(holds bool, a, b fate) fate {
	if holds {
		return a
	}
	return b
}

// fateOf returns what becomes of a step whatever the verdicts will be that are not there yet; "" if that depends on
// them.
func fateOf(r Rule, s, f, k, undecided int) fate {
	var only fate
	for more := range undecided + 1 {
		for failed := range undecided - more + 1 {
			got := fates[r](s+more, f+failed, k+undecided-more-failed)
			if only != "" && got != only {
				return ""
			}
			only = got
		}
	}
	return only
}

// Audit checks a run against its definition, and returns what does not fit, as sentences. tasks are those of its steps
// that are there; state is that of its own task. It has rules of its own for what becomes of a step, and reads from the
// definition who needs whom and which branch names whom. From Compile it takes the order of steps and what expressions
// read. It does not compute values of expressions again: which branch held, and what a task got, is not checked.
func Audit(f *Flow, r Run, state task.State, tasks []Task) (findings []string) {
	a := &auditor{f: f, r: r, tasks: map[int]Task{}}
	if len(r.Steps) != len(f.nodes) {
		return []string{fmt.Sprintf("the run has %d steps, the workflow %d", len(r.Steps), len(f.nodes))}
	}
	for _, t := range tasks {
		if t.State != task.None {
			a.tasks[t.Step] = t
		}
	}
	for i := range f.nodes {
		a.checkFate(i)
		if a.f.nodes[i].Wait != nil {
			a.checkWait(i)
		} else {
			a.checkTask(i)
		}
		a.checkForm(i)
	}
	a.checkMarks()
	a.checkEnd(state)
	return a.findings
}

// RanAgain is part of what Audit says of a step that ran again without another release. A Redis that has lost writes
// may be the reason, or doctor, if it had a run whose text was damaged release its steps again.
const RanAgain = "ran again after it had succeeded"

type auditor struct {
	f        *Flow
	r        Run
	tasks    map[int]Task
	findings []string
}

func (a *auditor) say(i int, format string, args ...any) {
	a.findings = append(a.findings, "step "+a.f.nodes[i].ID+" "+fmt.Sprintf(format, args...))
}

// checkFate checks that a step is what its rule makes of what it needs.
func (a *auditor) checkFate(i int) {
	n, s := a.f.nodes[i], a.r.Steps[i]
	failing := a.r.Late || a.failed(main)
	switch {
	case s.State == Blocked:
		if a.r.Phase == PhaseEnded {
			a.say(i, "is blocked, and the run has ended")
		}
	case s.State == State(Cancelled) && s.Released == 0:
		a.checkCancelled(i)
	case n.in == onFailure && s.State == State(Skipped) && s.Reason == "" && (a.r.Cancelled || !failing):
	case n.in == onFailure && !failing:
		a.say(i, "is %s, and nothing has failed", s.State)
	default:
		a.checkRule(i)
		a.checkSections(i)
	}
}

// checkCancelled checks that something had a step cancelled before its release.
func (a *auditor) checkCancelled(i int) {
	n, s := a.f.nodes[i], a.r.Steps[i]
	closed := s.Reason != ""
	switch {
	case n.in == main:
		if !a.r.Cancelled && !a.r.Late && !a.stopped(s.Decided) {
			a.say(i, "was cancelled before its release, and nobody has cancelled the run")
		}
	case n.in == onFailure && a.r.Cancelled:
	case !closed:
		a.say(i, "was cancelled before its release, and nothing says why")
	case s.At.Before(a.ended(n.in).Add(a.f.EffectiveClosing())):
		a.say(i, "was cancelled before its release, and the time for closing was not over")
	}
}

// ended returns when the sections before a section had ended.
func (a *auditor) ended(in section) time.Time {
	at := a.r.Begun
	lo, _ := a.f.of(in)
	for _, s := range a.r.Steps[:lo] {
		if s.At.After(at) {
			at = s.At
		}
	}
	return at
}

// stopped reports whether a failure has stopped the run by that plan.
func (a *auditor) stopped(plan int) bool {
	for i, s := range a.r.Steps {
		isAlone := s.State == State(Cancelled) && s.Released > 0 && a.f.nodes[i].Task != nil
		own := s.State == State(Failed) && !a.f.nodes[i].AllowFailure || isAlone
		if own && a.f.nodes[i].in == main && s.Decided <= plan {
			return a.r.Stopped && a.f.Failure == FailureStop
		}
	}
	return false
}

// checkSections checks that the sections before that of a step had ended when the step was decided.
func (a *auditor) checkSections(i int) {
	by := a.r.Steps[i].planned()
	for j, s := range a.r.Steps {
		if a.f.nodes[j].in < a.f.nodes[i].in && (!s.State.Final() || s.Decided > by) {
			a.say(i, "is %s, and step %s, which comes before, had not ended", a.r.Steps[i].State, a.f.nodes[j].ID)
			return
		}
	}
}

// planned returns the plan that released a step, or gave it its verdict without that.
func (s StepRun) planned() int {
	if s.Released > 0 {
		return s.Released
	}
	return s.Decided
}

// checkForm checks that what is known of a step can be.
func (a *auditor) checkForm(i int) {
	n, s := a.f.nodes[i], a.r.Steps[i]
	switch newest := max(s.Released, s.Decided); {
	case newest > a.r.Plans, s.State.Final() && s.Decided < max(s.Released, 1):
		a.say(i, "was released in plan %d and decided in plan %d, and there were %d", s.Released, s.Decided, a.r.Plans)
	case s.Choice > 0 && s.Choice >= len(n.Decide):
		a.say(i, "took branch %d, and has %d", s.Choice+1, len(n.Decide))
	case s.Released > 0:
		a.checkReleased(i)
	case s.State == Active || s.State == State(Succeeded) && n.Decide == nil:
		a.say(i, "is %s, and was not released", s.State)
	case s.State == State(Failed) && s.Reason == "":
		a.say(i, "is failed, and nothing says why")
	case s.State == State(Skipped) && s.Reason != "" && n.When == "":
		a.say(i, "is skipped, as %s, and has no condition", s.Reason)
	}
}

// checkReleased checks that a step can have been released.
func (a *auditor) checkReleased(i int) {
	n, s := a.f.nodes[i], a.r.Steps[i]
	switch {
	case s.State == Active && a.r.Phase == PhaseEnded:
		a.say(i, "is active, and the run has ended")
	case s.Generation == 0:
		a.say(i, "was released, and is of no generation")
	case n.Decide != nil || s.State == State(Skipped) && n.Wait == nil || s.State == State(UpstreamFailed):
		a.say(i, "is %s, and was released", s.State)
	}
}

// checkMarks checks that something had the run stopped, and late.
func (a *auditor) checkMarks() {
	if a.r.Stopped && !a.r.Cancelled && !a.r.Late && !a.stopped(a.r.Plans) { // these two cancel its steps as well
		a.findings = append(a.findings, "the run was stopped, and no failure stops it")
	}
	deadline := a.r.Begun.Add(a.f.EffectiveDeadline())
	waited := func(s StepRun) bool { return !s.State.Final() || !s.At.Before(deadline) }
	if lo, hi := a.f.of(main); a.r.Late && !slices.ContainsFunc(a.r.Steps[lo:hi], waited) {
		a.findings = append(a.findings, "the run is late, and its steps had ended before the deadline")
	}
}

// checkRule checks what was decided of a step against the verdicts that were there by then.
func (a *auditor) checkRule(i int) {
	n, s := a.f.nodes[i], a.r.Steps[i]
	var is fate
	by := s.planned()
	switch {
	case s.State == State(UpstreamFailed):
		is = failsAbove
	case s.State == State(Skipped) && s.Reason == "":
		is = skipped
	default: // released, decided, or not released for its expressions
		is = released
	}
	for _, j := range n.reads {
		if read := a.r.Steps[j]; is == released && (!read.State.Final() || read.Decided > by) {
			a.say(i, "is %s, and step %s, which it reads, had not ended", s.State, a.f.nodes[j].ID)
		}
	}
	if len(n.Needs) == 0 {
		if is != released {
			a.say(i, "is %s, and needs nothing", s.State)
		}
		return
	}
	succeeded, failed, skips, open := a.count(i, by)
	if want := fateOf(n.EffectiveRule(), succeeded, failed, skips, open); want != is {
		a.say(i, "is %s, its rule %s said %q: of what it needs, %d succeeded, %d failed, %d were skipped, %d had not ended",
			s.State, n.EffectiveRule(), want, succeeded, failed, skips, open)
	}
}

// count counts what a step needs as it was after a plan.
func (a *auditor) count(i, plan int) (succeeded, failed, skips, open int) {
	for _, id := range a.f.nodes[i].Needs {
		at := a.f.byID[id]
		from, n := a.r.Steps[at], a.f.nodes[at]
		leftOut := from.State == State(Succeeded) && leavesOut(n.Decide, from.Choice, a.f.nodes[i].ID)
		switch {
		case !from.State.Final() || from.Decided > plan:
			open++
		case from.State == State(Skipped), leftOut:
			skips++
		case from.State == State(Succeeded), from.State == State(Failed) && n.AllowFailure:
			succeeded++
		default:
			failed++
		}
	}
	return succeeded, failed, skips, open
}

// leavesOut reports whether a step is named by other branches than the one that was taken only.
func leavesOut(branches []Choice, taken int, id string) bool {
	named := func(c Choice) bool { return slices.Contains(c.Then, id) }
	return slices.ContainsFunc(branches, named) && (taken >= len(branches) || !named(branches[taken]))
}

// checkTask checks that a step has a task if it was released, and only then, and that both ended alike.
func (a *auditor) checkTask(i int) {
	s := a.r.Steps[i]
	t, has := a.tasks[i]
	switch {
	case s.Released == 0 && has && s.Generation == 0:
		a.say(i, "has a task, and was never released")
	case has && t.Successes >= s.Generation && t.Successes > 0:
		a.say(i, "%s: its task had succeeded %d times before the newest attempt, and it was released %d times",
			RanAgain, t.Successes, s.Generation)
	case s.Released == 0:
	case !has:
		if s.State != State(Failed) || s.Reason == "" { // a run says of a task that is gone that the step failed
			a.say(i, "was released, and has no task")
		}
	case s.State.Final() && State(t.State) != s.State:
		a.say(i, "is %s, its task is %s", s.State, t.State)
	case s.State == State(Succeeded) && t.Attempt < 1:
		a.say(i, "is succeeded, and its task has made no attempt")
	}
}

// checkEnd checks how the run ended.
func (a *auditor) checkEnd(state task.State) {
	ended := a.r.Phase == PhaseEnded
	switch want := a.end(state); {
	case state == task.Cancelled && !a.r.Cancelled && (ended || a.r.Phase == ""):
		// It waited to begin, or to begin again: its steps do not say that it was cancelled.
	case ended != state.Final():
		a.findings = append(a.findings, fmt.Sprintf("the run is %s, its steps are in phase %s", state, a.r.Phase))
	case ended && state != want:
		a.findings = append(a.findings, fmt.Sprintf("the run %s, its steps say it %s", state, want))
	}
}

// end returns the state in which a run ends by what its steps say. Its output, an expression, may fail as well.
func (a *auditor) end(state task.State) task.State {
	switch {
	case a.r.Cancelled:
		return task.Cancelled
	case a.r.Late, a.failed(main), a.failed(onFailure), a.failed(finally):
		return task.Failed
	case a.f.Output != nil && state == task.Failed:
		return task.Failed
	}
	return task.Succeeded
}

// failed reports whether the run fails because of a step of a section.
func (a *auditor) failed(in section) bool {
	for i, s := range a.r.Steps {
		fails := s.State == State(Failed) && !a.f.nodes[i].AllowFailure || s.State == State(Cancelled)
		if fails && a.f.nodes[i].in == in {
			return true
		}
	}
	return false
}
