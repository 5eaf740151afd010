package dts

import (
	"encoding/json"
	"time"
)

// State is the state of a task.
type State string

// The states of a task, in the order in which it passes through them; it ends in one of the last three.
const (
	StateScheduled State = "scheduled" // waits for its time, of the first attempt or another one
	StateQueued    State = "queued"    // is due and waits for a worker
	StateRunning   State = "running"   // was begun by a worker
	StateSucceeded State = "succeeded"
	StateFailed    State = "failed" // and there is no further attempt
	StateCancelled State = "cancelled"
)

// StateUnreadable stands for a state that Redis has and nobody can read: see Damage of Task.
const StateUnreadable State = "unreadable"

// Final reports whether a task in that state has ended: it does not run again unless somebody retries it.
func (s State) Final() bool {
	return s == StateSucceeded || s == StateFailed || s == StateCancelled
}

// Submission is a task to run. Only Type is required.
type Submission struct {
	// ID names the task in its namespace: 1-200 of A-Z a-z 0-9 . _ -. Without one, DTS makes a ULID. Submitting the same
	// id with the same content again is harmless, and returns the task as it is.
	ID string
	// Type says what runs the task: the type that a worker handles, or one of dtsd's own, such as http.
	Type  string
	Queue string // in which it waits for a worker when it is due; "" means "default"
	// Payload becomes JSON of at most 256 KiB. A json.RawMessage is taken as it is; nil and an empty one mean {}.
	Payload any
	RunAt   time.Time     // when it is due; zero, or in the past: at once
	Delay   time.Duration // how long after the submission it is due; not together with RunAt
	// Timeout is how long one attempt may take, at most 7 days; 0 means 10 minutes, or 30 s for http and grpc.
	Timeout   time.Duration
	Retry     Retry
	Retention time.Duration     // how long it is kept after its end; 0 means 24 h, or 7 days if it failed
	Owner     string            // whoever answers for it; at most 200 bytes
	Labels    map[string]string // at most 32, names and values at most 200 bytes
	// StartBy is how long after it is due a worker may begin it; 0 for no bound. Begun by nobody until then, it ends as
	// cancelled, and its error says that it has expired.
	StartBy time.Duration
	OnEnd   *FollowUp // the task that follows this one; nil for none
	Once    *Once     // what becomes of it while there are tasks with the same key; nil: it has no key
	// Priority is 0 to 9, the most urgent. Among tasks of its queue and fair key that wait, each level counts as if the
	// task had been due 30 s earlier.
	Priority int
	// FairKey is whom the task is for, as a customer: 1-100 of A-Z a-z 0-9 . _ -. Tasks of a queue that wait are handed
	// over in turns by fair key.
	FairKey string
	// FairWeight is how many turns the fair key gets for one of another key, at most 100; 0 means 1. Tasks of one key
	// should name the same weight.
	FairWeight int
	// LimitKey is the keys under which limits count the task: one to three different ones, with commas between, as
	// "tenant-7,api-x". Each is 1-100 of A-Z a-z 0-9 . _ -.
	LimitKey string
	// Cost is how many slots the task needs of each of its limits, and how many tokens of each that has a rate, at most
	// 100; 0 means 1.
	Cost int
	// Slots is how many slots of its node the task holds while it runs, at most 100: it counts as so many tasks. 0 means
	// 1. Workers by HTTP run only tasks of one slot.
	Slots int
	// Select says on which nodes it may run, by their labels, as "zone in (eu,us),gpu,mem>=16": all terms hold of them.
	// "" is all nodes; docs/routing.md has the terms.
	Select string
	// Prefer says what is better about a node than about others, at most 8 preferences. Among the nodes with a free slot,
	// those come first for which the weights of the satisfied preferences have the greatest sum.
	Prefer []Preference
	// Route says to which of the nodes that may run it it goes.
	Route Route
}

// Once says what becomes of a submission while there are tasks with the same key. The id of its task is the key, "@k"
// and the ID of the submission.
type Once struct {
	Mode   OnceMode
	Key    string        // 1-100 of A-Z a-z 0-9 . _ -
	Wait   time.Duration // of OnceDebounce: how long nothing further may come before the task is due
	Max    time.Duration // of OnceDebounce: it is due that long after the first submission at the latest; 0: no limit
	Every  time.Duration // of OnceThrottle: at most one task is due in that time
	Excess Excess        // of OnceThrottle: what becomes of a further submission; "" means ExcessDrop

	// In the answer to a submission, and only there:
	Outcome OnceOutcome // what became of it
	Next    time.Time   // of OnceThrottle: when the next task may be due

	// In the answer to a submission, and in what Get returns:
	After string // the id of the task whose end this one waits for
}

