package model

// The dimensions of a State. A Size says how much of it is used.
const (
	maxTasks    = 3 // and ticks
	maxSteps    = 2
	maxAttempts = 2
	maxLeaders  = 2
	maxWorkers  = 2
)

// TaskState is the state of a task, as in package task.
type TaskState uint8

// The states of a task.
const (
	None TaskState = iota
	Scheduled
	Queued
	Running
	Succeeded
	Failed
	Cancelled
)

// Final reports whether the task has ended.
func (s TaskState) Final() bool { return s >= Succeeded }

func (s TaskState) String() string {
	return [...]string{"none", "scheduled", "queued", "running", "succeeded", "failed", "cancelled"}[s]
}

// Place is where a scheduled task waits.
type Place uint8

// The places.
const (
	Nowhere Place = iota
	Later         // on the wheel, not due
	Due           // on the wheel, due
	Ready         // in the set of ready tasks of its queue
)

func (p Place) String() string { return [...]string{"nowhere", "later", "due", "ready"}[p] }

// DeliveryState is the state of a delivery in its queue.
type DeliveryState uint8

// The states of a delivery.
const (
	Gone DeliveryState = iota
	Pending
	Active
	Archived
)

func (s DeliveryState) String() string {
	return [...]string{"gone", "pending", "active", "archived"}[s]
}

// ID tells apart what is compared for equality only: claims and lease ends of a task, runs, and fences. 0 is none. An id that
// nobody has any more can be given again.
type ID uint8

// Runs that no worker has.
const (
	runFlow    ID = 12 // of a run of a workflow, which its leader carries on
	runUnknown ID = 13 // of an attempt that has ended, of which nobody knows how
	runLost    ID = 14 // what reap leaves of a run
	runForeign ID = 15 // of a delivery that a server of asynq has handled
)

// Delivery is the delivery of one attempt.
type Delivery struct {
	State    DeliveryState
	Claim    ID   // the stamp in its message
	Stale    bool // the lease of the worker that took it is about to end, or over
	Unlisted bool // it is pending, and missing in the list from which workers take
}

// isHeld reports whether a worker that lives, or that died a moment ago, has taken the delivery.
func (d Delivery) isHeld() bool { return d.State == Active && !d.Stale }

// waits reports whether a worker can take the delivery.
func (d Delivery) waits() bool { return d.State == Pending && !d.Unlisted }

// Task is what Redis has of a task. Each task has a queue of its own, so that their order plays no part.
type Task struct {
	State      TaskState
	Place      Place
	Bare       bool // it was never claimed, so that Redis has its definition and nothing else
	Attempt    uint8
	Run        ID
	Claim      ID   // while it is queued or running
	Cancel     bool // it is running and was asked to stop
	Look       bool // it is queued, and the leader must look after its delivery
	Over       bool // it is running, and the lease of the run is over
	LeaseEnd   ID   // it is running: when the lease of the run ends
	Later      bool // it was created after the failover
	Remembered bool // it was deleted, and its name is taken
	Deliveries [maxAttempts]Delivery
	Follow     Follow
}

// Follow is what Redis has of the follow-ups of a task.
type Follow struct {
	Marked bool                  // the state has the mark: the end owes a follow-up
	Owed   [maxAttempts + 1]ends // the ends that the outbox has, by the attempt with which the task ended
	There  [maxAttempts + 1]bool // the follow-ups that exist, by the same
}

// owes reports whether the outbox has an end of the task.
func (f *Follow) owes() bool { return f.Owed != [maxAttempts + 1]ends{} }

// oldest returns the attempt and the state of the oldest end in the outbox; None if there is none. A task that was run
// again can be cancelled before its next attempt. Then two ends have one attempt, and the cancellation is the later
// one.
func (f *Follow) oldest() (attempt uint8, state TaskState) {
	for attempt, owed := range f.Owed {
		for state := Succeeded; state <= Cancelled; state++ {
			if owed.has(state) {
				return uint8(attempt), state
			}
		}
	}
	return 0, None
}

// ends is a set of states in which a task has ended.
type ends uint8

func (e ends) has(state TaskState) bool { return e&(1<<state) != 0 }

func (e *ends) add(state TaskState) { *e |= 1 << state }

func (e *ends) remove(state TaskState) { *e &^= 1 << state }

// become gives the task another state, in place of all that it was but a task with these deliveries and follow-ups.
func (t *Task) become(next Task) {
	next.Deliveries, next.Later, next.Follow = t.Deliveries, t.Later, t.Follow
	*t = next
}

// Outcome is the record of a tick in the ledger.
type Outcome uint8

