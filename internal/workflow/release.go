package workflow

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/workflow/expr"
)

// consider releases a blocked step, or gives it a verdict, if what it needs allows for that.
func (p *planner) consider(i int) {
	n := &p.f.nodes[i]
	if len(n.needs) > 0 {
		switch d := n.EffectiveRule().Decide(p.f.needsOf(i, p.run.Steps)); {
		case d.Verdict != "":
			p.decide(i, d.Verdict, "")
			return
		case !d.Release:
			return
		}
	}
	switch {
	case p.run.Paused && n.in == main:
	case n.Task != nil && p.f.AtOnce > 0 && p.active >= p.f.AtOnce:
	case !p.areFinal(n.reads):
	case p.plan.Room <= 0:
		p.plan.More = true
	default:
		p.plan.Room--
		if values, known := p.know(n.reads); known {
			p.evaluate(i, values)
		}
	}
}

// areFinal reports whether steps have verdicts: some rules release a step before all that its expressions read has
// ended.
func (p *planner) areFinal(steps []int) bool {
	return !slices.ContainsFunc(steps, func(i int) bool { return !p.run.Steps[i].State.Final() })
}

// know returns what expressions may read of steps that have verdicts. known is false if the task of one is wanted
// first.
func (p *planner) know(steps []int) (v expr.Values, known bool) {
	v = expr.Values{
		Params: p.in.About.Params, Run: p.about(), Steps: make(map[string]expr.Step, len(steps)), Work: &expr.Work{},
	}
	known = true
	for _, i := range steps {
		s := p.run.Steps[i]
		step := expr.Step{State: string(s.State), Error: s.Reason}
		if n := &p.f.nodes[i]; n.Wait != nil {
			step.Output = p.run.outputOf(n, s)
		} else if s.Released > 0 {
			t, has := p.task(i)
			known = known && has
			step.Task, step.Attempt, step.Output = p.refOf(i).ID, t.Attempt, t.Result
			if step.Error == "" {
				step.Error = t.Error
			}
		}
		v.Steps[p.f.nodes[i].ID] = step
	}
	return v, known
}

// task returns the task of a step that has ended. If that is not known, it is wanted.
func (p *planner) task(i int) (t Task, known bool) {
	t, known = p.tasks[i]
	if at, wanted := slices.BinarySearch(p.plan.Wants, i); !known && !wanted {
		p.plan.Wants = slices.Insert(p.plan.Wants, at, i)
	}
	return t, known
}

// about returns what expressions may read of the run.
func (p *planner) about() expr.Run {
	a := p.in.About
	return expr.Run{
		ID: a.ID, Workflow: p.f.ID, Revision: a.Revision, Created: a.Created, Started: p.run.Begun,
		Attempt: p.run.Attempt, Tick: a.Tick,
	}
}

// refOf returns the name of the task of a step.
func (p *planner) refOf(i int) task.Ref { return p.in.About.Step(p.f.nodes[i].ID) }

// outcome is what the expressions of a step say.
type outcome struct {
	err     error // one cannot be evaluated, which is the failure of the step
	skips   bool  // its condition is false
	choice  int   // of one that decides
	until   time.Time
	payload []byte
	bytes   int // of what they read, and of the payload
	work    int // in units of expr.CostLimit
}

// evaluate releases a step, or gives it a verdict, as its expressions say.
func (p *planner) evaluate(i int, v expr.Values) {
	is, known := p.memo.outcomes[i]
	if !known {
		is = p.outcomeOf(i, v)
		is.work = v.Work.Units()
		p.memo.outcomes[i] = is
	}
	p.plan.Room -= is.bytes/RoomBytes + is.work/RoomWork
	switch {
	case is.err != nil:
		p.decide(i, Failed, is.err.Error())
	case is.skips:
		p.decide(i, Skipped, "its condition is false")
	case p.f.nodes[i].Wait != nil:
		p.wait(i, is.until)
	case p.f.nodes[i].Task == nil:
		p.decide(i, Succeeded, "")
		p.run.Steps[i].Choice = is.choice
	default:
		p.release(i, is.payload)
	}
}

// outcomeOf evaluates the expressions of a step.
func (p *planner) outcomeOf(i int, v expr.Values) (is outcome) {
	n := &p.f.nodes[i]
	for _, step := range v.Steps {
		is.bytes += len(step.Output)
	}
	if is.err = p.checkOutputs(n.reads); is.err != nil {
		return is
	}
	if n.when != nil {
		holds, err := n.when.Holds(v)
		if is.skips, is.err = !holds, err; err != nil || !holds {
			return is
		}
	}
	switch {
	case n.until != nil:
		is.until, is.err = n.evalUntil(v)
		return is
	case n.Wait != nil:
		return is
	case n.Task == nil:
		is.choice, is.err = n.choose(v)
		return is
	}
	if is.payload, is.err = n.payload.Eval(v, expr.ValueLimit); is.err == nil {
		is.err = task.ValidatePayload(is.payload)
	}
	is.bytes += len(is.payload)
	return is
}

// checkOutputs checks that the outputs of steps that succeeded are there. Without that, an expression would read null.
func (p *planner) checkOutputs(steps []int) error {
	for _, i := range steps {
		s := p.run.Steps[i]
		if s.State == State(Succeeded) && p.f.nodes[i].Task != nil && p.tasks[i].State != task.Succeeded {
			const text = "the task of step %[1]s, which succeeded, is gone with its output: " +
				"dtsctl flow rerun %[2]s --from %[1]s runs it again"
			return fmt.Errorf(text, p.f.nodes[i].ID, p.in.About.ID)
		}
	}
	return nil
}

// evalUntil returns the moment until which a step waits.
func (n *node) evalUntil(v expr.Values) (until time.Time, _ error) {
	raw, err := n.until.Eval(v, UntilLimit)
	if err != nil {
		return until, err
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return until, fmt.Errorf("wait.until: %w", err)
	}
	return untilOf(text)
}

// choose returns the number of the branch that a step chooses; that of its branches if it chooses none.
func (n *node) choose(v expr.Values) (choice int, _ error) {
	for i, when := range n.choices {
		if holds, err := when.Holds(v); err != nil || holds {
			return i, err
		}
	}
	return len(n.choices), nil
}

// release releases a step with a task.
func (p *planner) release(i int, payload []byte) {
	n, s := &p.f.nodes[i], &p.run.Steps[i]
	d := *n.Task
	d.Ref, d.Payload = p.refOf(i), payload
	if d.Owner == "" {
		d.Owner = p.f.Owner
	}
	if d.Labels == nil {
		d.Labels = p.f.Labels
	}
	s.State, s.Released, s.At = Active, p.run.Plans, p.in.Now
	s.Generation++
	p.active++
	p.plan.Release = append(p.plan.Release, Release{Step: i, Task: d.Normalize(), Again: s.Generation > 1})
}

// takeBack takes back the release of a step in this plan.
func (p *planner) takeBack(i int) {
	s := &p.run.Steps[i]
	s.State, s.Released = Blocked, 0
	s.Generation--
	p.active--
	p.plan.Release = slices.DeleteFunc(p.plan.Release, func(r Release) bool { return r.Step == i })
}
