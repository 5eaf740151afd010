package workflow

import (
	"fmt"

	"github.com/dts-sched/dts/internal/task"
)

// enter begins the phase of a section, or ends the run. It reports whether there is more to decide.
func (p *planner) enter(next section) bool {
	p.run.Closing = p.in.Now
	switch {
	case next == onFailure && (p.run.Cancelled || !p.isFailing()):
		lo, hi := p.f.of(onFailure)
		for i := lo; i < hi; i++ {
			p.decide(i, Skipped, "")
		}
		p.run.Phase = PhaseFinally
	case next == onFailure:
		p.run.Phase = PhaseOnFailure
	case next == finally:
		p.run.Phase = PhaseFinally
	default:
		p.finish()
		return false
	}
	return true
}

// isFailing reports whether the run is going to fail.
func (p *planner) isFailing() bool { return p.run.Late || p.firstFailure() >= 0 }

// firstFailure returns the step that failed first; -1 if none did. One that failed goes before those that were
// cancelled for it.
func (p *planner) firstFailure() int {
	first := -1
	for i, s := range p.run.Steps {
		if p.fails(i) && (first < 0 || s.failedBefore(p.run.Steps[first])) {
			first = i
		}
	}
	return first
}

// finish ends the run, unless a task is wanted first.
func (p *planner) finish() {
	end := &RunEnd{State: task.Succeeded}
	switch first := p.firstFailure(); {
	case p.run.Cancelled:
		end.State = task.Cancelled
	case p.run.Late:
		end.State, end.Error = task.Failed, fmt.Sprintf("had not ended after %s, its deadline", p.f.EffectiveDeadline())
	case first >= 0:
		end.State, end.Error = task.Failed, p.failure(first)
	case p.f.output != nil:
		result, err := p.output()
		if err != nil {
			end.State, end.Error = task.Failed, "output: "+err.Error()
		}
		end.Result = string(result)
	}
	if len(p.plan.Wants) > 0 {
		return
	}
	end.Error = task.CutError(end.Error, task.ErrorLimit)
	p.run.Phase = PhaseEnded
	p.plan.End = end
}

// failure says why the run failed: for a step. If the error of its task is not known, that is wanted.
func (p *planner) failure(i int) string {
	s := p.run.Steps[i]
	why := fmt.Sprintf("step %s %s", p.f.nodes[i].ID, s.State)
	if s.Reason != "" {
		return why + ": " + s.Reason
	}
	if s.Released == 0 || p.f.nodes[i].Task == nil {
		return why
	}
	if t, _ := p.task(i); t.Error != "" {
		why += ": " + t.Error
	}
	return why
}

// output returns the result of the run. What it reads and is not known is wanted.
func (p *planner) output() ([]byte, error) {
	reads := p.f.indices(p.f.output.Steps())
	values, known := p.know(reads)
	if !known {
		return nil, nil
	}
	if err := p.checkOutputs(reads); err != nil {
		return nil, err
	}
	return p.f.output.Eval(values, task.ResultLimit)
}