// OnceMode is what Once does.
type OnceMode string

// The modes of Once.
const (
	OnceSingleton     OnceMode = "singleton"      // the answer is the task that has not ended
	OnceLatest        OnceMode = "latest"         // one task runs; one that waits becomes the new submission
	OnceDebounce      OnceMode = "debounce"       // the task that waits becomes the new submission, and is due later
	OnceThrottle      OnceMode = "throttle"       // at most one is due in a time
	OnceCancelRunning OnceMode = "cancel_running" // as OnceLatest, and the running task is asked to stop
)

// Excess is what becomes of a submission for which a throttle leaves no room.
type Excess string

// The values of Excess.
const (
	ExcessDrop  Excess = "drop"  // no task is created
	ExcessDelay Excess = "delay" // its task is due as soon as it may be
)

// OnceOutcome is what became of a submission with Once.
type OnceOutcome string

// The outcomes.
const (
	OnceCreated  OnceOutcome = "created"  // a task
	OnceDelayed  OnceOutcome = "delayed"  // a task, which waits for its turn or for the end of another one
	OnceReplaced OnceOutcome = "replaced" // the task of the answer waits, and has become the submission
	// OnceExisting: nothing. The task of the answer has not ended, or was created by the same submission.
	OnceExisting OnceOutcome = "existing"
	OnceSkipped  OnceOutcome = "skipped" // nothing: the task of the answer is the newest one of the key
)

// FollowUp is a task that follows the end of another one, once for each attempt with which that ends. Its id is that of
// the other task with "@e" and the attempt. At most 4 tasks can follow each other.
type FollowUp struct {
	When When
	// Task has neither an ID nor a RunAt. Its Delay begins with the end. With a nil Payload, that is the [Parent] as JSON,
	// else at most 16 KiB. Its Owner and its Labels are those of the task before, unless it has its own.
	Task Submission
}

// When says after which ends of a task its follow-up comes.
type When string

// After success, after failure, or after any end. A cancelled task has ended.
const (
	WhenSucceeded When = "succeeded"
	WhenFailed    When = "failed"
	WhenEnded     When = "ended"
)

// Parent is how a task ended that another one follows. It can be read from the payload of a follow-up that has none of
// its own.
type Parent struct {
	Namespace string `json:"namespace"`
	ID        string `json:"id"`
	Attempt   int    `json:"attempt"` // with which it ended; 0 if it was cancelled before the first one
	State     State  `json:"state"`
	Result    string `json:"result,omitempty"` // "" also if somebody retried the task before its follow-up was created
	Error     string `json:"error,omitempty"`  // in the same way
}

// Retry says how often a task is tried, and how long to wait in between. The zero value means 25 attempts with the
// default Backoff, and 4 for commands; the task of a tick is then not retried if another attempt could run into the
// next tick.
type Retry struct {
	MaxAttempts int // in all; 1 means at most once; 0: one more than there are Delays, or 25; 4 for commands
	// MaxElapsed: no further attempt is due longer than this after the first one was. 0: no limit, and 24 h while attempts
	// are snoozed.
	MaxElapsed time.Duration
	Backoff    Backoff         // used if there are no Delays
	Delays     []time.Duration // before attempt 2, 3, ...; the last one is repeated
}

// Backoff is how waits grow. Zero values mean the defaults.
type Backoff struct {
	Initial time.Duration // the wait before attempt 2; default 1 s
	Factor  float64       // how many times as long each further wait is, 1 to 100; default 2
	Max     time.Duration // the longest wait; default 1 h; 10 min for commands
	// Jitter is the share by which waits are longer or shorter at random, 0 to 1. nil: each is drawn from 0 to its full
	// length; 0.1 for commands. A wait that was asked for, as by [RetryAfter], is longer by up to this share, nil: 0.1.
	Jitter *float64
}

