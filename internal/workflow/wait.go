package workflow

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// Wait says what a step waits for: one of For, Until, Signal and Approval.
type Wait struct {
	For       time.Duration // since it began to wait
	Until     string        // a moment as RFC 3339 has it, which can have expressions
	Signal    string        // its name: somebody gives it to the run
	Approval  *Approval
	Timeout   time.Duration // of a signal or an approval; 0: none
	OnTimeout OnTimeout     // "": TimeoutFail
}

// Approval is a question to people. The output of its step is their Answer.
type Approval struct {
	By   []string // whom it asks: names or roles; none: anybody
	Form []Param  // what they say beside yes or no
}

// OnTimeout says what becomes of a step that has waited too long.
type OnTimeout string

// What becomes of a step that has waited too long.
const (
	TimeoutFail     OnTimeout = "fail"     // it has failed
	TimeoutSkip     OnTimeout = "skip"     // it was skipped
	TimeoutContinue OnTimeout = "continue" // it has succeeded, without an output
)

// Limits on what a step waits for, and on what it gets.
const (
	WaitLimit   = DeadlineLimit // of For, and of Timeout
	UntilLimit  = 2048          // bytes of Until
	ByLimit     = 20            // names of an approval
	ByNameLimit = 100           // bytes of one
	FormLimit   = 20            // params of an approval
	DataLimit   = 4 << 10       // bytes of the data of a signal, and of what an approval says
	NoteLimit   = 200           // bytes of the note of an approval
)

// Signal is what somebody has given to a run. Each name can be given once.
type Signal struct {
	Name string          `json:"name"`
	Data json.RawMessage `json:"data,omitempty"` // nil: null
	By   string          `json:"by,omitempty"`   // "": nobody knows
	At   time.Time       `json:"at"`             // when the run was planned with it
}

// Answer is what somebody has said to an approval.
type Answer struct {
	Approved bool           `json:"approved"`
	By       string         `json:"by,omitempty"` // "": nobody knows
	Note     string         `json:"note,omitempty"`
	Data     map[string]any `json:"data,omitempty"` // what its form asks for
}

// Effective returns what becomes of a step that has waited too long.
func (w Wait) Effective() OnTimeout { return cmp.Or(w.OnTimeout, TimeoutFail) }

// waitsForTime reports whether the step goes on by itself.
func (w Wait) waitsForTime() bool { return w.For > 0 || w.Until != "" }

// isOne reports whether it is one of the four.
func (w Wait) isOne() bool {
	n := 0
	for _, is := range []bool{w.For != 0, w.Until != "", w.Signal != "", w.Approval != nil} {
		if is {
			n++
		}
	}
	return n == 1
}

// validate checks a wait for itself, but not its expression. Error: CodeInvalid, in fields such as "timeout".
func (w Wait) validate() error {
	if err := w.validateTimes(); err != nil {
		return err
	}
	switch {
	case w.Signal != "":
		return ValidateStepID("signal", w.Signal)
	case w.Approval != nil:
		return task.Within("approval", w.Approval.validate())
	}
	return nil
}

// validateTimes checks how long a step may wait.
func (w Wait) validateTimes() error {
	switch {
	case w.For != 0 && (w.For < time.Millisecond || w.For > WaitLimit):
		return task.Invalid("for", "%s must be 1ms to %s", w.For, task.FormatDuration(WaitLimit))
	case len(w.Until) > UntilLimit:
		return task.Invalid("until", "is %d bytes long, at most %d are allowed", len(w.Until), UntilLimit)
	case w.waitsForTime() && (w.Timeout != 0 || w.OnTimeout != ""):
		return task.Invalid("timeout", "is for a signal or an approval: this step goes on by itself")
	case w.Timeout != 0 && (w.Timeout < time.Millisecond || w.Timeout > WaitLimit):
		return task.Invalid("timeout", "%s must be 1ms to %s", w.Timeout, task.FormatDuration(WaitLimit))
	case !slices.Contains([]OnTimeout{TimeoutFail, TimeoutSkip, TimeoutContinue}, w.Effective()):
		return task.Invalid("on_timeout", "%q must be fail, skip or continue", w.OnTimeout)
	case w.OnTimeout != "" && w.Timeout == 0:
		return task.Invalid("on_timeout", "says what happens after a timeout, and there is none")
	}
	return nil
}

func (a Approval) validate() error {
	if len(a.By) > ByLimit {
		return task.Invalid("by", "there are %d names, at most %d are allowed", len(a.By), ByLimit)
	}
	for i, name := range a.By {
		field := fmt.Sprintf("by[%d]", i)
		if name == "" {
			return task.Invalid(field, "is empty: it must be a name or a role")
		}
		if err := task.ValidateText(field, name, ByNameLimit); err != nil {
			return err
		}
	}
	if len(a.Form) > FormLimit {
		return task.Invalid("form", "there are %d fields, at most %d are allowed", len(a.Form), FormLimit)
	}
	return validateParams("form", a.Form)
}

// Bind returns what somebody has filled into the form, by name. Error: CodeInvalid, in fields such as "data.amount".
func (a Approval) Bind(given map[string]json.RawMessage) (map[string]any, error) {
	return bind("data", "the form", "the form", a.Form, given, DataLimit)
}

// IsGiven reports whether the run was given a signal, and returns it.
func (r Run) IsGiven(name string) (_ Signal, is bool) {
	i := slices.IndexFunc(r.Signals, func(s Signal) bool { return s.Name == name })
	if i < 0 {
		return Signal{}, false
	}
	return r.Signals[i], true
}

