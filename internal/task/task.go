// Package task defines the types that all parts of DTS share: the task and its definition, its states and the table of
// transitions between them, attempts, deliveries, events, limits on submissions, and errors with codes.
package task

import (
	"encoding/json"
	"slices"
	"time"
)

// Ref identifies a task or a schedule: an id that is unique within a namespace.
type Ref struct {
	Namespace string
	ID        string
}

// String returns "namespace:id", as sorted sets and the ids of deliveries contain it. Neither part can contain a colon.
func (r Ref) String() string { return r.Namespace + ":" + r.ID }

// Definition is a task as it is submitted. Zero values mean the defaults (see defaults.go).
type Definition struct {
	Ref
	Type      string            // names the executor that runs it
	Queue     string            // the asynq queue in which a due task waits for a worker
	Payload   json.RawMessage   // compact JSON; only the executor reads it
	RunAt     time.Time         // when the task is due; zero: Delay after its creation
	Delay     time.Duration     // in whole ms; not together with RunAt
	Timeout   time.Duration     // of one attempt, in whole ms
	Retry     Retry             // the number of attempts, and the waits between them
	Retention time.Duration     // how long the task is kept after its end, in whole ms
	Owner     string            // who is responsible for the task; free text
	Labels    map[string]string // free text, for people and tools
	StartBy   time.Duration     // how long after it was due the first attempt may begin, in whole ms; 0 for no bound
	OnEnd     *FollowUp         // the task that follows this one; nil for none
	Parent    *Parent           // the task that this one follows, as it ended; nil for none. No client gives it
	Once      *Once             // what others with its key mean for it; nil: it has no key

	Priority   int    // 0 to PriorityLimit: how urgent the task is among those of its queue and fair key that wait
	FairKey    string // tasks of a queue with the same one share turns with those of other keys; "" for none
	FairWeight int    // how many turns the key gets for one of others; 0 for 1, which is normal
	LimitKey   string // the keys under which limits count it, with commas between: see LimitKeys; "" for none
	Cost       int    // how many slots and tokens it needs of each limit; 0 for 1, which is normal
	Reach      string // where it may run, as package route writes it; "" for any node
	RouteKey   string // by which its route chooses a node; "" for none

	// Trace is the traceparent (W3C) of the span that submitted the task, of which its attempts are children; "" for none.
	// It is no part of the content: the same submission within another trace is the same task.
	Trace string
}

// Task is a definition with its state. Times are in whole ms, and by the clock of Redis. A zero time means that the event has
// not happened yet.
type Task struct {
	Definition
	State           State
	Attempt         int       // the number of the newest attempt; 0 before the first is claimed
	MaxAttempts     int       // the number of the last attempt that may be made; a retry by a client raises it
	DueAt           time.Time // when the first or the next attempt is due, or was due
	FirstDueAt      time.Time // when the first attempt since the submission or the last retry was due; zero before it is claimed
	CreatedAt       time.Time
	Earlier         bool      // created before the present defaults of retries held in its installation: earlier ones apply
	QueuedAt        time.Time // when the newest attempt was claimed
	StartedAt       time.Time // when a worker began the newest attempt
	FinishedAt      time.Time // set in final states only
	CancelRequested time.Time // set while a running task is asked to stop
	// MoveRequested is set while a running task is asked to move to another worker, and while it then waits for one.
	MoveRequested time.Time
	MoveBy        string          // who asked; "" if nobody knows
	MoveTo        string          // the id or the name of the node to which it is to go; "" for any other one
	MovedFrom     string          // of a scheduled task: the node that has given it up, which does not get it next; "" for none
	Limits        []string        // of which a queued or running task holds a slot, or under which a scheduled one has waited
	Node          string          // the node that runs or ran the newest attempt
	Placed        string          // the node to which alone the newest attempt was handed over; "" for none
	Run           string          // the run token of the newest attempt; a report must carry it
	Progress      int             // 0 to 100 percent
	ProgressNote  string          // what the newest attempt is at, at most ProgressNoteLimit bytes
	Checkpoint    json.RawMessage // the newest one that an attempt saved, compact; nil if there is none, or it was not read
	Result        string          // the result from the executor, at most ResultLimit bytes
	Outcome       Outcome         // of the newest attempt, if the task ended with it
	After         string          // the id of the task with its key whose end it waits for; "" for none, and in lists
	Error         string          // why the newest attempt did not succeed, at most ErrorLimit bytes
	// Damage says what of the task cannot be read in Redis: its definition, its state or its payload, so that it does not run, or
	// another part of it, as its checkpoint. "" if all can be read. The other fields have what can be read; if the definition cannot,
	// there is no Type.
	Damage string
}

// Outcome is the result of an attempt.
type Outcome string

// The outcomes of an attempt. It is lost if its worker died, was cut off, or lost the attempt before the end. It is snoozed if its
// handler or target asked to run again later, interrupted if its worker shut down, and moved if its handler gave it up so that
// another worker goes on: those are not among the attempts of the retry policy.
const (
	OutcomeSucceeded   Outcome = "succeeded"
	OutcomeFailed      Outcome = "failed"
	OutcomeTimeout     Outcome = "timeout"
	OutcomeCancelled   Outcome = "cancelled"
	OutcomeLost        Outcome = "lost"
	OutcomeSnoozed     Outcome = "snoozed"
	OutcomeInterrupted Outcome = "interrupted"
	OutcomeMoved       Outcome = "moved"
)

// Outcomes lists every outcome.
var Outcomes = []Outcome{
	OutcomeSucceeded, OutcomeFailed, OutcomeTimeout, OutcomeCancelled, OutcomeLost, OutcomeSnoozed, OutcomeInterrupted,
	OutcomeMoved,
}

// Valid reports whether it is one of the outcomes.
func (o Outcome) Valid() bool { return slices.Contains(Outcomes, o) }

// AtOnce reports whether the next attempt waits for nothing: the task itself has not failed.
func (o Outcome) AtOnce() bool { return o == OutcomeLost || o == OutcomeInterrupted }

// Attempt is one attempt to run a task. A running attempt has no FinishedAt and no Outcome.
type Attempt struct {
	Number     int    // from 1
	Node       string // "" if Redis has lost which one
	StartedAt  time.Time
	FinishedAt time.Time
	Outcome    Outcome
	Error      string // why it did not succeed
}

// LogLine is one line of the log of a task.
type LogLine struct {
	Cursor  string // the position of the line; a reader passes it to read on behind the line
	Attempt int
	Stream  string // "stdout", "stderr", or "dts" for a line from DTS itself
	At      time.Time
	Text    string
}

// Event is a change of a task. Type is "task." followed by the new state, or one of task.updated, task.cancelling (a running
// task was asked to stop), task.moving (it was asked to move), task.progress and task.log.
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
	Note     string    // of task.progress
	Error    string    // why the attempt did not succeed, on events that end an attempt
	Stream   string    // of task.log: see LogLine
	Text     string    // of task.log
}