// Task is a task as DTS knows it. Times that have not come are zero.
type Task struct {
	ID          string
	Namespace   string
	Type        string
	Queue       string
	State       State
	Attempt     int // the number of the newest attempt; 0 before the first
	MaxAttempts int // the number of the last attempt that may be made

	Payload json.RawMessage
	Result  string // what the handler returned
	Error   string // why the newest attempt did not succeed

	RunAt             time.Time // when it is or was due; zero while it waits for the end of another task with its key
	CreatedAt         time.Time
	QueuedAt          time.Time       // when the newest attempt was handed to its queue
	StartedAt         time.Time       // when the newest attempt was begun
	FinishedAt        time.Time       // when the task ended
	CancelRequestedAt time.Time       // when it was asked to stop while it ran
	MoveRequestedAt   time.Time       // when it was asked to move to another worker, until that one has it
	MoveRequestedBy   string          // who asked; "" if nobody knows
	MoveTo            string          // the id or the name of the node to which it is to move; "" for any other one
	Node              string          // the node that runs or ran the newest attempt
	Progress          int             // percent
	ProgressNote      string          // what the attempt was at
	Checkpoint        json.RawMessage // that an attempt saved for those that follow; nil in lists

	Timeout   time.Duration // of one attempt
	Retry     Retry
	Retention time.Duration // 0: the default
	Owner     string
	Labels    map[string]string
	Schedule  string        // the schedule that created it; "": none did
	Tick      time.Time     // the time of the schedule for which it was created
	StartBy   time.Duration // how long after it was due it may begin; 0 for no bound
	OnEnd     *FollowUp     // the task that follows it; nil for none
	Parent    *Parent       // the task that it follows, as it ended; nil for none
	Once      *Once         // the key with which it was submitted; nil for none

	Priority   int
	FairKey    string // "" for none
	FairWeight int    // 0 means 1
	LimitKey   string // "" for none
	Cost       int    // 0 means 1
	Slots      int    // 0 means 1
	Select     string // "" for none
	Prefer     []Preference
	Route      Route
	// Warnings say why it waits or may not run: no living node serves its queue, or runs its type, or the queue is paused.
	Warnings []string
	// Damage says what of the task cannot be read in Redis: its definition, its state or its payload, so that it does not
	// run, or another part of it, as its checkpoint, without which its next attempt starts. "" if all can be read. The
	// other fields have what can be read; if the definition cannot, there is no Type.
	Damage string
}

// IdempotencyKey names the work for whoever does it: "<namespace>:<id>", the same for all attempts of the task.
func (t *Task) IdempotencyKey() string { return t.Namespace + ":" + t.ID }

// TaskChange is what to change of a task that waits. Nil fields and a nil Payload stay as they are.
type TaskChange struct {
	RunAt   *time.Time
	Delay   *time.Duration // from now; not together with RunAt
	Queue   *string
	Payload any

	Priority   *int
	FairKey    *string // another one has the weight 1, unless FairWeight names one; "" removes it
	FairWeight *int    // 1 to 100
	LimitKey   *string // "" removes it
	Cost       *int    // 1 to 100
	Slots      *int    // 1 to 100

	Select *string       // "" removes it
	Prefer *[]Preference // all of them; an empty one removes them
	Route  *Route        // the whole route; the zero value removes it
}

// Outcome is how an attempt ended.
type Outcome string

// The outcomes of attempts.
const (
	OutcomeSucceeded Outcome = "succeeded"
	OutcomeFailed    Outcome = "failed"
	OutcomeTimeout   Outcome = "timeout"
	OutcomeCancelled Outcome = "cancelled"
	OutcomeLost      Outcome = "lost" // its worker died or was cut off
	// OutcomeSnoozed: its handler, as by [Snooze], or its target asked to run later. The attempt does not count.
	OutcomeSnoozed     Outcome = "snoozed"
	OutcomeInterrupted Outcome = "interrupted" // its worker shut down: the attempt does not count
	OutcomeMoved       Outcome = "moved"       // its handler gave it up, as by [ErrMoved]: the attempt does not count
)

// Attempt is one try of a task.
type Attempt struct {
	Number     int // from 1
	Node       string
	StartedAt  time.Time
	FinishedAt time.Time
	Outcome    Outcome // "" while it runs
	Error      string
}

// LogLine is a line that a task wrote.
type LogLine struct {
	Attempt int
	Stream  string // stdout, stderr, or dts for what DTS itself remarks
	At      time.Time
	Text    string
}

// TaskFilter narrows a list of tasks or a stream of events. Zero fields match all; the others are joined by "and".
type TaskFilter struct {
	States   []State
	Queue    string
	Type     string
	Owner    string
	Node     string // that runs or ran the newest attempt
	Schedule string // that created the task
}
