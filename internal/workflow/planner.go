package workflow

import (
	"fmt"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/workflow/expr"
)

// Input is what is known beside a run. Its entries may come in any order, and more than once.
type Input struct {
	Now   time.Time
	About About
	Begin int    // the attempt of the run's own task that was claimed; 0: none
	Tasks []Task // of steps that may have ended, and those that a plan wanted
	Asks  []Ask  // what somebody asked of the run
	Room  int    // how many tasks may be released
}

// About is what expressions may know of a run.
type About struct {
	task.Ref
	Revision int
	Created  time.Time
	Tick     time.Time // zero: none
	Params   map[string]any
}

// Task is the task of a step as it is now. It changes only with a release once it has ended, so that an end that is
// told late, or twice, changes nothing.
type Task struct {
	Step    int
	State   task.State // task.None: there is none
	Attempt int
	Result  string
	Error   string
}

// Ask is what somebody asked of a run.
type Ask struct {
	Do    Do
	Steps []int // of DoRerun: from which steps on; none: from all that did not succeed
}

// Do is what can be asked of a run.
type Do string

// What can be asked.
const (
	DoCancel Do = "cancel"
	DoPause  Do = "pause"
	DoResume Do = "resume" // after a pause
	DoRerun  Do = "rerun"  // of a run that has ended: it begins again
)

// Plan is what follows. All of it takes effect at once, or nothing.
type Plan struct {
	Run     Run       // as it is then
	Wants   []int     // steps whose tasks must be known first: if there are any, the rest means nothing
	Release []Release // tasks that are created, or begin again
	Stop    []int     // steps whose tasks are told to stop
	End     *RunEnd   // the run has ended
	More    bool      // there was no room for more tasks: plan again at once
	Look    time.Time // when a bound is over, of a run that has not ended
}

// Release is a step that is released.
type Release struct {
	Step  int
	Task  task.Definition
	Again bool // the task is there, unless Redis lost it: it begins once more
}

// RunEnd is how a run ended.
type RunEnd struct {
	State  task.State
	Error  string
	Result string // JSON, if the workflow has an output
}

// planner plans one run.
type planner struct {
	f      *Flow
	in     Input
	plan   Plan
	run    *Run // plan.Run
	tasks  map[int]Task
	active int // steps
}

// Next returns what follows in a run. It changes nothing of its arguments.
func Next(f *Flow, r Run, in Input) Plan {
	r.Steps = slices.Clone(r.Steps)
	p := &planner{f: f, in: in, plan: Plan{Run: r}, tasks: map[int]Task{}}
	p.run = &p.plan.Run
	p.run.Plans++
	for _, t := range in.Tasks {
		p.tasks[t.Step] = t
	}
	p.begin()
	if p.run.Phase == "" || p.run.Phase == PhaseEnded {
		return p.plan
	}
	for i := range p.run.Steps {
		p.observe(i)
	}
	for _, a := range in.Asks {
		p.ask(a)
	}
	p.checkBounds()
	for p.proceed() {
	}
	p.plan.Look = p.nextBound()
	slices.Sort(p.plan.Wants)
	p.plan.Wants = slices.Compact(p.plan.Wants)
	return p.plan
}

// begin begins an attempt of the run.
func (p *planner) begin() {
	if p.in.Begin <= p.run.Attempt {
		return
	}
	again := p.run.Phase == PhaseEnded
	p.run.Attempt, p.run.Begun, p.run.Phase = p.in.Begin, p.in.Now, PhaseMain
	p.run.Closing, p.run.Cancelled, p.run.Late, p.run.Stopped = time.Time{}, false, false, false
	if again {
		p.reset()
	}
}

// reset blocks the steps that run again, those that were cancelled, and all that depends on either.
func (p *planner) reset() {
	var from []int
	for _, a := range p.in.Asks {
		if a.Do == DoRerun {
			from = append(from, a.Steps...)
		}
	}
	chosen := make([]bool, len(p.f.nodes))
	for _, i := range from {
		chosen[i] = true
	}
	for i, s := range p.run.Steps {
		failed := s.verdict() == Failed || s.verdict() == UpstreamFailed
		chosen[i] = chosen[i] || s.verdict() == Cancelled || failed && len(from) == 0
	}
	all := !slices.Contains(chosen, true)
	for _, i := range p.f.order {
		n := &p.f.nodes[i]
		behind := slices.ContainsFunc(n.needs, func(e edge) bool { return chosen[e.from] })
		chosen[i] = chosen[i] || all || behind || n.in != main
		if chosen[i] {
			p.block(i)
		}
	}
}

