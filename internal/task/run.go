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
)

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
