package test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/workflow"
	"github.com/dts-sched/dts/internal/workflow/flowtest"
	"github.com/dts-sched/dts/internal/workflow/text"
)

const (
	flowAttempts = 3                      // of the task of a step, at most
	flowPause    = 100 * time.Millisecond // between two looks at a run
	flowLimit    = 3 * time.Minute        // in which an attempt of a run ends
	flowStops    = 10 * time.Second       // in which handlers learn that nobody waits for them
)

var me = control.Caller{Namespace: task.DefaultNamespace}

// flowPlay is a run of a random workflow, and what happens to it.
type flowPlay struct {
	*flowStage
	id         string
	random     *rand.Rand
	definition workflow.Definition
	paused     bool
	reran      bool
	cancelled  bool
	state      task.State
	ended      time.Time // when the player knew that it had

	signals map[string]string // the data of those that were accepted, by name
	answers map[string]bool   // those that were accepted, by step and generation: approved
}

func newFlowPlay(s *flowStage, n int) *flowPlay {
	random := rand.New(rand.NewPCG(s.seed, uint64(n)))
	p := &flowPlay{
		flowStage: s, id: fmt.Sprintf("flow-%d-%d", s.seed, n), random: random,
		signals: make(map[string]string), answers: make(map[string]bool),
	}
	p.definition = flowtest.AnyThatWaits(p.random, 60)
	for _, steps := range [][]workflow.Step{p.definition.Steps, p.definition.OnFailure, p.definition.Finally} {
		for i := range steps {
			if w := steps[i].Wait; w != nil {
				w.For /= 4 // of up to 3 s
			}
			if d := steps[i].Task; d != nil {
				d.Type = "http"
				d.Payload = fmt.Appendf(nil, `{"url": %q, "body": %s}`, s.far.url, d.Payload)
				d.Retry = task.Retry{MaxAttempts: 1 + p.random.IntN(flowAttempts), Delays: []time.Duration{50 * time.Millisecond}}
			}
		}
	}
	return p
}

// play submits the run, and does things to it until it has ended, for the last time.
func (p *flowPlay) play() {
	p.submit()
	for attempt := range 3 {
		if !p.awaitEnd() {
			return
		}
		p.check()
		if attempt == 2 || p.random.IntN(3) > 0 || !p.rerun() {
			return
		}
	}
}

func (p *flowPlay) submit() {
	definition, err := text.Encode(p.definition)
	if err != nil {
		p.fail("is not encoded: %v", err)
		return
	}
	payload := fmt.Appendf(nil, `{"definition": %s}`, definition)
	submission := wire.Submission{ID: &p.id, Type: task.WorkflowType, Payload: payload}
	for since := time.Now(); ; {
		answer, err := p.door.SubmitTaskWithResponse(p.t.Context(), nil, submission)
		switch {
		case err != nil:
			p.fail("cannot be submitted: %v", err)
		case answer.StatusCode() == http.StatusCreated:
		case strings.Contains(string(answer.Body), "earlier release") && time.Since(since) < flowLimit:
			_ = clock.Sleep(p.t.Context(), flowPause) // the nodes do not know each other yet
			continue
		default:
			p.fail("is refused: %s", answer.Body)
		}
		return
	}
}

// awaitEnd does things to the run until it has ended.
func (p *flowPlay) awaitEnd() bool {
	for since := time.Now(); time.Since(since) < flowLimit; {
		if err := clock.Sleep(p.t.Context(), flowPause); err != nil {
			return false
		}
		state, err := p.control.TaskState(p.t.Context(), me, p.id)
		switch {
		case err != nil:
			p.fail("%v", err)
			return false
		case state.Final():
			p.state, p.ended, p.paused = state, time.Now(), false
			return true
		}
		p.meddle()
		if p.random.IntN(4) == 0 {
			p.answer()
		}
	}
	run, findings, err := p.control.AuditRun(p.t.Context(), me, p.id)
	p.fail("has not ended after %s: %v %v\n%s\nasked: %q", flowLimit, err, findings, run.Run.Encode(), run.Asked)
	return false
}

// meddle asks something of the run, or nothing.
func (p *flowPlay) meddle() {
	var err error
	switch chance := p.random.IntN(60); {
	case p.paused && chance < 20:
		_, err = p.control.ResumeRun(p.t.Context(), me, p.id)
		p.paused = err != nil
	case chance < 1:
		_, err = p.control.PauseRun(p.t.Context(), me, p.id)
		p.paused = p.paused || err == nil
	case chance == 2:
		_, err = p.control.CancelTask(p.t.Context(), me, p.id, "")
		p.cancelled = true
		p.cancels.Add(1)
	}
	if code := task.CodeOf(err); err != nil && code != task.CodeNotRunning && code != task.CodeFinished {
		p.fail("cannot be paused, resumed or cancelled: %v", err)
	}
}

