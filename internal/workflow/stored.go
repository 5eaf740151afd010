package workflow

import (
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// Codes of errors about workflows.
const (
	CodeNotFound         task.Code = "workflow_not_found"          // the namespace has no workflow with this id
	CodeChanged          task.Code = "workflow_changed"            // its revision is not the expected one
	CodeRevisionNotFound task.Code = "workflow_revision_not_found" // it has no such revision any more
	CodeSignalGiven      task.Code = "signal_given"                // the run has the signal already, with other data
	CodeStepNotWaiting   task.Code = "step_not_waiting"            // the step of a run waits for no answer
)

// Stored is a workflow that was put under a name.
type Stored struct {
	Definition
	Revision  int       // from 1 on
	CreatedAt time.Time // when the first revision was put
	UpdatedAt time.Time // when this one was
	By        string    // who put it; "" if nobody knows
	PausedAt  time.Time // zero: it is not paused
	PausedBy  string
	PauseNote string
}

// Revision is an earlier definition of a workflow.
type Revision struct {
	Number     int
	From       time.Time // when it was put
	Definition Definition
	By         string
}
