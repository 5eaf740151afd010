package model

import (
	"fmt"

	"github.com/dts-sched/dts/lua"
)

// Script is one of DTS's scripts.
type Script uint8

// The scripts of the model.
const (
	NoScript Script = iota
	Create
	Forget
	Retry
	Cancel
	Signal
	AcquireLease
	RenewLease
	ReleaseLease
	Claim
	LookAfter
	TakeBackScript
	ReapScript
	FollowUp
	DueSchedules
	Fire
	Advance
	Enqueue
	Recall
	TendQueue
	Take
	GiveBack
	Extend
	Done
	Archive
	Begin
	ExtendRuns
	Finish
	Restore
	ReadTasks
	ReadOutbox
	ReadFlow
	ReadSteps
	numScripts
)

func (s Script) String() string {
	return [...]string{
		"", "create", "forget", "retry", "cancel", "ask_run", "acquire_lease", "renew_lease", "release_lease", "claim",
		"look_after", "take_back", "reap", "follow", "due_schedules", "fire", "advance", "enqueue", "recall",
		"tend_queue", "take", "give_back", "extend", "done", "archive", "begin", "extend_runs", "finish",
		"restore", "read_tasks", "read_outbox", "read_flow", "read_steps",
	}[s]
}

// ofQueue reports whether a script reads a delivery and nothing of a task.
func (s Script) ofQueue() bool { return s >= Enqueue && s <= Archive }

// ofLeader reports whether a script compares the fence of a leader.
func (s Script) ofLeader() bool { return s >= Claim && s <= Advance }

// ofTask reports whether a script reads a task.
func (s Script) ofTask() bool {
	return s >= Claim && s <= FollowUp || s >= Begin && s <= ReadOutbox || s >= Create && s <= Signal
}

// Call is a call of a script. What a script does not need is zero.
type Call struct {
	Script   Script
	Owner    uint8 // of acquire_lease: the leader, from 1; ofCopy if it has died
	Fence    ID
	Task     uint8 // of claim: noTask to leave all due tasks in the backlog
	Attempt  uint8
	Run      ID
	Claim    ID
	Before   bool // the claim was made before the failover
	Instead  bool // of finish: a run of a later attempt says that this one has ended, as nobody else does
	LeaseEnd ID
	To       TaskState
	Child    bool // of follow: a task follows the end; of restore: the task is the follow-up of the end with that attempt
	Plan     Plan
	Read     FlowRead // of read_steps and advance
}

const noTask = maxTasks

func (c Call) String() string {
	text := c.Script.String()
	switch {
	case c.Script == Fire:
		return fmt.Sprintf("%s (ticks %d to %d)", text, c.Plan.Cursor+1, c.Plan.Upto)
	case c.Script == Claim && c.Task == noTask:
		return text + " (no room)"
	case c.Script < Claim && c.Script > Signal, c.Script == LookAfter, c.Script == DueSchedules, c.Script == Advance,
		c.Script >= ReadFlow:
		return text
	}
	if c.Script == Restore && c.Child {
		return fmt.Sprintf("%s of the follow-up of task %d, attempt %d", text, c.Task+1, c.Attempt)
	}
	text += fmt.Sprintf(" of task %d", c.Task+1)
	if c.Attempt > 0 {
		text += fmt.Sprintf(", attempt %d", c.Attempt)
	}
	if c.To != None {
		text += ", as " + c.To.String()
	}
	if c.Script == FollowUp && !c.Child {
		text += ", by nothing"
	}
	return text
}

// Reply is what a script replies, as far as its caller uses it.
type Reply struct {
	Refused  lua.Code       // "" if it was not refused
	Fence    ID             // of acquire_lease
	Task     uint8          // of claim
	Attempt  uint8          // of claim; 0 if it claimed nothing. Of read_tasks and read_outbox
	State    TaskState      // of read_tasks and read_outbox
	Created  bool           // of follow
	Deleted  bool           // of forget
	Behind   bool           // of extend_runs and finish, which refuse: the newest attempt of the task is before that of the call
	Claim    ID             // of claim and begin
	Stopped  bool           // of begin and extend_runs: the task was asked to stop
	Recalled bool           // of recall
	Handled  bool           // of enqueue: a server of asynq has handled the delivery
	Run      ID             // of take: the token that the worker makes
	Taken    bool           // of take
	Found    [maxTasks]Hand // of look_after
	Cursor   uint8          // of due_schedules
	Planned  bool           // of due_schedules: the schedule is due
	Read     FlowRead       // of read_flow and read_steps
}