// answer gives the run a signal, early, late or again, and answers the approvals that it asks for.
func (p *flowPlay) answer() {
	name := flowtest.Signals[p.random.IntN(len(flowtest.Signals))]
	if flow, err := workflow.Compile(p.definition); err == nil && slices.Contains(flow.SignalNames(), name) {
		p.signal(name, fmt.Sprintf(`{"n":%d}`, 1+p.random.IntN(2)))
	}
	run, err := p.control.GetRun(p.t.Context(), me, p.id)
	if err != nil {
		p.fail("cannot be read: %v", err)
		return
	}
	for _, s := range run.Steps {
		if s.State == workflow.Waiting && s.Wait.Approval != nil && p.random.IntN(3) > 0 {
			p.decide(s, p.random.IntN(5) > 0)
		}
	}
}

// signal gives the run a signal. The one that it has stays.
func (p *flowPlay) signal(name, data string) {
	run, err := p.control.SignalRun(p.t.Context(), me, p.id, name, json.RawMessage(data))
	has, given := p.signals[name]
	switch code := task.CodeOf(err); {
	case err == nil && given && has != data && run.Task.State == task.Running:
		p.fail("has the signal %s with %s, and took it again with %s", name, has, data)
	case err == nil && !given:
		p.signals[name] = data
		p.signalled.Add(1)
	case err != nil && code != task.CodeNotRunning && (code != workflow.CodeSignalGiven || !given || has == data):
		p.fail("does not take the signal %s with %s, and has %q: %v", name, data, has, err)
	}
}

// decide answers an approval.
func (p *flowPlay) decide(s control.RunStep, approved bool) {
	var err error
	if approved {
		_, err = p.control.ApproveStep(p.t.Context(), me, p.id, s.ID, control.Reply{Note: "fine"})
	} else {
		_, err = p.control.RejectStep(p.t.Context(), me, p.id, s.ID, "bad")
	}
	name := fmt.Sprint(s.ID, " ", s.Generation)
	has, answered := p.answers[name]
	switch code := task.CodeOf(err); {
	case err == nil && !answered:
		p.answers[name] = approved
		p.answered.Add(1)
	case err != nil && code != task.CodeNotRunning && (code != workflow.CodeStepNotWaiting || answered && has == approved):
		p.fail("its step %s takes no answer: %v", s.ID, err)
	}
}

// rerun has the run begin again: what failed, or from some steps on.
func (p *flowPlay) rerun() bool {
	var from []string
	for range p.random.IntN(3) {
		from = append(from, p.definition.Steps[p.random.IntN(len(p.definition.Steps))].ID)
	}
	if _, err := p.control.RerunRun(p.t.Context(), me, p.id, from, time.Time{}); err != nil {
		p.fail("does not begin again from %q: %v", from, err)
		return false
	}
	p.reran, p.cancelled, p.ended = true, false, time.Time{}
	p.reruns.Add(1)
	return true
}

// check checks a run that has ended.
func (p *flowPlay) check() {
	run, findings, err := p.control.AuditRun(p.t.Context(), me, p.id)
	if err != nil || len(findings) > 0 {
		p.fail("has ended, and its audit says %v %q\n%s", err, findings, run.Run.Encode())
	}
	if p.cancelled && run.Run.Cancelled && run.Task.State != task.Cancelled {
		p.fail("was cancelled, and is %s", run.Task.State)
	}
	for since := time.Now(); p.far.running(p.id) > 0; {
		if clock.Sleep(p.t.Context(), flowPause) != nil || time.Since(since) > flowStops {
			p.fail("has ended, and %d of its steps run", p.far.running(p.id))
			return
		}
	}
	for _, s := range run.Steps {
		if s.Task != nil && !s.Task.State.Final() {
			p.fail("has ended, and its step %s is %s", s.ID, s.Task.State)
		}
		if s.Task != nil && s.Task.Attempt > s.Generation*flowAttempts {
			p.fail("its step %s has had %d attempts in %d releases", s.ID, s.Task.Attempt, s.Generation)
		}
	}
}

