package workflow

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// Why says why a step of a run is where it is, as a sentence; "" for one that waits for nothing: it runs, or its task
// says how it ended. isFull: Redis is almost full, so that leaders release no steps.
func (f *Flow) Why(r Run, i int, isFull bool) string {
	n, s := &f.nodes[i], r.Steps[i]
	switch {
	case s.State == Blocked:
		return f.whyBlocked(r, i, isFull)
	case s.State == State(UpstreamFailed):
		return fmt.Sprintf("never runs: %s (rule %s)", f.namesOf(r, n, isFailed), n.EffectiveRule())
	case s.State == State(Skipped):
		return f.whySkipped(r, n, s)
	case s.State == State(Cancelled) && s.Released == 0:
		return "was not released: " + cmp.Or(s.Reason, f.whyStops(r, n.in, s.At))
	case s.State == Waiting:
		return n.Wait.whyWaits(s)
	case s.State == State(Succeeded) && s.Output != "":
		return s.Answer().String()
	case s.State == Active && s.Stopping:
		return "was told to stop: " + s.Reason
	case s.State == State(Succeeded) && n.Decide != nil:
		return chosen(n.Decide[s.Choice].Then)
	}
	return s.Reason
}

func chosen(then []string) string {
	if len(then) == 0 {
		return "decided that none of the steps behind it goes on"
	}
	return "decided that " + listed(then) + " " + plural(then, "goes", "go") + " on"
}

// whyStops says why the run cancelled the steps of a section at that time.
func (f *Flow) whyStops(r Run, in section, at time.Time) string {
	deadline := r.Begun.Add(f.EffectiveDeadline())
	switch isLate := in == main && r.Late; {
	case r.Cancelled && in != finally && (!isLate || at.Before(deadline)):
		return "the run was cancelled"
	case in != main:
		return f.tookTooLong(in)
	case isLate:
		const text = "the deadline of the run, %s, was over at %s"
		return fmt.Sprintf(text, task.FormatDuration(f.EffectiveDeadline()), deadline.UTC().Format(time.RFC3339))
	}
	return "another step failed, and failure is stop"
}

// Overdue says why a run that runs has not ended though its deadline is over, as sentences; "" if it is not over. A
// leader notices within some milliseconds: it has overdueGrace.
func (f *Flow) Overdue(r Run, now time.Time) string {
	deadline := r.Begun.Add(f.EffectiveDeadline())
	text := "Its deadline was over at " + deadline.UTC().Format(time.RFC3339)
	in := r.Phase.section()
	switch {
	case r.Phase == "" || r.Phase == PhaseEnded:
		return ""
	case r.Phase == PhaseMain && !r.Late && now.Before(deadline.Add(overdueGrace)):
		return ""
	case r.Phase == PhaseMain && !r.Late:
		return text + ", and its leader has not cancelled its steps yet (dtsctl status)."
	case !r.Late:
		return ""
	case in == main:
		return text + ". It ends when the tasks have ended that were told to stop."
	}
	until := r.Closing.Add(f.EffectiveClosing()).UTC().Format(time.RFC3339)
	return fmt.Sprintf("%s. Its steps of %s may take until %s.", text, in.name(), until)
}

// overdueGrace is how long after its deadline a run may be that its leader has not noticed.
const overdueGrace = 10 * time.Second

// tookTooLong says that the time for a section is over that follows the others.
func (f *Flow) tookTooLong(in section) string {
	return fmt.Sprintf("%s took more than %s, as closing allows", in.name(), task.FormatDuration(f.EffectiveClosing()))
}

func (f *Flow) whySkipped(r Run, n *node, s StepRun) string {
	switch {
	case s.Reason != "":
		return "was skipped: " + s.Reason
	case n.in == onFailure && len(n.needs) == 0:
		return "was skipped: the run did not fail"
	}
	var decided []string
	for _, e := range n.needs {
		if from := r.Steps[e.from]; from.State == State(Succeeded) && !e.follows(from.Choice) {
			decided = append(decided, f.StepID(e.from))
		}
	}
	if len(decided) > 0 {
		return "was skipped: " + listed(decided) + " chose " + "another branch"
	}
	return fmt.Sprintf("was skipped: %s (rule %s)", f.outcomes(r, n), n.EffectiveRule())
}

// whyBlocked says what a step waits for.
func (f *Flow) whyBlocked(r Run, i int, isFull bool) string {
	n := &f.nodes[i]
	open := f.namesWith(r, n, func(s StepRun) bool { return !s.State.Final() })
	reads := slices.DeleteFunc(slices.Clone(n.reads), func(from int) bool { return r.Steps[from].State.Final() })
	switch {
	case r.Phase == "":
		return "waits for the begin of the run"
	case n.in != r.Phase.section():
		return "waits for the end of " + (n.in - 1).name()
	case len(open) > 0 && !n.EffectiveRule().Decide(f.needsOf(i, r.Steps)).Release:
		return fmt.Sprintf("waits for %s (rule %s)", listed(open), n.EffectiveRule())
	case len(reads) > 0:
		return fmt.Sprintf("waits for %s, which an expression of it reads", f.StepID(reads[0]))
	case r.Paused && n.in == main:
		return "waits for the run to be resumed: it is paused"
	case isFull:
		return "waits for memory: Redis is almost full, so leaders release no steps"
	case f.AtOnce > 0:
		return fmt.Sprintf("waits for the end of another step: at_once is %d", f.AtOnce)
	}
	return "is released next"
}

func isFailed(s StepRun) bool {
	return slices.Contains([]State{State(Failed), State(Cancelled), State(UpstreamFailed)}, s.State)
}

// namesWith returns the ids of what a step needs that is so.
func (f *Flow) namesWith(r Run, n *node, is func(StepRun) bool) (ids []string) {
	for _, e := range n.needs {
		if is(r.Steps[e.from]) {
			ids = append(ids, f.StepID(e.from))
		}
	}
	return ids
}

func (f *Flow) namesOf(r Run, n *node, is func(StepRun) bool) string {
	var parts []string
	for _, e := range n.needs {
		if s := r.Steps[e.from]; is(s) {
			parts = append(parts, f.StepID(e.from)+" is "+string(s.State))
		}
	}
	return strings.Join(parts, ", ")
}

// outcomes says what became of all that a step needs.
func (f *Flow) outcomes(r Run, n *node) string {
	return f.namesOf(r, n, func(StepRun) bool { return true })
}

// listed writes ids as people do: a, b and c; of more than six, the first five.
func listed(ids []string) string {
	const most = 6
	switch n := len(ids); {
	case n == 1:
		return ids[0]
	case n > most:
		return fmt.Sprintf("%s and %d others", strings.Join(ids[:most-1], ", "), n-most+1)
	}
	return strings.Join(ids[:len(ids)-1], ", ") + " and " + ids[len(ids)-1]
}

func plural[T any](of []T, one, many string) string {
	if len(of) == 1 {
		return one
	}
	return many
}
