package workflow

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/workflow/expr"
)

// Input is what is known beside a run. Its entries may come in any order, and more than once.
type Input struct {
	Now   time.Time // by the clock of Redis, in whole ms
	About About
	Begin int    // the attempt of the run's own task that was claimed; 0: none
	Tasks []Task // of steps that may have ended, and those that a plan wanted
	Asks  []Ask  // what somebody asked of the run
	// Room is how many steps may be released, or decided by expressions. One counts again for each RoomBytes of outputs
	// that its expressions read, and of its payload, and for each RoomWork of their work.
	Room int
	Memo *Memo // of the plans before that were made from the same run and wanted more of it; nil: there are none
}

// RoomBytes is how many bytes take as much room as a step.
const RoomBytes = 8 << 10

// RoomWork is how much work of expressions, in units of expr.CostLimit, takes as much room as a step.
const RoomWork = expr.CostLimit / 32

// StopsAtOnce is how many steps one plan tells to stop at most. It says More if there are others.
const StopsAtOnce = 128

// Memo is what the expressions of steps say, so that no plan after one that wanted more evaluates them again. The zero
// value is ready for use.
type Memo struct{ outcomes map[int]outcome }

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

	// Successes is how many of the attempts before the newest one have succeeded, as far as these are kept. It is for
	// Audit only.
	Successes int
}

// Ask is what somebody asked of a run.
type Ask struct {
	Do     Do
	Steps  []int   // of DoRerun: from which steps on; none: from all that did not succeed. Of DoAnswer: which step
	Signal *Signal // of DoSignal, without its time
	Answer *Told   // of DoAnswer
}

// Told is an Answer to the approval of a step.
type Told struct {
	Generation int    // of the step
	Output     string // the Answer as JSON
}

// Do is what can be asked of a run.
type Do string

// What can be asked. A run that has ended ignores all but DoRerun, which comes together with Input.Begin.
const (
	DoCancel Do = "cancel" // read from the task of the run: no line says it
	DoPause  Do = "pause"  // until DoResume, or another attempt of the run
	DoResume Do = "resume" // after a pause
	DoRerun  Do = "rerun"  // of a run that has ended: it begins again
	DoSignal Do = "signal" // is given, also to a run that has not begun
	DoAnswer Do = "answer" // to the approval of a step
)

// NoAsk asks nothing of a run: it is planned anew.
const NoAsk = ""

// Encode returns an ask as a line without its line break: what to do, and the ids of steps, separated by blanks. A
// signal follows as JSON, and an answer behind its generation.
func (a Ask) Encode(f *Flow) string {
	line := string(a.Do)
	for _, i := range a.Steps {
		line += " " + f.StepID(i)
	}
	switch {
	case a.Signal != nil:
		text, _ := json.Marshal(a.Signal) // its data was valid JSON
		line += " " + string(text)
	case a.Answer != nil:
		line += fmt.Sprintf(" %d %s", a.Answer.Generation, a.Answer.Output)
	}
	return line
}

// ParseAsk reads what Encode wrote. ok is false for a line that this release cannot read, or that names no step.
func (f *Flow) ParseAsk(line string) (a Ask, ok bool) {
	do, rest, _ := strings.Cut(line, " ")
	switch a.Do = Do(do); a.Do {
	case DoPause, DoResume, DoRerun:
	case DoSignal:
		a.Signal = &Signal{}
		return a, json.Unmarshal([]byte(rest), a.Signal) == nil && a.Signal.Name != ""
	case DoAnswer:
		return f.parseAnswer(rest)
	default:
		return a, false
	}
	for _, id := range strings.Fields(rest) {
		i, known := f.Index(id)
		if !known {
			return a, false
		}
		a.Steps = append(a.Steps, i)
	}
	return a, true
}

// Words returns of what Encode wrote what is for people: "pause", "signal paid", "answer ok".
func Words(line string) string {
	do, rest, _ := strings.Cut(line, " ")
	switch Do(do) {
	case DoSignal:
		var s Signal
		_ = json.Unmarshal([]byte(rest), &s) // of what cannot be read, the name is ""
		return do + " " + s.Name
	case DoAnswer:
		step, _, _ := strings.Cut(rest, " ")
		return do + " " + step
	}
	return line
}