// judge checks what handlers saw of the run, and returns how many attempts were lost.
func (p *flowPlay) judge() (lost int) {
	run, err := p.control.GetRun(p.t.Context(), me, p.id)
	if err != nil {
		p.fail("%v", err)
		return 0
	}
	p.judgeSignals(run)
	calls, waits := make(map[string][]flowCall, len(run.Steps)), make(map[string]control.RunStep)
	for _, s := range run.Steps {
		if s.Wait != nil {
			waits[s.ID] = s
			p.judgeWait(s)
		}
		calls[s.ID] = p.far.of(run.Task.Step(s.ID).ID)
		lost += p.judgeStep(s, calls[s.ID])
	}
	if p.reran {
		return lost
	}
	for _, s := range run.Steps {
		for _, need := range s.Needs {
			if before, after := calls[need], calls[s.ID]; !isEarly(s.EffectiveRule()) && len(before) > 0 && len(after) > 0 &&
				after[0].begin.Before(before[len(before)-1].begin) {
				p.fail("step %s began before %s, which it needs, began for the last time", s.ID, need)
			}
			w, waited := waits[need]
			hasBegun := waited && !isEarly(s.EffectiveRule()) && len(calls[s.ID]) > 0
			if hasBegun && calls[s.ID][0].begin.Before(w.At) {
				p.fail("step %s began %s before %s, which it needs, went on", s.ID, w.At.Sub(calls[s.ID][0].begin), need)
			}
		}
	}
	return lost
}

// judgeSignals checks that the run has what was accepted: what was first, and no other.
func (p *flowPlay) judgeSignals(run control.Run) {
	for name, data := range p.signals {
		given, is := run.Run.IsGiven(name)
		if early := slices.Contains(run.Asked, "signal "+name); !early && (!is || string(given.Data) != data) {
			p.fail("was given the signal %s with %s, and has %q: %t", name, data, given.Data, is)
		}
	}
	if have := len(run.Run.Signals); have > len(p.signals) {
		p.fail("has %d signals, and was given %d", have, len(p.signals))
	}
}

// judgeWait checks that a step that waited went on for one of the reasons that it has, with the answer that was first.
func (p *flowPlay) judgeWait(s control.RunStep) {
	if s.Task != nil {
		p.fail("step %s waits, and has a task", s.ID)
	}
	approved, answered := p.answers[fmt.Sprint(s.ID, " ", s.Generation)]
	answer := s.Answer()
	switch {
	case answer != nil && (!answered || answer.Approved != approved):
		p.fail("step %s was %s; it was answered: %t, with %t", s.ID, answer, answered, approved)
	case answer == nil && answered && s.State != workflow.State(workflow.Cancelled):
		p.fail("step %s was answered with %t, and is %s without an answer", s.ID, approved, s.State)
	}
}

// isEarly reports whether a rule may release a step before all that it needs has ended.
func isEarly(r workflow.Rule) bool {
	return r == workflow.RuleOneSuccess || r == workflow.RuleOneFailed || r == workflow.RuleOneDone
}

// judgeStep checks the calls for a step.
func (p *flowPlay) judgeStep(s control.RunStep, calls []flowCall) (lost int) {
	if s.Task == nil {
		if len(calls) > 0 {
			p.fail("step %s has no task, and was called %d times", s.ID, len(calls))
		}
		return 0
	}
	for i, c := range calls {
		switch {
		case i > 0 && c.attempt <= calls[i-1].attempt:
			p.fail("attempt %d of step %s began after attempt %d", c.attempt, s.ID, calls[i-1].attempt)
		case c.begin.After(p.ended):
			p.fail("attempt %d of step %s began %s after the run had ended", c.attempt, s.ID, c.begin.Sub(p.ended))
		case c.attempt > s.Task.Attempt:
			p.fail("attempt %d of step %s began, which had only %d", c.attempt, s.ID, s.Task.Attempt)
		}
	}
	if s.Task.Attempt <= s.Generation && len(calls) == s.Task.Attempt {
		return 0
	}
	_, history, err := p.control.GetTaskWithAttempts(p.t.Context(), me, s.Task.ID)
	if err != nil {
		p.fail("the attempts of step %s: %v", s.ID, err)
	}
	succeeded := 0
	for _, a := range history {
		switch a.Outcome {
		case task.OutcomeLost:
			lost++
		case task.OutcomeSucceeded:
			succeeded++
		}
	}
	if succeeded > s.Generation {
		p.fail("step %s has succeeded %d times in %d releases", s.ID, succeeded, s.Generation)
	}
	return lost
}

// fail fails the test, unless it has ended, which ends what a run is asked.
func (p *flowPlay) fail(format string, args ...any) {
	if p.t.Context().Err() != nil {
		return
	}
	definition, _ := json.Marshal(p.definition)
	p.t.Errorf("run %s (TEST_SEED=%d) %s\n%.4000s", p.id, p.seed, fmt.Sprintf(format, args...), definition)
}