// The outcomes.
const (
	Undecided Outcome = iota
	Fired
	Waits // for the end of the task before it: queued, in the words of the ledger
	Skipped
)

func (o Outcome) String() string {
	return [...]string{"undecided", "fired", "queued", "skipped_overlap"}[o]
}

// Schedule is what Redis has of the schedule, whose tick k, from 1, makes task k-1. The ticks that wait are those that the ledger
// says so of, and the live tasks are those that have not ended.
type Schedule struct {
	Cursor uint8 // ticks up to it are decided
	Next   uint8 // when the leader plans the next ticks: at that tick; 0: at once
	Ledger [maxTasks]Outcome
}

// Lease is the lease of the partition.
type Lease struct {
	Newest ID    // the newest fence
	Free   bool  // it has ended
	Owner  uint8 // the leader, from 1, to whom it was given; if that one has died, ofCopy or 0
}

// ofCopy is a leader that has died and from which the copy is that is on its way.
const ofCopy = maxLeaders + 1

// StepState is what a run has of a step.
type StepState uint8

// The states of a step.
const (
	Blocked StepState = iota
	Open              // released, and not ended
	StepSucceeded
	StepFailed // or its task was cancelled
	Unreleased // and never will be: what it needs did not succeed, or the run was cancelled
)

// Final reports whether the step has a verdict.
func (s StepState) Final() bool { return s >= StepSucceeded }

// StepRun is what a run has of a step.
type StepRun struct {
	State      StepState
	Generation uint8  // how often it was released
	Stopping   bool   // its task was told to stop
	Result     Ending // of its task, if that has ended
}

// Ending is by which attempt and run a task has ended. Others have other results.
type Ending struct {
	Attempt uint8
	Run     ID
}

// Flow is the text of a run of a workflow, whose step k is task k. The task behind those is the run's own.
type Flow struct {
	Cursor    ID    // differs in all texts
	Attempt   uint8 // with which attempt of its own task the run has begun; 0: it has not
	Cancelled bool
	Given     bool // the run has the signal
	Steps     [maxSteps]StepRun
	Ended     bool
}

// Redis is what Redis has.
type Redis struct {
	Tasks    [maxTasks]Task
	Schedule Schedule
	Flow     Flow
	Told     bool // the outbox says that somebody has asked something of the run
	Noted    bool // the signal is noted, and no plan has given it to the run
	Lease    Lease
}

// stale reports whether a fence is not that of a lease that lasts.
func (r *Redis) stale(fence ID) bool { return r.Lease.Newest != fence || r.Lease.Free }

// Doing is what a leader is about to do with a task.
type Doing uint8

// What leaders do.
const (
	Nothing   Doing = iota
	HandOver        // it has claimed the task
	HandAgain       // it looks after the delivery
	TakeBack        // it has recalled the delivery
	End             // a server of asynq has handled the delivery
	Reap            // the lease of the run is over
	ReapCancelled
)

// Hand is what a leader is about to do with a task, and what it knows of it, which may be outdated.
type Hand struct {
	Doing    Doing
	Attempt  uint8
	Claim    ID
	Run      ID
	LeaseEnd ID
	Before   bool // the claim was made before the failover
}

// Plan is what a leader has planned for the ticks after Cursor, up to Upto.
type Plan struct {
	Made         bool
	Cursor, Upto uint8
}

// Parent is what a leader knows of a task whose end it follows up.
type Parent uint8

// What it knows.
const (
	Unread Parent = iota
	Exists
	Missed // it did not find the task
)

// Entry is an entry of the outbox that a leader has read. State is None if it has read none.
type Entry struct {
	State   TaskState
	Task    uint8
	Attempt uint8
	Parent  Parent
}

// Reading is how far a leader is with what it reads of a run.
type Reading uint8

// How far it is.
const (
	ReadNothing Reading = iota
	ReadRun             // the outbox, and not yet the run and the tasks
	ReadAll
)

// StepRead is what a leader has read of a step.
type StepRead struct {
	Told  TaskState // how its task has ended by the outbox; None: it has no entry
	With  uint8     // with which attempt
	State TaskState // of its task, if it has an entry
	End   Ending    // the same
}

// OwnRead is what a leader has read of the own task of a run.
type OwnRead struct {
	State  TaskState
	End    Ending
	Cancel bool
}

// FlowRead is what a leader has read of a run, which may be outdated.
type FlowRead struct {
	Reading Reading
	Flow    Flow
	Told    bool
	Noted   bool
	Own     OwnRead
	Steps   [maxSteps]StepRead
}

// Leader is a node that leads the partition, or believes so.
type Leader struct {
	Fence ID // 0 if it does not believe so
	Hands [maxTasks]Hand
	Plan  Plan
	Entry Entry
	Read  FlowRead
}

