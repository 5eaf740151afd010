package control

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/workflow"
)

// SignalRun gives a run a signal for which steps of it wait, or will. A run that has not begun keeps it. A signal that
// the run has, with the same data, is harmless. data is JSON of at most workflow.DataLimit bytes; nil is null.
// Errors: those of GetRun; CodeInvalid; CodeNotRunning for a run that has ended; workflow.CodeSignalGiven.
func (c *Control) SignalRun(ctx context.Context, who Caller, id, name string, data json.RawMessage) (Run, error) {
	ref := who.Ref(id)
	if _, err := c.begin(ctx, who, "signalRun", ref); err != nil {
		return Run{}, err
	}
	run, err := c.readRun(ctx, ref)
	if err != nil {
		return Run{}, err
	}
	signal := workflow.Signal{Name: name, By: who.By()}
	if signal.Data, err = checkSignal(run, name, data); err != nil {
		return Run{}, err
	}
	given, is := run.Run.IsGiven(name)
	if !is && run.Task.State.Final() {
		const message = "run %q has ended: it is %s, and takes no signal"
		return Run{}, task.Errorf(task.CodeNotRunning, message, id, run.Task.State)
	}
	if !is {
		given, is, err = c.earlySignal(ctx, run, name)
	}
	if is || err != nil {
		return run, cmp.Or(err, checkGiven(run, given, signal))
	}
	ask := workflow.Ask{Do: workflow.DoSignal, Signal: &signal}
	if err := c.store.Tasks.AskEarly(ctx, ref, ask.Encode(run.Flow)); err != nil {
		return Run{}, err
	}
	if run.Task.State == task.Running {
		run, err = c.readAsked(ctx, ref)
	} else {
		run, err = c.readRun(ctx, ref)
	}
	if err != nil {
		return run, err
	}
	given, is = run.Run.IsGiven(name) // somebody else may have been first
	if !is {
		given, is, err = c.earlySignal(ctx, run, name)
	}
	if err == nil && is {
		err = checkGiven(run, given, signal)
	}
	return run, err
}

// earlySignal returns a signal that a run was given and will have once it is planned: the first one of that name.
func (c *Control) earlySignal(ctx context.Context, run Run, name string) (s workflow.Signal, is bool, _ error) {
	ref := run.Task.Ref
	asks, err := c.store.Partitions.At(c.store.PartitionOf(ref)).AsksOf(ctx, ref)
	for line := range strings.Lines(asks) {
		ask, ok := run.Flow.ParseAsk(strings.TrimSuffix(line, "\n"))
		if ok && ask.Do == workflow.DoSignal && ask.Signal.Name == name {
			return *ask.Signal, true, err
		}
	}
	return s, false, err
}

// checkSignal checks a signal for a run, and returns its data without blanks. Error: CodeInvalid.
func checkSignal(run Run, name string, data json.RawMessage) (json.RawMessage, error) {
	if err := workflow.ValidateStepID("name", name); err != nil {
		return nil, err
	}
	if names := run.Flow.SignalNames(); run.Flow.Len() > 0 && !slices.Contains(names, name) {
		if len(names) == 0 {
			return nil, task.Invalid("name", "no step of the run waits for a signal")
		}
		const message = "no step of the run waits for the signal %q: it has %s"
		return nil, task.Invalid("name", message, name, strings.Join(names, ", "))
	}
	if len(data) == 0 {
		return nil, nil
	}
	var compact bytes.Buffer
	switch err := json.Compact(&compact, data); {
	case err != nil:
		return nil, task.Invalid("data", "is not valid JSON: %v", err)
	case compact.Len() > workflow.DataLimit:
		return nil, task.Invalid("data", "is %d bytes long, at most %d are allowed", compact.Len(), workflow.DataLimit)
	case compact.String() == "null":
		return nil, nil
	}
	return json.Marshal(json.RawMessage(compact.Bytes())) // as the text of the run has it
}

