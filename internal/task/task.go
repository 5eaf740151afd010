// Package task holds DTS's nouns: the task and its definition, its states and the one table of transitions
// between them, attempts, events, the limits on what may be submitted, and the errors people meet.
package task

import (
	"encoding/json"
	"time"
)

// Ref names a task: its id is unique within its namespace.
type Ref struct {
	Namespace string
	ID        string
}

// String is "namespace:id", the form in which sorted sets and delivery ids hold a task.
// Neither part can contain a colon.
func (r Ref) String() string { return r.Namespace + ":" + r.ID }

// Definition is what a submitter asks for. Zero values mean the default (see defaults.go).
type Definition struct {
	Ref
	Type      string            // names the executor that runs it
	Queue     string            // the asynq queue it waits in once it is due
	Payload   json.RawMessage   // compact JSON, read by the executor only
	RunAt     time.Time         // when it is due; zero: Delay after it was created
	Delay     time.Duration     // whole ms
	Timeout   time.Duration     // of one attempt
	Retry     Retry             // how often, and after what delays, it is tried again
	Retention time.Duration     // how long it is kept after its end
	Owner     string            // whoever answers for it; free text
	Labels    map[string]string // free text, for people and tools
}

// Task is one unit of work with its state, as Redis holds it. Times are Redis's, in whole ms; a zero time
// has not come yet.
type Task struct {
	Definition
	State           State
	Attempt         int       // the number of the newest attempt; 0 before the first is claimed
	MaxAttempts     int       // the number of the last attempt that may be made; a retry by a client raises it
	DueAt           time.Time // when it is or was due: its first run or its next retry
	CreatedAt       time.Time
	QueuedAt        time.Time // of the newest attempt, as the next ones
	StartedAt       time.Time
	FinishedAt      time.Time // set in final states only
	CancelRequested time.Time // set while a running task is asked to stop
	Node            string    // the node that runs or ran the newest attempt
	Run             string    // the token of whoever began the newest attempt: only it may report
	Progress        int       // percent
	Result          string    // what the executor returned, cut at ResultLimit
	Error           string    // why the newest attempt did not succeed
}

// Outcome is how an attempt ended.
type Outcome string

// The outcomes of an attempt. Lost: the worker that ran it died, was cut off, or shut down before its end.
const (
	OutcomeSucceeded Outcome = "succeeded"
	OutcomeFailed    Outcome = "failed"
	OutcomeTimeout   Outcome = "timeout"
	OutcomeCancelled Outcome = "cancelled"
	OutcomeLost      Outcome = "lost"
)

// Attempt is one try of a task. One that still runs has no FinishedAt and no Outcome.
type Attempt struct {
	Number     int
	Node       string
	StartedAt  time.Time
	FinishedAt time.Time
	Outcome    Outcome
	Error      string
}

// LogLine is one line a task wrote while it ran.
type LogLine struct {
	Cursor  string // where the line stands in the log; give it back to read on from there
	Attempt int
	Stream  string // "stdout", "stderr", or "dts" for what DTS itself remarks
	At      time.Time
	Text    string
}

// Event tells that something happened to a task. Type is "task." and the state it entered, or one of
// task.updated, task.cancelling (a running one was asked to stop), task.progress and task.log.
type Event struct {
	Type     string
	Ref      Ref
	State    State
	Attempt  int
	Node     string
	At       time.Time
	Queue    string
	TaskType string
	Owner    string
	DueAt    time.Time // of task.scheduled and task.updated
	Progress int       // of task.progress
	Error    string    // why an attempt did not succeed, on events that end one
	Stream   string    // of task.log: see LogLine
	Text     string    // of task.log
}
