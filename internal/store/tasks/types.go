package tasks

import (
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/index"
	"github.com/dts-sched/dts/internal/task"
)

// Created is the result of one submission. If Err is nil, Task is the task as it is now. Existed says that a task with
// the same name and content existed before. Deleted says that it has ended and was deleted since, and only its name is
// remembered. Task then has the definition, the state, and the times of its creation and its end. Once is for
// submissions with a key: their Task can be another one, and then Existed is true.
type Created struct {
	Task    task.Task
	Existed bool
	Deleted bool
	Once    Once
	Err     error
}

// Filter narrows a list. Namespace is required, "*" for all; other fields match every task if they are empty.
type Filter struct {
	Namespace string
	States    []task.State
	Queue     string
	Type      string
	Owner     string
	Node      string
	Schedule  string            // tasks that are ticks of this schedule
	Labels    map[string]string // the task has all of these; it may have others
	Error     string            // a part of the cause of the failure, in whatever case: see rollup.Shape
	Created   Span
	Due       Span
	Ended     Span
	Sort      index.Order
	Brief     bool `json:"-"` // the tasks are read without payloads, results and errors
	LastEnds  bool `json:"-"` // brief ones are read with how their newest attempt ended: see LastEnd
}

// Span is from Since until before Until. A zero time is no bound.
type Span struct{ Since, Until time.Time }

// UsualTime is which time of the tasks somebody means who does not say it: "ended" if all of the states are final,
// else "created".
func (f *Filter) UsualTime() string {
	if len(f.States) > 0 && !slices.ContainsFunc(f.States, func(s task.State) bool { return !s.Final() }) {
		return "ended"
	}
	return "created"
}

// Limit narrows the filter to tasks with a time in the span. by is created, due or ended; "" is UsualTime.
func (f *Filter) Limit(by string, s Span) {
	if by == "" {
		by = f.UsualTime()
	}
	switch by {
	case "created":
		f.Created = s
	case "due":
		f.Due = s
	case "ended":
		f.Ended = s
	}
}

// Page is a part of a list. NextCursor is "" on the last page. Missing says which tasks the list may lack; "" if it
// lacks none.
type Page struct {
	Tasks      []task.Task
	NextCursor string
	Missing    string
}

// NewDue is a new due time for a scheduled task. At most one field is set; if both are nil, the due time stays.
type NewDue struct {
	RunAt *time.Time
	Delay *time.Duration // from the time of Redis at the change
}
