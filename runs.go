package dts

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/workflow"
)

// Run is a run of a workflow, and what became of its steps. Times that have not come are zero.
type Run struct {
	ID                string
	Namespace         string
	State             State // of its task
	Attempt           int   // how often it has begun
	Phase             RunPhase
	Paused            bool // it releases no steps until somebody resumes it
	Params            map[string]json.RawMessage
	RunAt             time.Time // when it was to begin
	CreatedAt         time.Time
	StartedAt         time.Time // when its newest attempt began
	Deadline          time.Time // when it is ended if it still runs; zero unless it runs
	FinishedAt        time.Time
	CancelRequestedAt time.Time // when it was asked to stop while it ran
	Result            string    // the Output of the workflow, as JSON
	Error             string    // why it did not succeed
	Owner             string
	Labels            map[string]string
	Signals           []RunSignal // that it was given, the oldest first
	Steps             []RunStep   // in the order of the workflow: those of Steps, OnFailure and Finally
}

// RunPhase says which steps of a run may be released; "" before it begins.
type RunPhase string

// The phases, in their order.
const (
	PhaseMain      RunPhase = "main"
	PhaseOnFailure RunPhase = "on_failure"
	PhaseFinally   RunPhase = "finally"
	PhaseEnded     RunPhase = "ended"
)

// Step returns a step by its id, nil if there is none.
func (r *Run) Step(id string) *RunStep {
	i := slices.IndexFunc(r.Steps, func(s RunStep) bool { return s.ID == id })
	if i < 0 {
		return nil
	}
	return &r.Steps[i]
}

// RunStep is a step of a run. Times that have not come are zero.
type RunStep struct {
	ID         string
	State      StepState
	Reason     string // why it is in its state; "" if its task says that
	Needs      []string
	Rule       Rule   // "" if it needs nothing
	Generation int    // how often it was released; more than once by reruns
	Task       string // the id of its task, once it is released, for Get, Attempts and Logs
	TaskState  State
	Attempt    int       // the number of the newest attempt of its task
	StartedAt  time.Time // when that began
	FinishedAt time.Time
	Error      string // why its task did not succeed
	// FailureAllowed: it failed, and what needs it goes on nevertheless, as its definition has AllowFailure.
	FailureAllowed bool
	Wait           *Wait     // what it waits for, or has waited for; nil: nothing
	WaitingSince   time.Time // zero unless it waits
	WaitsUntil     time.Time // when it has waited long enough, or too long; zero unless it waits, or without a bound
	Answer         *Answer   // what was said to its approval; nil: nothing
}

// RunSignal is a signal that a run was given.
type RunSignal struct {
	Name string
	Data json.RawMessage // nil: null
	By   string          // "": nobody knows
	At   time.Time
}

// Answer is what somebody has said to an [Approval]. It is the output of its step.
type Answer struct {
	Approved bool                       `json:"approved"`
	By       string                     `json:"by,omitempty"` // "": nobody knows
	Note     string                     `json:"note,omitempty"`
	Data     map[string]json.RawMessage `json:"data,omitempty"` // what its form asks for
}

// StepState is the state of a step of a run.
type StepState string

// The states of steps. From StepSucceeded on they are final, unless somebody runs the step again.
const (
	StepBlocked        StepState = "blocked" // not released: Reason says what it waits for
	StepWaiting        StepState = "waiting" // it waits for what its Wait says
	StepActive         StepState = "active"  // its task is there, and has not ended
	StepSucceeded      StepState = "succeeded"
	StepFailed         StepState = "failed"
	StepCancelled      StepState = "cancelled"
	StepSkipped        StepState = "skipped"         // by its rule, its condition, or a step that decides
	StepUpstreamFailed StepState = "upstream_failed" // it never runs, since what it needs has failed
)

// Final reports whether a step in that state does not run again, unless somebody says so.
func (s StepState) Final() bool { return s != StepBlocked && s != StepWaiting && s != StepActive }