// SignalNames returns the names of the signals for which steps wait, sorted.
func (f *Flow) SignalNames() []string {
	var names []string
	for _, n := range f.nodes {
		if n.Wait != nil && n.Wait.Signal != "" {
			names = append(names, n.Wait.Signal)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Answer returns what was said to the approval of a step; nil if nothing was.
func (s StepRun) Answer() *Answer {
	var a Answer
	if s.Output == "" || json.Unmarshal([]byte(s.Output), &a) != nil {
		return nil
	}
	return &a
}

// wait has a step wait. It goes on at once if it need not wait.
func (p *planner) wait(i int, until time.Time) {
	s := &p.run.Steps[i]
	s.State, s.Released, s.At, s.Since, s.Until = Waiting, p.run.Plans, p.in.Now, p.in.Now, until
	s.Generation++
	switch w := p.f.nodes[i].Wait; {
	case w.Until != "" && until.Before(p.in.Now): // it may be before all moments that the text of a run has
		s.Until = p.in.Now
	case w.For > 0:
		s.Until = endOf(s.Since, w.For)
	case w.Timeout > 0:
		s.Until = endOf(s.Since, w.Timeout)
	}
	p.goOn(i)
}

// endOf returns when a time is over that began at a whole ms: a run keeps whole ms, and nobody waits for less than that
// time.
func endOf(since time.Time, d time.Duration) time.Time {
	return since.Add(d + time.Millisecond - 1).Truncate(time.Millisecond)
}

// goOn gives a step that waits its verdict, if what it waits for is there, or if it has waited too long.
func (p *planner) goOn(i int) {
	w, s := p.f.nodes[i].Wait, &p.run.Steps[i]
	_, given := p.run.IsGiven(w.Signal)
	answer, answered := p.answers[i]
	switch isOver := !s.Until.IsZero() && !p.in.Now.Before(s.Until); {
	case given && w.Signal != "", isOver && w.waitsForTime():
		p.decide(i, Succeeded, "")
	case answered && answer.Generation == s.Generation:
		s.Output = answer.Output
		if verdict := s.Answer(); verdict.Approved {
			p.decide(i, Succeeded, "")
		} else {
			p.decide(i, Failed, verdict.String())
		}
	case isOver:
		verdict := map[OnTimeout]Verdict{TimeoutFail: Failed, TimeoutSkip: Skipped, TimeoutContinue: Succeeded}
		p.decide(i, verdict[w.Effective()], w.tooLong())
	}
}

// String says who has answered what, for people.
func (a Answer) String() string {
	text := "rejected"
	if a.Approved {
		text = "approved"
	}
	if a.By != "" {
		text += " by " + a.By
	}
	if a.Note != "" {
		text += ": " + a.Note
	}
	return text
}

// whyWaits says what a step waits for.
func (w Wait) whyWaits(s StepRun) string {
	text := "waits"
	switch {
	case w.waitsForTime():
		return "waits until " + s.Until.Format(time.RFC3339)
	case w.Signal != "":
		text += " for the signal " + w.Signal
	case len(w.Approval.By) > 0:
		text += " for an answer of " + listed(w.Approval.By)
	default:
		text += " for an answer"
	}
	if s.Until.IsZero() {
		return text
	}
	then := map[OnTimeout]string{
		TimeoutFail: "it fails", TimeoutSkip: "it is skipped", TimeoutContinue: "it goes on without",
	}
	return fmt.Sprintf("%s; %s at %s", text, then[w.Effective()], s.Until.Format(time.RFC3339))
}

// tooLong says that nobody did in time what a step waited for.
func (w Wait) tooLong() string {
	within := task.FormatDuration(w.Timeout)
	if w.Signal != "" {
		return fmt.Sprintf("nobody gave the signal %s within %s", w.Signal, within)
	}
	return "nobody answered within " + within
}

// outputOf returns the output of a step that waited: the data of the signal that it got in time, or an Answer.
func (r Run) outputOf(n *node, s StepRun) string {
	if n.Wait.Signal == "" {
		return s.Output
	}
	if isInTime := s.State == State(Succeeded) && s.Reason == ""; !isInTime {
		return ""
	}
	given, _ := r.IsGiven(n.Wait.Signal)
	return string(given.Data)
}

// DecodeRun is DecodeRun for the text of a run of this workflow, whose steps must be such that it can have them.
func (f *Flow) DecodeRun(text string) (Run, error) {
	r, err := DecodeRun(text, len(f.nodes))
	if err != nil {
		return r, err
	}
	for i, s := range r.Steps {
		n := &f.nodes[i]
		isApproval := n.Wait != nil && n.Wait.Approval != nil
		switch {
		case s.State == Active && n.Task == nil, s.State == Waiting && n.Wait == nil:
			return r, fmt.Errorf("the text of the run says that step %s is %s, which it cannot be", n.ID, s.State)
		case s.Output != "" && (!isApproval || s.Answer() == nil):
			return r, fmt.Errorf("the text of the run has an answer to step %s that cannot be read", n.ID)
		}
	}
	return r, nil
}

// untilOf reads a moment.
func untilOf(text string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, task.Invalid("wait.until", "%.100q must be a moment such as 2026-11-30T18:00:00Z", text)
	}
	return at.UTC().Truncate(time.Millisecond), nil
}
