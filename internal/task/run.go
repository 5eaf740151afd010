package task

import "strings"

const (
	// WorkflowType is the type of tasks that are runs of workflows. The leader of their partition carries them on; no
	// worker runs them.
	WorkflowType = "workflow"
	// WorkflowQueue is the queue of these tasks, which no client can name and which asynq does not have.
	WorkflowQueue = "@"
	// FlowRun is the token of such a run, in the place of that which a worker draws for an attempt.
	FlowRun = "#flow"

	// stepMark is between the id of a run of a workflow and that of a step, in the ids of the tasks of steps. No name
	// of a tick, a follow-up or a task with a key begins so.
	stepMark = "@."
	// StepRoom is by how much the id of the task of a step is longer than those of the run and of the step.
	StepRoom = len(stepMark)
)

// validateRun checks that a run of a workflow says nothing that only workers would do. Error: CodeInvalid.
func (d Definition) validateRun() error {
	if d.Type != WorkflowType {
		return nil
	}
	const ofSteps = "is for the tasks of steps, not for a run of a workflow: give it in the definition of the steps"
	again := d.Retry
	again.MaxAttempts = 0
	var errs []error
	for _, field := range []struct {
		name string
		is   bool
	}{
		{"queue", d.Queue != "" && d.Queue != WorkflowQueue},
		{"retry", !again.isDefault() || d.Retry.MaxAttempts > 1},
		{"start_by", d.StartBy != 0},
		{"priority", d.Priority != 0},
		{"fair_key", d.FairKey != ""},
		{"limit_key", d.LimitKey != ""},
		{"cost", d.Cost != 0},
		{"slots", strings.HasPrefix(d.Reach, ";;;")}, // the reach of a task that says nothing else
		{"select", d.Reach != ""},
	} {
		if field.is {
			errs = append(errs, Invalid(field.name, ofSteps))
		}
	}
	if d.Timeout != 0 {
		errs = append(errs, Invalid("timeout", "is for attempts of tasks: the deadline of the workflow bounds a run"))
	}
	return Join(errs...)
}

// Step returns the name of the task of a step of a run of a workflow. Both are in one partition.
func (r Ref) Step(id string) Ref {
	r.ID += stepMark + id
	return r
}

// Run returns the run of a workflow to which the task of a step belongs, and the id of the step. ok is false for other
// tasks.
func (r Ref) Run() (run Ref, step string, ok bool) {
	at := strings.LastIndex(r.ID, stepMark)
	if at <= 0 || strings.Contains(r.ID[at+1:], "@") {
		return Ref{}, "", false
	}
	return Ref{r.Namespace, r.ID[:at]}, r.ID[at+len(stepMark):], true
}