// Run starts a run of a workflow with parameters: a struct or a map whose JSON is an object, or nil. A run is a task:
// so Wait, Cancel, Retry, Get, List and Events are for runs, too. Its owner and labels are those of the workflow.
// [Workflow.With] is for a run with an ID, a delay, or a follow-up. Errors: as of [Client.Submit]; CodeInvalid names
// what is wrong in words of Go, such as "workflow.steps.load.timeout" or "params.day".
func (c *Client) Run(ctx context.Context, w Workflow, params any) (*Task, error) {
	return c.Submit(ctx, Submission{Type: TypeWorkflow, Payload: w.With(params), Owner: w.Owner, Labels: w.Labels})
}

// GetRun returns a run with its steps. Errors: CodeTaskNotFound; CodeTaskNotARun for any other task.
func (c *Client) GetRun(ctx context.Context, id string) (*Run, error) {
	if err := c.checkTask(id); err != nil {
		return nil, err
	}
	return runOfAnswer(c.api.GetRunWithResponse(ctx, id, &client.GetRunParams{Namespace: c.api.Namespace}))
}

// PauseRun keeps a run from releasing further steps, but for those of OnFailure and Finally. What runs goes on.
// Errors: those of GetRun; CodeTaskNotRunning.
func (c *Client) PauseRun(ctx context.Context, id string) (*Run, error) {
	if err := c.checkTask(id); err != nil {
		return nil, err
	}
	return runOfAnswer(c.api.PauseRunWithResponse(ctx, id, &client.PauseRunParams{Namespace: c.api.Namespace}))
}

// ResumeRun ends the pause of a run: its leader releases steps again. Errors: as of PauseRun.
func (c *Client) ResumeRun(ctx context.Context, id string) (*Run, error) {
	if err := c.checkTask(id); err != nil {
		return nil, err
	}
	return runOfAnswer(c.api.ResumeRunWithResponse(ctx, id, &client.ResumeRunParams{Namespace: c.api.Namespace}))
}

// RerunRun has a run that has ended begin again with some steps, those that were cancelled, and all that come behind
// these; the others keep their ends. Without steps, it begins with those that failed or were cancelled, as
// [Client.Retry] does; if there are none, with all. Steps of OnFailure and Finally always run again.
// Errors: those of GetRun; CodeInvalid for the steps; CodeTaskNotFinished.
func (c *Client) RerunRun(ctx context.Context, id string, steps ...string) (*Run, error) {
	if err := c.checkTask(id); err != nil {
		return nil, err
	}
	body, err := rest.Body(wire.RunAgain{From: steps})
	if err != nil {
		return nil, err
	}
	params := client.RerunRunParams{Namespace: c.api.Namespace}
	return runOfAnswer(c.api.RerunRunWithBodyWithResponse(ctx, id, &params, rest.JSONType, body))
}

// SignalRun gives a run a signal, for which steps of it wait, or will: data becomes JSON, nil is null. A run has each
// signal once, and keeps it when it is run again. The same signal with the same data is harmless.
// Errors: those of GetRun; CodeInvalid; CodeTaskNotRunning for a run that has ended; CodeSignalGiven.
func (c *Client) SignalRun(ctx context.Context, id, name string, data any) (*Run, error) {
	if err := c.checkTask(id); err != nil {
		return nil, err
	}
	if err := workflow.ValidateStepID("name", name); err != nil {
		return nil, errorOfUseCase(err)
	}
	raw, err := jsonOf("data", data)
	if err != nil {
		return nil, errorOfUseCase(err)
	}
	body, err := rest.Body(wire.SignalData{Data: raw})
	if err != nil {
		return nil, err
	}
	params := client.SignalRunParams{Namespace: c.api.Namespace}
	return runOfAnswer(c.api.SignalRunWithBodyWithResponse(ctx, id, name, &params, rest.JSONType, body))
}