// checkGiven refuses a signal that a run has with other data. Error: workflow.CodeSignalGiven.
func checkGiven(run Run, given, signal workflow.Signal) error {
	if string(given.Data) == string(signal.Data) {
		return nil
	}
	by := ""
	if given.By != "" {
		by = " by " + given.By
	}
	at := ""
	if !given.At.IsZero() {
		at = " at " + given.At.Format(time.RFC3339)
	}
	const message = "run %q was given the signal %s%s%s, with other data"
	return task.Errorf(workflow.CodeSignalGiven, message, run.Task.ID, given.Name, by, at)
}

// Reply is what somebody says to the approval of a step, beside yes or no.
type Reply struct {
	Note string
	Data map[string]json.RawMessage // for its form
}

// ApproveStep approves what a step of a run asks for: the step succeeds. Whoever answers first decides; the same answer
// by the same caller again is harmless. Errors: those of GetRun; CodeInvalid; CodeNotRunning;
// workflow.CodeStepNotWaiting.
func (c *Control) ApproveStep(ctx context.Context, who Caller, id, step string, reply Reply) (Run, error) {
	return c.answer(ctx, who, "approveStep", id, step, true, reply)
}

// RejectStep rejects what a step of a run asks for: the step fails. It has no data. Errors: as of ApproveStep.
func (c *Control) RejectStep(ctx context.Context, who Caller, id, step, note string) (Run, error) {
	return c.answer(ctx, who, "rejectStep", id, step, false, Reply{Note: note})
}

func (c *Control) answer(
	ctx context.Context, who Caller, operation, id, step string, approved bool, reply Reply,
) (Run, error) {
	ref := who.Ref(id)
	if _, err := c.begin(ctx, who, operation, ref); err != nil {
		return Run{}, err
	}
	if err := task.ValidateLine("note", reply.Note, workflow.NoteLimit, "write one line of text"); err != nil {
		return Run{}, err
	}
	run, err := c.readRun(ctx, ref)
	if err != nil {
		return Run{}, err
	}
	i, known := run.Flow.Index(step)
	if !known || run.Steps[i].Wait == nil || run.Steps[i].Wait.Approval == nil {
		return Run{}, task.Invalid("step", "the run has no step %q that waits for an approval%s", step, approvalsOf(run))
	}
	answer := workflow.Answer{Approved: approved, By: who.By(), Note: reply.Note}
	if approved {
		if answer.Data, err = run.Steps[i].Wait.Approval.Bind(reply.Data); err != nil {
			return Run{}, err
		}
	}
	output, err := json.Marshal(answer)
	if err != nil {
		return Run{}, err
	}
	if run.Steps[i].State != workflow.Waiting {
		return run, checkAnswer(run.Steps[i], string(output))
	}
	told := workflow.Told{Generation: run.Steps[i].Generation, Output: string(output)}
	ask := workflow.Ask{Do: workflow.DoAnswer, Steps: []int{i}, Answer: &told}
	if err := c.store.Tasks.AskRun(ctx, ref, ask.Encode(run.Flow)); err != nil {
		return Run{}, err
	}
	if run, err = c.readAsked(ctx, ref); err == nil && run.Steps[i].State != workflow.Waiting {
		err = checkAnswer(run.Steps[i], string(output)) // somebody else may have been first
	}
	return run, err
}

// checkAnswer refuses an answer to a step that does not wait, unless it has that answer already, to the last word.
// Error: workflow.CodeStepNotWaiting.
func checkAnswer(s RunStep, output string) error {
	if s.Output == output {
		return nil
	}
	is := "is " + string(s.State)
	if has := s.Answer(); has != nil {
		is = "was " + has.String()
	}
	return task.Errorf(workflow.CodeStepNotWaiting, "step %s waits for no answer: it %s", s.ID, is)
}

// approvalsOf lists the steps of a run that wait for approvals, or will.
func approvalsOf(run Run) string {
	var ids []string
	for _, s := range run.Steps {
		if s.Wait != nil && s.Wait.Approval != nil {
			ids = append(ids, s.ID)
		}
	}
	if len(ids) == 0 {
		return ""
	}
	return ": it has " + strings.Join(ids, ", ")
}