// block takes a verdict back.
func (p *planner) block(i int) {
	s := &p.run.Steps[i]
	*s = StepRun{State: Blocked, Generation: s.Generation}
}

// observe gives an active step the verdict of its task, if that has ended.
func (p *planner) observe(i int) {
	s := &p.run.Steps[i]
	if s.State != Active {
		return
	}
	switch t, known := p.tasks[i]; {
	case known && t.State == task.None:
		p.decide(i, Failed, "its task is gone")
	case known && t.State.Final():
		p.decide(i, Verdict(t.State), "")
	default:
		p.active++
	}
}

// decide gives a step its verdict.
func (p *planner) decide(i int, v Verdict, reason string) {
	s := &p.run.Steps[i]
	s.State, s.Decided, s.At, s.Reason, s.Stopping = State(v), p.run.Plans, p.in.Now, reason, false
	if p.f.Failure == FailureStop && p.f.nodes[i].in == main && p.fails(i) {
		p.run.Stopped = true
	}
}

// fails reports whether a step has the run fail.
func (p *planner) fails(i int) bool {
	switch p.run.Steps[i].verdict() {
	case Failed:
		return !p.f.nodes[i].AllowFailure
	case Cancelled:
		return true
	}
	return false
}

// ask does what somebody asked for.
func (p *planner) ask(a Ask) {
	switch a.Do {
	case DoCancel:
		p.run.Cancelled = true
	case DoPause:
		p.run.Paused = true
	case DoResume:
		p.run.Paused = false
	case DoRerun: // reset has done it, if the run had ended
	}
}

// checkBounds notes that the deadline is over, and ends what takes too long at the end.
func (p *planner) checkBounds() {
	if p.run.Phase == PhaseMain && !p.in.Now.Before(p.run.Begun.Add(p.f.EffectiveDeadline())) {
		p.run.Late = true
	}
	if p.isClosing() && !p.in.Now.Before(p.closed()) {
		p.stop(onFailure)
		p.stop(finally)
	}
}

func (p *planner) isClosing() bool {
	return p.run.Phase == PhaseOnFailure || p.run.Phase == PhaseFinally
}

// closed returns when the last steps are cancelled.
func (p *planner) closed() time.Time { return p.run.Closing.Add(p.f.EffectiveClosing()) }

// nextBound returns when a bound is over; zero for a run that has ended.
func (p *planner) nextBound() time.Time {
	switch {
	case p.run.Phase == PhaseEnded:
		return time.Time{}
	case p.isClosing():
		return p.closed()
	}
	return p.run.Begun.Add(p.f.EffectiveDeadline())
}

// stop cancels the steps of a section that have no verdict. The tasks of those that are active are told to stop.
func (p *planner) stop(in section) {
	for i, n := range p.f.nodes {
		s := &p.run.Steps[i]
		switch {
		case n.in != in:
		case s.State == Active && s.Released == p.run.Plans:
			p.plan.Release = slices.DeleteFunc(p.plan.Release, func(r Release) bool { return r.Step == i })
			p.active--
			s.Released = 0
			s.Generation--
			p.decide(i, Cancelled, "")
		case s.State == Blocked:
			p.decide(i, Cancelled, "")
		case s.State == Active && !s.Stopping:
			s.Stopping = true
			p.plan.Stop = append(p.plan.Stop, i)
		}
	}
}

// proceed decides the steps of the phase. It reports whether another phase has begun.
func (p *planner) proceed() bool {
	in := map[Phase]section{PhaseMain: main, PhaseOnFailure: onFailure, PhaseFinally: finally}[p.run.Phase]
	if p.run.Cancelled && in != finally || in == main && (p.run.Late || p.run.Stopped) {
		p.stop(in)
	}
	for _, i := range p.f.order {
		if p.f.nodes[i].in == in && p.run.Steps[i].State == Blocked {
			p.consider(i)
		}
		if in == main && p.run.Stopped { // by an expression that failed
			p.stop(in)
		}
	}
	for i, n := range p.f.nodes {
		if n.in == in && !p.run.Steps[i].State.Final() {
			return false
		}
	}
	return p.enter(in + 1)
}