// ApproveStep approves what a step of a run asks for: the step succeeds. data is for the form of its [Approval]: a
// struct or a map whose JSON is an object, or nil. Whoever answers first decides; the same answer again is harmless.
// Errors: those of GetRun; CodeInvalid; CodeTaskNotRunning; CodeStepNotWaiting.
func (c *Client) ApproveStep(ctx context.Context, id, step, note string, data any) (*Run, error) {
	if err := c.checkAnswer(id, step, note); err != nil {
		return nil, err
	}
	raw, err := jsonOf("data", data)
	if err != nil {
		return nil, errorOfUseCase(err)
	}
	var values map[string]json.RawMessage
	if raw != nil && json.Unmarshal(raw, &values) != nil {
		return nil, errorOfUseCase(task.Invalid("data", "must be a struct or a map whose JSON is an object"))
	}
	body, err := rest.Body(wire.Approval{Note: wire.Given(note), Data: values})
	if err != nil {
		return nil, err
	}
	params := client.ApproveStepParams{Namespace: c.api.Namespace}
	return runOfAnswer(c.api.ApproveStepWithBodyWithResponse(ctx, id, step, &params, rest.JSONType, body))
}

// RejectStep rejects what a step of a run asks for: the step fails. Errors: as of ApproveStep.
func (c *Client) RejectStep(ctx context.Context, id, step, note string) (*Run, error) {
	if err := c.checkAnswer(id, step, note); err != nil {
		return nil, err
	}
	body, err := rest.Body(wire.Rejection{Note: wire.Given(note)})
	if err != nil {
		return nil, err
	}
	params := client.RejectStepParams{Namespace: c.api.Namespace}
	return runOfAnswer(c.api.RejectStepWithBodyWithResponse(ctx, id, step, &params, rest.JSONType, body))
}

// checkAnswer checks what names a step of a run, and a note about it. Error: CodeInvalid.
func (c *Client) checkAnswer(id, step, note string) error {
	if err := c.checkTask(id); err != nil {
		return err
	}
	if err := workflow.ValidateStepID("step", step); err != nil {
		return errorOfUseCase(err)
	}
	return errorOfUseCase(task.ValidateLine("note", note, workflow.NoteLimit, "write one line of text"))
}

// StepError says why a step of a run has no output: it has not succeeded.
type StepError struct {
	Run, Step string
	State     StepState // StepBlocked: the run has ended before
	Reason    string
}

// Error returns the reason.
func (e *StepError) Error() string {
	return fmt.Sprintf("step %s of run %s is %s: %s", e.Step, e.Run, e.State, e.Reason)
}

// OutputOf waits for a step of a run, and returns what its handler has returned, decoded into T. A text that is no JSON
// can be had as a string. The output of a step that waited is the data of its signal, or the [Answer] to its approval.
// A step without output, as one that decides, has the zero value.
// Errors: a [*StepError] if the step does not succeed; CodeInvalid if the run has no such step; those of GetRun, and
// that of ctx; or the output does not fit T.
func OutputOf[T any](ctx context.Context, c *Client, run, step string) (T, error) {
	var output T
	result, err := c.stepResult(ctx, run, step)
	if err != nil || result == "" {
		return output, err
	}
	wrong := json.Unmarshal([]byte(result), &output)
	if wrong == nil {
		return output, nil
	}
	if text, is := any(&output).(*string); is {
		*text = result
		return output, nil
	}
	return output, fmt.Errorf("the output of step %s of run %s cannot be decoded into %T: %w", step, run, output, wrong)
}

// stepResult waits for a step, and returns its output as text, "" if it has none. Errors: those of OutputOf.
func (c *Client) stepResult(ctx context.Context, run, step string) (string, error) {
	r, err := c.waitStep(ctx, run, step)
	if err != nil {
		return "", err
	}
	s := r.Step(step)
	switch {
	case s.Answer != nil:
		raw, err := wire.Encode(s.Answer)
		return string(raw), err
	case s.Wait != nil && s.Reason != "": // it went on without its signal, which may have come later
		return "", nil
	case s.Wait != nil:
		i := slices.IndexFunc(r.Signals, func(given RunSignal) bool { return given.Name == s.Wait.Signal })
		if i < 0 {
			return "", nil
		}
		return string(r.Signals[i].Data), nil
	case s.Task == "":
		return "", nil
	}
	t, err := c.Get(ctx, s.Task)
	if err != nil {
		return "", err
	}
	return t.Result, nil
}

const (
	stepPause    = 10 * time.Millisecond // between two looks at a run whose leader is about to plan it
	stepPauseMax = time.Second           // the same at one that waits for other steps
)

