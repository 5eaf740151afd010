package control

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/workflow"
	"github.com/dts-sched/dts/internal/workflow/graph"
	"github.com/dts-sched/dts/internal/workflow/text"
)

const (
	// askPatience is for how long whoever asks something of a run waits for its leader to do it.
	askPatience = 2 * time.Second
	askPause    = 20 * time.Millisecond // between two looks meanwhile
)

// Run is a run of a workflow, with what became of its steps.
type Run struct {
	Task     task.Task // its own
	Workflow string    // the id of its workflow; "": its definition is part of it
	Revision int       // of its workflow; 0: it has not begun, or its definition is part of it
	Flow     *workflow.Flow
	Params   map[string]json.RawMessage // that it was given
	Run      workflow.Run
	Asked    []string // what somebody has asked of it, and its leader has not done yet
	// Waits says, as sentences, why a run that is due has not begun, or why a run whose deadline is over has not ended.
	// It is "" for any other run.
	Waits string
	Steps []RunStep
}

// RunStep is a step of a run.
type RunStep struct {
	workflow.Step
	workflow.StepRun
	Section string // steps, on_failure or finally
	// Task has no payload and no result; its error is that of its newest attempt. It is nil if it was not released, or
	// is not kept any more.
	Task *task.Task
	Why  string // it is where it is, as a sentence; "": its task says that
}

// FailureAllowed reports whether the step failed, and what needs it goes on nevertheless.
func (s RunStep) FailureAllowed() bool {
	return s.AllowFailure && s.State == workflow.State(workflow.Failed)
}

// SubmitRun is Submit for a run of a workflow, whose definition is that of a task of the type task.WorkflowType. With
// dry it is Preview. It warns of tasks of steps that may not run, unless the workflow was put. Errors: those of Submit;
// workflow.CodeNotFound.
func (c *Control) SubmitRun(ctx context.Context, who Caller, d task.Definition, dry bool) (Submitted, error) {
	submitted, err := c.submitOne(ctx, who, "submitRun", d, dry)
	if err != nil && task.CodeOf(err) != task.CodeInvalid {
		return submitted, err
	}
	start, unread := text.ParseStart(who.Namespace, d.Payload)
	switch {
	case unread != nil:
	case err == nil:
		submitted.Warnings = append(submitted.Warnings, c.stepWarnings(ctx, start.Definition)...)
	case start.Workflow != "":
		if _, missing := c.store.Workflows.Get(ctx, who.Ref(start.Workflow)); task.CodeOf(missing) == workflow.CodeNotFound {
			return submitted, missing
		}
	}
	return submitted, err
}

// GetRun returns a run of a workflow with its steps. Errors: CodeTaskNotFound; CodeNotARun for a task of another type;
// CodeUnreadable; CodeUnavailable.
func (c *Control) GetRun(ctx context.Context, who Caller, id string) (Run, error) {
	if _, err := c.begin(ctx, who, "getRun", who.Ref(id)); err != nil {
		return Run{}, err
	}
	return c.readRun(ctx, who.Ref(id))
}

// RunGraph returns the steps of a run as they are drawn. Errors: those of GetRun.
func (c *Control) RunGraph(ctx context.Context, who Caller, id string) ([]graph.Section, error) {
	if _, err := c.begin(ctx, who, "runGraph", who.Ref(id)); err != nil {
		return nil, err
	}
	run, err := c.readRun(ctx, who.Ref(id))
	return run.Sections(), err
}

// AuditRun checks a run against its definition, and returns what does not fit, as sentences. Errors: those of GetRun.
func (c *Control) AuditRun(ctx context.Context, who Caller, id string) (Run, []string, error) {
	if _, err := c.begin(ctx, who, "auditRun", who.Ref(id)); err != nil {
		return Run{}, nil, err
	}
	run, err := c.readRun(ctx, who.Ref(id))
	if err != nil {
		return run, nil, err
	}
	findings, err := c.audit(ctx, run)
	return run, findings, err
}

// CancelRun is CancelTask for a run of a workflow. Errors: those of GetRun and of CancelTask.
func (c *Control) CancelRun(ctx context.Context, who Caller, id, note string) (Run, error) {
	ref := who.Ref(id)
	if _, err := c.begin(ctx, who, "cancelRun", ref); err != nil {
		return Run{}, err
	}
	by, err := cancelledBy(who, note)
	if err != nil {
		return Run{}, err
	}
	if _, err := c.readRun(ctx, ref); err != nil {
		return Run{}, err
	}
	if _, err := c.cancel(ctx, by, ref); err != nil {
		return Run{}, err
	}
	return c.readRun(ctx, ref)
}

