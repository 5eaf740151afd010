package workflow

import (
	"fmt"

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
// that are there; state is that of its own task. Values of expressions are not computed again.
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
		a.checkTask(i)
	}
	a.checkEnd(state)
	return a.findings
}

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
	ended := a.r.Phase == PhaseEnded
	switch wasStopped := s.State == State(Cancelled) && s.Released == 0; {
	case s.State == Blocked:
		if ended {
			a.say(i, "is blocked, and the run has ended")
		}
	case wasStopped:
		if !a.r.Cancelled && !a.r.Late && !a.r.Stopped && n.in == main {
			a.say(i, "was cancelled before its release, and nobody has cancelled the run")
		}
	case n.in == onFailure && s.State == State(Skipped) && (a.r.Cancelled || !a.r.Late && !a.failed(main)):
	default:
		a.checkRule(i)
	}
}

// checkRule checks what was decided of a step against the verdicts that were there by then.
func (a *auditor) checkRule(i int) {
	n, s := a.f.nodes[i], a.r.Steps[i]
	var is fate
	by := s.Decided
	switch {
	case s.State == State(UpstreamFailed):
		is = failsAbove
	case s.State == State(Skipped) && s.Reason == "":
		is = skipped
	default: // released, decided, or not released for its expressions
		is = released
		if s.Released > 0 {
			by = s.Released
		}
	}
	if len(n.needs) == 0 {
		if is != released && n.in != onFailure {
			a.say(i, "is %s, and needs nothing", s.State)
		}
		return
	}
	succeeded, failed, skips, open := a.count(n.needs, by)
	if want := fateOf(n.EffectiveRule(), succeeded, failed, skips, open); want != is {
		a.say(i, "is %s, its rule %s said %q: of what it needs, %d succeeded, %d failed, %d were skipped, %d had not ended",
			s.State, n.EffectiveRule(), want, succeeded, failed, skips, open)
	}
}

// count counts what a step needs as it was after a plan.
func (a *auditor) count(needs []edge, plan int) (succeeded, failed, skips, open int) {
	for _, e := range needs {
		from := a.r.Steps[e.from]
		switch {
		case !from.State.Final() || from.Decided > plan:
			open++
		case from.State == State(Skipped), from.State == State(Succeeded) && !e.follows(from.Choice):
			skips++
		case from.State == State(Succeeded), from.State == State(Failed) && a.f.nodes[e.from].AllowFailure:
			succeeded++
		default:
			failed++
		}
	}
	return succeeded, failed, skips, open
}

// checkTask checks that a step has a task if it was released, and only then, and that both ended alike.
func (a *auditor) checkTask(i int) {
	s := a.r.Steps[i]
	t, has := a.tasks[i]
	switch {
	case s.Released == 0 && has && s.Generation == 0:
		a.say(i, "has a task, and was never released")
	case s.Released == 0:
	case !has:
		if s.Reason == "" {
			a.say(i, "was released, and has no task")
		}
	case s.State.Final() && State(t.State) != s.State:
		a.say(i, "is %s, its task is %s", s.State, t.State)
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

// failed reports whether a step of a section has the run fail.
func (a *auditor) failed(in section) bool {
	for i, s := range a.r.Steps {
		fails := s.State == State(Failed) && !a.f.nodes[i].AllowFailure || s.State == State(Cancelled)
		if fails && a.f.nodes[i].in == in {
			return true
		}
	}
	return false
}
