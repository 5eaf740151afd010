package tasks

import (
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// Created is the answer to one submission. Err is a *task.Error; where it is nil, Task is the task, and
// Existed says that it was there before with the same content.
type Created struct {
	Task    task.Task
	Existed bool
	Err     error
}

// Filter narrows a list. Empty fields match everything, but for the namespace, which is always one.
type Filter struct {
	Namespace string
	States    []task.State
	Queue     string
	Type      string
	Owner     string
	Node      string
	Schedule  string // tasks that are ticks of this schedule
}

// Page is a part of a list. NextCursor is empty on the last one.
type Page struct {
	Tasks      []task.Task
	NextCursor string
}

// NewDue is a new due time for a task that waits. If both are nil, the time stays as it is; at most one is set.
type NewDue struct {
	RunAt *time.Time
	Delay *time.Duration // from now, by the time of Redis
}
