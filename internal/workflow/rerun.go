package workflow

import "slices"

// reset prepares a run that has ended for its next attempt. The steps that run again are blocked, and the verdicts of
// the others stay.
func (p *planner) reset() {
	for i, again := range p.again() {
		if again {
			p.run.Steps[i] = StepRun{State: Blocked, Generation: p.run.Steps[i].Generation}
		}
	}
	*p.run = Run{Plans: p.run.Plans, Attempt: p.run.Attempt, Signals: p.run.Signals, Steps: p.run.Steps}
}

// again says of each step whether it runs again. These steps do:
//   - those that somebody has named or, if nobody has named any, those that failed;
//   - those that were cancelled, as a failure elsewhere may have cancelled them;
//   - those behind one of these;
//   - those of OnFailure and Finally.
//
// If nothing failed, was cancelled or was named, all run again.
func (p *planner) again() []bool {
	from := p.rerunFrom()
	again := make([]bool, len(p.f.nodes))
	for i, s := range p.run.Steps {
		switch s.verdict() {
		case Cancelled:
			again[i] = true
		case Failed, UpstreamFailed:
			again[i] = len(from) == 0
		}
	}
	for _, i := range from {
		again[i] = true
	}
	all := !slices.Contains(again, true)
	for _, i := range p.f.order {
		n := &p.f.nodes[i]
		behind := slices.ContainsFunc(n.needs, func(e edge) bool { return again[e.from] })
		again[i] = again[i] || all || behind || n.in != main
	}
	return again
}

// rerunFrom returns the steps from which on somebody wants the run again.
func (p *planner) rerunFrom() (steps []int) {
	for _, a := range p.in.Asks {
		if a.Do == DoRerun {
			steps = append(steps, a.Steps...)
		}
	}
	return steps
}
