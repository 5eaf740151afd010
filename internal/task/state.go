package task

// State is the state of a task.
type State string

// The states of a task. None stands for a task that does not exist: it is not created yet, or it has expired.
const (
	None      State = ""
	Scheduled State = "scheduled" // waits for its first run or its next attempt, until it is due and its queue has room; the attempt number says which
	Queued    State = "queued"    // claimed by a leader and handed to asynq
	Running   State = "running"   // begun by a worker
	Succeeded State = "succeeded"
	Failed    State = "failed" // and no further attempt is made: a dead letter
	Cancelled State = "cancelled"
	// Unreadable stands for a state that Redis has and nobody can read. No task is in it.
	Unreadable State = "unreadable"
)

// States lists every state of an existing task, in the order in which a task passes through them. None is not among them.
var States = []State{Scheduled, Queued, Running, Succeeded, Failed, Cancelled}

// Final reports whether the task has ended: it does not run again unless a client retries it.
func (s State) Final() bool {
	switch s {
	case Succeeded, Failed, Cancelled:
		return true
	}
	return false
}

// Valid reports whether s is the state of an existing task, one of States.
func (s State) Valid() bool {
	for _, known := range States {
		if s == known {
			return true
		}
	}
	return false
}

// Action is something that can happen to a task. It leads from one state to another, or to the same one.
type Action string

// The actions. Each is one atomic step of a Lua script.
const (
	ActCreate    Action = "create"    // a client submits the task, or a schedule creates it
	ActChange    Action = "change"    // a client changes the due time, the queue or the payload
	ActClaim     Action = "claim"     // the leader takes the due task for its queue
	ActTakeBack  Action = "take_back" // the leader takes a claimed task back that it has not handed over
	ActBegin     Action = "begin"     // a worker begins the claimed attempt
	ActReport    Action = "report"    // progress, a log line or a checkpoint of the running attempt is recorded
	ActSucceed   Action = "succeed"   // the attempt succeeded
	ActReattempt Action = "reattempt" // the attempt did not succeed, and another one is allowed
	ActFail      Action = "fail"      // the attempt did not succeed, and no other one is allowed
	// ActCancel is that a client or a schedule cancels the task, or that nobody has begun it in time. A running attempt is
	// asked to stop.
	ActCancel Action = "cancel"
	ActMove   Action = "move"   // a client asks the worker of the running attempt to give it up
	ActStop   Action = "stop"   // a running attempt ended because it was asked to stop
	ActRetry  Action = "retry"  // a client runs a task in a final state again
	ActExpire Action = "expire" // the retention is over and the task is deleted
)

// Actions lists every action, in the order in which docs/state-machine.md shows them.
var Actions = []Action{
	ActCreate, ActChange, ActClaim, ActTakeBack, ActBegin, ActReport, ActSucceed, ActReattempt, ActFail, ActCancel, ActMove,
	ActStop, ActRetry, ActExpire,
}

// The ends of an attempt are accepted for a queued task, too: it may be that Redis has lost the begin of the attempt.
//
// transitions maps an action and the state before it to the state after it. An action that has no entry for a state is
// refused or changes nothing. docs/state-machine.md is generated from this table.
var transitions = map[Action]map[State]State{
	ActCreate:    {None: Scheduled},
	ActChange:    {Scheduled: Scheduled, Queued: Scheduled},
	ActClaim:     {Scheduled: Queued},
	ActTakeBack:  {Queued: Scheduled},
	ActBegin:     {Queued: Running},
	ActReport:    {Running: Running},
	ActSucceed:   {Queued: Succeeded, Running: Succeeded},
	ActReattempt: {Queued: Scheduled, Running: Scheduled},
	ActFail:      {Queued: Failed, Running: Failed},
	ActCancel:    {Scheduled: Cancelled, Queued: Cancelled, Running: Running},
	ActMove:      {Running: Running},
	ActStop:      {Queued: Cancelled, Running: Cancelled},
	ActRetry:     {Succeeded: Scheduled, Failed: Scheduled, Cancelled: Scheduled},
	ActExpire:    {Succeeded: None, Failed: None, Cancelled: None},
}

// Next returns the state to which the action leads from the given state. ok is false if the action is refused in that
// state.
func Next(from State, action Action) (to State, ok bool) {
	to, ok = transitions[action][from]
	return to, ok
}