// PauseRun keeps a run from releasing steps, until somebody resumes it or it begins again. Its steps that run go on.
// Errors: those of GetRun, and CodeNotRunning.
func (c *Control) PauseRun(ctx context.Context, who Caller, id string) (Run, error) {
	return c.ask(ctx, who, "pauseRun", id, workflow.DoPause)
}

// ResumeRun ends the pause of a run: its leader releases steps again. Errors: as of PauseRun.
func (c *Control) ResumeRun(ctx context.Context, who Caller, id string) (Run, error) {
	return c.ask(ctx, who, "resumeRun", id, workflow.DoResume)
}

func (c *Control) ask(ctx context.Context, who Caller, operation, id string, do workflow.Do) (Run, error) {
	ref := who.Ref(id)
	if _, err := c.begin(ctx, who, operation, ref); err != nil {
		return Run{}, err
	}
	run, err := c.readRun(ctx, ref)
	if err != nil {
		return Run{}, err
	}
	if err := c.store.Tasks.AskRun(ctx, ref, workflow.Ask{Do: do}.Encode(run.Flow)); err != nil {
		return Run{}, err
	}
	return c.readAsked(ctx, ref)
}

// readAsked reads a run once its leader has done what was asked of it, or after askPatience.
func (c *Control) readAsked(ctx context.Context, ref task.Ref) (Run, error) {
	for since := clock.Now(); clock.Since(since) < askPatience; {
		asks, err := c.store.Partitions.At(c.store.PartitionOf(ref)).AsksOf(ctx, ref)
		if err != nil || asks == "" || clock.Sleep(ctx, askPause) != nil {
			break
		}
	}
	return c.readRun(ctx, ref)
}

// RerunRun begins the next attempt of a run that has ended. Its steps that failed or were cancelled run again, and all
// behind these; the others keep their ends. With steps, these run again instead of those that failed.
// ended is as of RetryTask. Errors: those of GetRun and of RetryTask; CodeInvalid for the steps.
func (c *Control) RerunRun(ctx context.Context, who Caller, id string, steps []string, ended time.Time) (Run, error) {
	ref := who.Ref(id)
	p, err := c.begin(ctx, who, "rerunRun", ref)
	if err != nil {
		return Run{}, err
	}
	defer p.leave()
	run, err := c.readRun(ctx, ref)
	if err != nil {
		return Run{}, err
	}
	ask := workflow.Ask{Do: workflow.DoRerun}
	for _, step := range steps {
		i, known := run.Flow.Index(step)
		if !known {
			return Run{}, task.Invalid("from", "the run has no step %q", step)
		}
		ask.Steps = append(ask.Steps, i)
	}
	if _, err := c.store.Tasks.RerunIn(ctx, ref, ask.Encode(run.Flow), ended); err != nil {
		return Run{}, err
	}
	return c.readRun(ctx, ref)
}

// refuseStep refuses to change the task of a step by itself, without its run. Error: CodeStep.
func refuseStep(ref task.Ref, instead string) error {
	run, step, is := ref.Run()
	if !is {
		return nil
	}
	const message = "task %q is step %s of a run of a workflow: %s"
	return task.Errorf(task.CodeStep, message, ref.ID, step, strings.ReplaceAll(instead, "RUN", run.ID))
}

// readRun reads a run. Errors: those of GetRun.
func (c *Control) readRun(ctx context.Context, ref task.Ref) (Run, error) {
	if err := task.ValidateRef(ref); err != nil {
		return Run{}, err
	}
	p := c.store.Partitions.At(c.store.PartitionOf(ref))
	reads, err := p.ReadRuns(ctx, partition.ReadRun{Ref: ref})
	if err != nil {
		return Run{}, err
	}
	read := reads[0]
	switch own := &read.Task; {
	case own.Type == "":
		return Run{}, c.whereToLook(ctx, ref, taskNotFound(ref))
	case own.Damage != "":
		return Run{}, task.Errorf(task.CodeUnreadable, "run %q cannot be read: %s (see dtsctl doctor)", ref.ID, own.Damage)
	case own.Type != task.WorkflowType:
		const message = "task %q is no run of a workflow: its type is %s (dtsctl task get %s)"
		return Run{}, task.Errorf(task.CodeNotARun, message, ref.ID, own.Type, ref.ID)
	}
	run, err := c.decodeRun(ctx, read)
	if task.CodeOf(err) == task.CodeUnavailable {
		return Run{}, err
	}
	if err != nil {
		return Run{}, task.Errorf(task.CodeUnreadable, "run %q cannot be read: %s", ref.ID, err)
	}
	c.noteOverdue(&run)
	return run, c.readSteps(ctx, &run)
}