// enter begins the phase of a section, or ends the run. It reports whether there is more to decide.
func (p *planner) enter(next section) bool {
	if p.run.Closing.IsZero() {
		p.run.Closing = p.in.Now
	}
	switch {
	case next == onFailure && (p.run.Cancelled || !p.isFailing()):
		for i, n := range p.f.nodes {
			if n.in == onFailure {
				p.decide(i, Skipped, "")
			}
		}
		return p.enter(finally)
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

// finish ends the run.
func (p *planner) finish() {
	end := &RunEnd{State: task.Succeeded}
	switch first := p.firstFailure(); {
	case p.run.Cancelled:
		end.State = task.Cancelled
	case p.run.Late:
		end.State, end.Error = task.Failed, fmt.Sprintf("had not ended after %s, its deadline", p.f.EffectiveDeadline())
	case first >= 0:
		why, known := p.failure(first)
		if !known {
			return
		}
		end.State, end.Error = task.Failed, why
	case p.f.output != nil:
		values, known := p.know(p.f.output.Steps())
		if !known {
			return
		}
		result, err := p.f.output.Eval(values, task.ResultLimit)
		if err != nil {
			end.State, end.Error = task.Failed, "output: "+err.Error()
		}
		end.Result = string(result)
	}
	p.run.Phase = PhaseEnded
	p.plan.End = end
}

// failure returns why the run failed, if the error of that step is known.
func (p *planner) failure(i int) (why string, known bool) {
	s := p.run.Steps[i]
	why = fmt.Sprintf("step %s %s", p.f.nodes[i].ID, s.State)
	if s.Reason != "" {
		return why + ": " + s.Reason, true
	}
	if s.Released == 0 {
		return why, true
	}
	t, known := p.task(i)
	if t.Error != "" {
		why += ": " + t.Error
	}
	return why, known
}

// task returns the task of a step that has ended. If that is not known, it is wanted.
func (p *planner) task(i int) (t Task, known bool) {
	if t, known = p.tasks[i]; !known {
		p.plan.Wants = append(p.plan.Wants, i)
	}
	return t, known
}

// know returns what expressions may read of steps, if all of these have verdicts: some rules release a step before all
// that it needs has ended. If the task of one of them is not known, it is wanted.
func (p *planner) know(steps []string) (v expr.Values, known bool) {
	v = expr.Values{Params: p.in.About.Params, Run: p.about(), Steps: map[string]expr.Step{}}
	known = true
	for _, id := range steps {
		i := p.f.byID[id]
		s := p.run.Steps[i]
		step := expr.Step{State: string(s.State), Error: s.Reason}
		switch {
		case !s.State.Final():
			known = false
		case s.Released > 0:
			t, has := p.task(i)
			known = known && has
			step.Task, step.Attempt, step.Output = p.refOf(i).ID, t.Attempt, t.Result
			if step.Error == "" {
				step.Error = t.Error
			}
		}
		v.Steps[id] = step
	}
	return v, known
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
	if p.run.Paused {
		return
	}
	if n.when != nil {
		holds, known, err := p.holds(n.when)
		switch {
		case !known:
			return
		case err != nil:
			p.decide(i, Failed, err.Error())
			return
		case !holds:
			p.decide(i, Skipped, "its condition is false")
			return
		}
	}
	if n.Task == nil {
		p.choose(i)
		return
	}
	p.release(i)
}

// holds evaluates a condition.
func (p *planner) holds(c *expr.Condition) (holds, known bool, _ error) {
	values, known := p.know(c.Steps())
	if !known {
		return false, false, nil
	}
	holds, err := c.Holds(values)
	return holds, true, err
}

// choose has a step decide.
func (p *planner) choose(i int) {
	for choice, when := range p.f.nodes[i].choices {
		switch holds, known, err := p.holds(when); {
		case !known:
			return
		case err != nil:
			p.decide(i, Failed, err.Error())
			return
		case holds:
			p.decide(i, Succeeded, "")
			p.run.Steps[i].Choice = choice
			return
		}
	}
	p.decide(i, Succeeded, "")
	p.run.Steps[i].Choice = len(p.f.nodes[i].choices)
}

// release releases a step with a task, if there is room.
func (p *planner) release(i int) {
	n, s := &p.f.nodes[i], &p.run.Steps[i]
	if p.f.AtOnce > 0 && p.active >= p.f.AtOnce {
		return
	}
	if len(p.plan.Release) >= p.in.Room {
		p.plan.More = true
		return
	}
	values, known := p.know(n.payload.Steps())
	if !known {
		return
	}
	payload, err := n.payload.Eval(values, expr.ValueLimit)
	if err == nil {
		err = task.ValidatePayload(payload)
	}
	if err != nil {
		p.decide(i, Failed, err.Error())
		return
	}
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