// Phase is how far a worker is with a delivery.
type Phase uint8

// The phases.
const (
	Idle  Phase = iota
	Taken       // it has the delivery, and begins
	Works       // it was told that the attempt has begun
	Ended       // its work has ended, and it reports
	Settles
)

// Missing is how far a worker is with a task that it does not find, or of which Redis shows an attempt before its own.
type Missing uint8

// What it does.
const (
	Found       Missing = iota
	Restores            // a failover may have lost the task, so the worker restores it
	Restored            // it tries again, once
	Reads               // a failover has lost how attempts before ended: it reads how far Redis is
	EndsBefore          // it ends the attempt before
	EndedBefore         // it tries again
)

// Worker is one slot of a worker. Each is on a node of its own.
type Worker struct {
	Phase   Phase
	Task    uint8
	Attempt uint8
	Run     ID
	Claim   ID        // of the attempt, once it has begun
	Before  bool      // the claim was made before the failover
	Stopped bool      // it knows that the task was asked to stop
	To      TaskState // how the attempt ended
	Missing Missing
	Earlier ID // the run of the attempt that it EndsBefore
}

// Witness is what somebody outside Redis has seen, which no failover takes back. The promises are about it.
type Witness struct {
	Accepted [maxTasks]bool                  // a client was told that the task is accepted
	Made     [maxTasks]bool                  // the task was created
	Begun    [maxTasks][maxAttempts]uint8    // how many runs were told that the attempt has begun, up to 2
	Reaped   [maxTasks][maxAttempts]bool     // the attempt was taken for lost
	Word     [maxTasks]bool                  // the word of the worker that runs the task holds
	Followed [maxTasks][maxAttempts + 1]bool // the follow-up of the end with that attempt was created
	Released [maxSteps]uint8                 // the last generation for which the task of the step was made, or run again
	Asked    uint8                           // the last attempt of the run that somebody has cancelled as it ran
	Signaled bool                            // a client was told that the run gets the signal
}

// State is one state of the whole.
type State struct {
	Redis   Redis
	Replica Redis // what the replica has while it lags; a failover makes it Redis
	Lag     uint8 // how many writes the replica lacks, plus 1; 0: it does not lag
	Failed  bool  // the failover has happened
	Clock   uint8 // ticks that have come
	Leaders [maxLeaders]Leader
	Workers [maxWorkers]Worker
	Copy    Call // a copy of a call that is on its way, and may arrive at any time
	Seen    Witness
}

// Overlap is the overlap policy of the schedule.
type Overlap uint8

// The policies.
const (
	Skip Overlap = iota
	Queue
)

// Size bounds a search.
type Size struct {
	Tasks    int // submitted by clients
	Ticks    int // of the schedule
	Overlap  Overlap
	Attempts int // max_attempts of every task
	Leaders  int
	Workers  int
	Cancels  bool // clients cancel tasks
	Forgets  bool // clients delete tasks that have ended
	Retries  bool // clients run tasks again that have ended, which then make one attempt more
	Deletes  bool // somebody deletes lists of deliveries that wait
	Backlog  bool // leaders leave due tasks in the backlog, and take back what they have claimed
	Copies   bool // replies are lost, and calls arrive late and twice
	Lag      int  // how many writes a failover loses at most; 0: there is none
	Early    bool // the failover loses everything since before the first claim
	Follow   bool // a task follows each end of every other one
	Steps    int  // of a run of a workflow, which clients cancel with Cancels, and run again with Retries
	Apart    bool // no step needs another one; else each needs the one before
	Signals  bool // the first step needs one that waits for a signal, which clients give
}

// tasks is how many tasks there can be.
func (z Size) tasks() int {
	if z.Steps > 0 {
		return z.Steps + 1
	}
	return max(z.Tasks, z.Ticks)
}

// isOwn reports whether a task is the own task of the run.
func (z Size) isOwn(task uint8) bool { return z.Steps > 0 && int(task) == z.Steps }

// marks reports whether the ends of tasks owe something.
func (z Size) marks() bool { return z.Follow || z.Steps > 0 }

// attempts is the highest number of an attempt that a task can make.
func (z Size) attempts() int {
	if z.Retries {
		return maxAttempts
	}
	return z.Attempts
}

// initial is the state in which a search begins: nothing was submitted, and nobody leads.
func (z Size) initial() State {
	s := State{Redis: Redis{Lease: Lease{Free: true}}}
	if z.Ticks > 0 {
		s.Redis.Schedule.Next = 1
	}
	if z.Steps > 0 {
		s.Redis.Tasks[z.Steps].created(&s, Due)
	}
	return s
}