// waitStep waits until a step has succeeded, and returns its run. It outlasts a server that does not answer after it
// has answered once.
// Errors: those of OutputOf.
func (c *Client) waitStep(ctx context.Context, run, step string) (*Run, error) {
	reached := false
	for pause := stepPause; ; pause = min(pause*3/2, stepPauseMax) {
		r, err := c.GetRun(ctx, run)
		switch {
		case err == nil:
			reached = true
			s := r.Step(step)
			if s == nil {
				return nil, &Error{Code: CodeInvalid, Field: "step", Message: fmt.Sprintf("step: run %s has no step %q", run, step)}
			}
			if done, err := r.outcome(s); done {
				return r, err
			}
			if s.State == StepActive && s.Task != "" && !s.TaskState.Final() {
				if _, err := c.Wait(ctx, s.Task); err != nil {
					return nil, err
				}
				pause = stepPause
			}
		case !reached || CodeOf(err) != CodeUnavailable:
			return nil, err
		}
		if err := c.rest(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// rest waits. Errors: ErrClosed, and that of ctx.
func (c *Client) rest(ctx context.Context, pause time.Duration) error {
	life, stop := c.untilClosed(ctx)
	defer stop()
	_ = clock.Sleep(life, pause)
	return c.usable(ctx)
}

// outcome reports whether nobody has to wait for a step any more. Error: a *StepError if it has not succeeded.
func (r *Run) outcome(s *RunStep) (done bool, _ error) {
	reason := s.Reason
	switch {
	case s.State == StepSucceeded:
		return true, nil
	case !s.State.Final() && !r.State.Final():
		return false, nil
	case !s.State.Final():
		reason = fmt.Sprintf("the run is %s", r.State)
	case reason == "":
		reason = s.Error
	}
	return true, &StepError{Run: r.ID, Step: s.ID, State: s.State, Reason: reason}
}

// runOfAnswer returns the run of an answer.
func runOfAnswer(r rest.Reply, err error) (*Run, error) {
	run, err := call[wire.Run](r, err)
	if err != nil {
		return nil, err
	}
	return &Run{
		ID: run.ID, Namespace: run.Namespace, State: State(run.State), Attempt: run.Attempt,
		Phase: RunPhase(wire.Value(run.Phase)), Paused: run.Paused, Params: run.Params, RunAt: run.RunAt.Time,
		CreatedAt: run.CreatedAt.Time, StartedAt: wire.Value(run.StartedAt).Time, Deadline: wire.Value(run.Deadline).Time,
		FinishedAt: wire.Value(run.FinishedAt).Time, CancelRequestedAt: wire.Value(run.CancelRequestedAt).Time,
		Result: wire.Value(run.Result), Error: wire.Value(run.Error), Owner: wire.Value(run.Owner),
		Labels: wire.Value(run.Labels), Signals: each(run.Signals, signalFrom), Steps: each(run.Steps, stepFrom),
	}, nil
}

func signalFrom(s wire.RunSignal) RunSignal {
	return RunSignal{Name: s.Name, Data: s.Data, By: wire.Value(s.By), At: s.At.Time}
}

func stepFrom(s wire.RunStep) RunStep {
	out := RunStep{
		ID: s.ID, State: StepState(s.State), Reason: wire.Value(s.Reason), Needs: s.Needs, Rule: Rule(wire.Value(s.Rule)),
		Generation: wire.Value(s.Generation), Task: wire.Value(s.Task), TaskState: State(wire.Value(s.TaskState)),
		Attempt: wire.Value(s.Attempt), StartedAt: wire.Value(s.StartedAt).Time,
		FinishedAt: wire.Value(s.FinishedAt).Time, Error: wire.Value(s.Error),
		FailureAllowed: wire.Value(s.FailureAllowed), Wait: waitOfAnswer(s.Wait),
		WaitingSince: wire.Value(s.WaitingSince).Time, WaitsUntil: wire.Value(s.WaitsUntil).Time,
	}
	if a := s.Answer; a != nil {
		out.Answer = &Answer{Approved: a.Approved, By: wire.Value(a.By), Note: wire.Value(a.Note), Data: a.Data}
	}
	return out
}
