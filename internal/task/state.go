package task

// State is where a task stands.
type State string

// The states of a task. None stands for a task that does not exist: before it is created, after it expired.
const (
	None      State = ""
	Scheduled State = "scheduled" // waits on the wheel: first run or retry; the attempt number says which
	Queued    State = "queued"    // claimed by a leader and handed to asynq
	Running   State = "running"   // begun by a worker
	Succeeded State = "succeeded"
	Failed    State = "failed" // attempts used up: a dead letter
	Cancelled State = "cancelled"
)

// States lists every state a task can be in, in the order of its life.
var States = []State{Scheduled, Queued, Running, Succeeded, Failed, Cancelled}

// Final says whether the state is an end: nothing happens to the task any more unless somebody asks for it.
func (s State) Final() bool {
	switch s {
	case Succeeded, Failed, Cancelled:
		return true
	}
	return false
}

// Valid says whether s names a state.
func (s State) Valid() bool {
	for _, known := range States {
		if s == known {
			return true
		}
	}
	return false
}

// Trigger is what can happen to a task.
type Trigger string

// What can happen to a task. Each is done by one Lua script.
const (
	Create   Trigger = "create"  // somebody submits it
	Update   Trigger = "update"  // somebody changes its time, queue or payload
	Claim    Trigger = "claim"   // its leader takes it off the wheel: it is due
	Begin    Trigger = "begin"   // a worker starts the attempt that was claimed
	Report   Trigger = "report"  // progress or a log line of the running attempt
	Succeed  Trigger = "succeed" // the attempt ended well
	TryAgain Trigger = "retry"   // the attempt did not end well, another one is allowed
	Fail     Trigger = "fail"    // the attempt did not end well, it was the last one
	Cancel   Trigger = "cancel"  // somebody wants it not to run, or to stop
	Stop     Trigger = "stop"    // a running attempt ended because it was told to
	Rerun    Trigger = "rerun"   // somebody runs a finally ended task again
	Expire   Trigger = "expire"  // its retention is over
)

// Triggers lists everything that can happen to a task.
var Triggers = []Trigger{Create, Update, Claim, Begin, Report, Succeed, TryAgain, Fail, Cancel, Stop, Rerun, Expire}

// transitions is the one table: from which state what leads where. What is not in it is refused, and
// changes nothing. docs/state-machine.md is generated from it.
var transitions = map[Trigger]map[State]State{
	Create:   {None: Scheduled},
	Update:   {Scheduled: Scheduled},
	Claim:    {Scheduled: Queued},
	Begin:    {Queued: Running},
	Report:   {Running: Running},
	Succeed:  {Running: Succeeded},
	TryAgain: {Running: Scheduled},
	Fail:     {Running: Failed},
	Cancel:   {Scheduled: Cancelled, Queued: Cancelled, Running: Running},
	Stop:     {Running: Cancelled},
	Rerun:    {Succeeded: Scheduled, Failed: Scheduled, Cancelled: Scheduled},
	Expire:   {Succeeded: None, Failed: None, Cancelled: None},
}

// Next is the state that t leads to from s, and whether it may happen at all.
func Next(s State, t Trigger) (State, bool) {
	to, ok := transitions[t][s]
	return to, ok
}