// decodeRun reads what Redis has of a run. Its error says what is wrong; CodeUnavailable: Redis is.
func (c *Control) decodeRun(ctx context.Context, read partition.Run) (run Run, _ error) {
	start, err := text.ParseStart(read.Task.Namespace, read.Task.Payload)
	if err != nil {
		return run, err
	}
	run = Run{Task: read.Task, Workflow: start.Workflow, Params: start.Params}
	if read.Plan != "" {
		start.Definition, run.Revision, err = text.ParsePlan(read.Task.Namespace, read.Plan)
	}
	if err != nil {
		return run, err
	}
	for line := range strings.Lines(read.Asks) {
		run.Asked = append(run.Asked, workflow.Words(strings.TrimSuffix(line, "\n")))
	}
	switch {
	case run.Workflow == "":
	case read.Plan != "" && run.Task.State == task.Queued: // it is to begin again
		if _, err := c.waitsFor(ctx, &run); task.CodeOf(err) == task.CodeUnavailable {
			return run, err
		}
	case read.Plan == "":
		start.Definition, err = c.waitsFor(ctx, &run)
		switch code := task.CodeOf(err); {
		case code == workflow.CodeNotFound || code == task.CodeUnreadable: // its own task says what came of that
			run.Flow = workflow.Unknown()
			run.Run = workflow.NewRun(run.Flow)
			return run, nil
		case err != nil:
			return run, err
		}
	}
	if run.Flow, err = workflow.Compile(start.Definition); err != nil {
		return run, err
	}
	run.Run = workflow.NewRun(run.Flow)
	if read.Text != "" {
		run.Run, err = run.Flow.DecodeRun(read.Text)
	}
	return run, err
}

// readSteps reads the tasks of steps. Error: CodeUnavailable.
func (c *Control) readSteps(ctx context.Context, run *Run) error {
	var released []task.Ref
	for i, s := range run.Run.Steps {
		if s.Generation > 0 && run.Flow.HasTask(i) {
			released = append(released, run.Task.Step(run.Flow.StepID(i)))
		}
	}
	found, err := c.store.Tasks.ReadListed(ctx, TaskFilter{Brief: true, LastEnds: true}, released)
	if err != nil {
		return err
	}
	tasks := make(map[task.Ref]*task.Task, len(found))
	for i := range found {
		tasks[found[i].Ref] = &found[i]
	}
	isFull := c.releasesNothing(ctx, run)
	for i, s := range run.Run.Steps {
		step, in := run.Flow.Step(i)
		run.Steps = append(run.Steps, RunStep{
			Step: step, StepRun: s, Section: in, Task: tasks[run.Task.Step(step.ID)],
			Why: run.Flow.Why(run.Run, i, isFull),
		})
	}
	return nil
}

// releasesNothing reports whether the leader of a run releases no steps that wait, as Redis is almost full.
func (c *Control) releasesNothing(ctx context.Context, run *Run) bool {
	isBlocked := func(s workflow.StepRun) bool { return s.State == workflow.Blocked }
	return run.Task.State == task.Running && slices.ContainsFunc(run.Run.Steps, isBlocked) &&
		c.store.MemoryInUse(ctx, c.store.PartitionOf(run.Task.Ref)) > layout.AlmostFull
}

// audit is AuditRun for a run that was read. Error: CodeUnavailable.
func (c *Control) audit(ctx context.Context, run Run) ([]string, error) {
	if run.Flow.Len() == 0 { // nobody knows its workflow
		return nil, nil
	}
	var again []task.Ref
	for _, s := range run.Steps {
		if s.Task != nil && s.Task.Attempt > 1 {
			again = append(again, s.Task.Ref)
		}
	}
	earlier, err := c.store.Tasks.EarlierAttempts(ctx, again)
	if err != nil {
		return nil, err
	}
	var tasks []workflow.Task
	for i, s := range run.Steps {
		if t := s.Task; t != nil {
			tasks = append(tasks, workflow.Task{
				Step: i, State: t.State, Attempt: t.Attempt, Error: t.Error, Successes: successes(t, earlier[t.Ref]),
			})
		}
	}
	return workflow.Audit(run.Flow, run.Run, run.Task.State, tasks), nil
}

// successes counts which attempts before the newest one of a task have succeeded.
func successes(t *task.Task, earlier []task.Attempt) (n int) {
	for _, a := range earlier {
		if a.Number < t.Attempt && a.Outcome == task.OutcomeSucceeded {
			n++
		}
	}
	return n
}