// parseAnswer reads the step, its generation and the Answer.
func (f *Flow) parseAnswer(text string) (a Ask, ok bool) {
	words := strings.SplitN(text, " ", 3)
	if len(words) != 3 {
		return a, false
	}
	i, known := f.Index(words[0])
	generation, err := strconv.Atoi(words[1])
	output := words[2]
	isAnswer := StepRun{Output: output}.Answer() != nil
	a = Ask{Do: DoAnswer, Steps: []int{i}, Answer: &Told{generation, output}}
	return a, known && err == nil && isAnswer
}

// Plan is what follows. All of it takes effect at once, or nothing.
type Plan struct {
	Run     Run       // as it is then
	Wants   []int     // steps whose tasks must be known first: if there are any, the rest means nothing
	Release []Release // tasks that are created, or begin again
	Stop    []int     // steps whose tasks are told to stop
	End     *RunEnd   // the run has ended
	More    bool      // Room was too small for all that could be done, or Stop for all that must stop: plan again
	Room    int       // what is left of it
	Look    time.Time // when the next bound is over, and the run is planned in any case; zero: none is ahead
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
	Error  string // at most task.ErrorLimit bytes
	Result string // JSON of at most task.ResultLimit bytes, if the workflow has an output
}

// planner plans one run. Its parts are in files of their own: this one has what happens to a run, release.go what
// becomes of its steps, rerun.go how it begins again, and ending.go how it ends.
type planner struct {
	f      *Flow
	in     Input
	plan   Plan
	run    *Run // plan.Run
	tasks  map[int]Task
	memo   *Memo
	active int // steps with tasks
	// answers are those to approvals, by step: of several of the same generation, the first.
	answers map[int]Told
}

// Next returns what follows in a run. It changes nothing of its arguments.
func Next(f *Flow, r Run, in Input) Plan {
	p := newPlanner(f, r, in)
	p.begin()
	if p.run.Phase == PhaseEnded {
		return p.plan
	}
	for _, a := range in.Asks {
		p.ask(a)
	}
	if p.run.Phase == "" {
		return p.plan
	}
	p.run.Plans++
	for i := range p.run.Steps {
		p.observe(i)
	}
	p.checkBounds()
	for p.proceed() {
	}
	p.plan.Look = p.nextBound()
	return p.plan
}

func newPlanner(f *Flow, r Run, in Input) *planner {
	r.Steps, r.Signals = slices.Clone(r.Steps), slices.Clip(r.Signals)
	p := &planner{
		f: f, in: in, plan: Plan{Run: r, Room: in.Room}, tasks: make(map[int]Task, len(in.Tasks)), memo: in.Memo,
		answers: make(map[int]Told),
	}
	p.run = &p.plan.Run
	if p.memo == nil {
		p.memo = &Memo{}
	}
	if p.memo.outcomes == nil {
		p.memo.outcomes = make(map[int]outcome)
	}
	for _, t := range in.Tasks {
		p.tasks[t.Step] = t
	}
	return p
}

// begin begins an attempt of the run.
func (p *planner) begin() {
	if p.in.Begin <= p.run.Attempt {
		return
	}
	if p.run.Phase == PhaseEnded {
		p.reset()
	}
	if p.run.Phase == "" {
		p.run.Phase = PhaseMain
	}
	p.run.Attempt, p.run.Begun = p.in.Begin, p.in.Now
}

// ask does what somebody asked for. DoRerun was done by reset.
func (p *planner) ask(a Ask) {
	switch a.Do {
	case DoCancel:
		p.run.Cancelled = true
	case DoPause:
		p.run.Paused = true
	case DoResume:
		p.run.Paused = false
	case DoSignal:
		if _, given := p.run.IsGiven(a.Signal.Name); !given && slices.Contains(p.f.SignalNames(), a.Signal.Name) {
			given := *a.Signal
			given.At = p.in.Now
			p.run.Signals = append(p.run.Signals, given)
		}
	case DoAnswer:
		i := a.Steps[0]
		if _, answered := p.answers[i]; !answered && a.Answer.Generation == p.run.Steps[i].Generation {
			p.answers[i] = *a.Answer
		}
	}
}

// observe gives an active step the verdict of its task, if that has ended, and one that waits its own.
func (p *planner) observe(i int) {
	switch p.run.Steps[i].State {
	case Waiting:
		p.goOn(i)
		return
	case Active:
	default:
		return
	}
	switch t, known := p.tasks[i]; {
	case known && t.State == task.None:
		p.decide(i, Failed, "its task is gone")
	case known && t.State.Final():
		reason := ""
		if t.State == task.Cancelled && p.run.Steps[i].Stopping {
			reason = "was told to stop: " + p.run.Steps[i].Reason
		}
		p.decide(i, Verdict(t.State), reason)
	default:
		p.active++
	}
}

// decide gives a step its verdict.
func (p *planner) decide(i int, v Verdict, reason string) {
	s := &p.run.Steps[i]
	s.State, s.Decided, s.At, s.Stopping = State(v), p.run.Plans, p.in.Now, false
	s.Reason = task.Cut(reason, ReasonLimit)
	if p.f.Failure == FailureStop && p.f.nodes[i].in == main && p.fails(i) {
		p.run.Stopped = true
	}
}

// fails reports whether the run fails because of a step.
func (p *planner) fails(i int) bool {
	switch p.run.Steps[i].verdict() {
	case Failed:
		return !p.f.nodes[i].AllowFailure
	case Cancelled:
		return true
	}
	return false
}

// checkBounds notes that the deadline is over, and cancels what takes too long after it.
func (p *planner) checkBounds() {
	switch {
	case p.in.Now.Before(p.bound()):
	case p.run.Phase == PhaseMain:
		p.run.Late = p.run.Late || !p.haveEnded(main)
	default:
		in := p.run.Phase.section()
		p.stop(in, p.f.tookTooLong(in))
	}
}

// bound returns until when the phase may take.
func (p *planner) bound() time.Time {
	if p.run.Phase == PhaseMain {
		return p.run.Begun.Add(p.f.EffectiveDeadline())
	}
	return p.run.Closing.Add(p.f.EffectiveClosing())
}

// nextBound returns when the bound of the phase is over, or a step has waited long enough; zero if all of these times
// are over, or the run has ended.
func (p *planner) nextBound() (next time.Time) {
	if p.run.Phase == PhaseEnded {
		return next
	}
	times := []time.Time{p.bound()}
	for _, s := range p.run.Steps {
		if s.State == Waiting {
			times = append(times, s.Until)
		}
	}
	for _, at := range times {
		if at.After(p.in.Now) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

// stop cancels the steps of a section that have no verdict. The tasks of those that are active are told to stop, some
// in each plan. That takes no room, so that a run ends while Redis is full.
func (p *planner) stop(in section, reason string) {
	lo, hi := p.f.of(in)
	for i := lo; i < hi; i++ {
		s := &p.run.Steps[i]
		switch {
		case s.State == Active && s.Released == p.run.Plans:
			p.takeBack(i)
			p.decide(i, Cancelled, reason)
		case s.State == Blocked || s.State == Waiting:
			p.decide(i, Cancelled, reason)
		case s.State == Active && !s.Stopping && len(p.plan.Stop) == StopsAtOnce:
			p.plan.More = true
		case s.State == Active && !s.Stopping:
			s.Stopping = true
			s.Reason = cmp.Or(reason, p.f.whyStops(*p.run, in, p.in.Now))
			p.plan.Stop = append(p.plan.Stop, i)
		}
	}
}

// haveEnded reports whether all steps of a section have verdicts.
func (p *planner) haveEnded(in section) bool {
	lo, hi := p.f.of(in)
	for _, s := range p.run.Steps[lo:hi] {
		if !s.State.Final() {
			return false
		}
	}
	return true
}

// proceed decides the steps of the phase. It reports whether another phase has begun.
func (p *planner) proceed() bool {
	in := p.run.Phase.section()
	if p.run.Cancelled && in != finally || in == main && (p.run.Late || p.run.Stopped) {
		p.stop(in, "")
	}
	lo, hi := p.f.of(in)
	for _, i := range p.f.order[lo:hi] {
		if p.run.Steps[i].State == Blocked {
			p.consider(i)
		}
		if in == main && p.run.Stopped { // by an expression that failed just now
			p.stop(in, "")
			break
		}
	}
	return p.haveEnded(in) && p.enter(in+1)
}
