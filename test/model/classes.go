package model

// Class is what steps have in common that take the same way through a script: the script, what it found in Redis, and its answer.
type Class struct {
	What               What
	Script             Script
	To                 TaskState
	State              TaskState // of the task before
	Place              Place
	Delivery           DeliveryState
	Refused, Changed   bool
	Bare               bool
	Fenced             bool
	Stale, Cancel      bool
	Over, Look         bool
	Attempt, Run       match // of the task, compared with those of the call
	Claim, LeaseEnd    match
	Marked, Owed       bool // Owed: the outbox has the end of the call of follow, or any end of the task of another call
	Child, There       bool // of follow and restore: the follow-up of the call, and whether it exists
	Remembered         bool
	Next, Later        bool // the call is about the attempt after that of the task, or the task was created after the claim of the call
	Unlisted           bool
	Stamp, Cursor      match // of the delivery, and of the schedule
	Room               bool  // another task waits on the wheel
	Live, Waits, Empty bool  // of a schedule: a task is live, a tick waits, and the plan is only about such
	Noted, Given       bool  // of the signal: it is noted, as a leader has read it or as it is, and the run has it
	Steps              [maxSteps]stepClass
}

// stepClass is what becomes of a step by advance. The state of Class is then that of the run's own task as it was read.
type stepClass struct {
	From, To StepState
	Told     TaskState
	Task     TaskState // in Redis
	Again    bool      // it was released before
	Stopping bool
}

// match says how an id or a number in Redis compares with that of a call.
type match uint8

// compare returns 0 if one of them is none, 1 if both are the same, and 2 if they differ.
func compare[N ID | uint8](inRedis, ofCall N) match {
	switch {
	case inRedis == 0 || ofCall == 0:
		return 0
	case inRedis == ofCall:
		return 1
	}
	return 2
}

// eachClass calls visit for the class of each step of a trace.
func (m *Model) eachClass(t Trace, visit func(Class)) {
	before := m.initial()
	for i := range t {
		visit(m.classOf(&before, t[i].Event, t[i].Reply, &t[i].After))
		before = t[i].After
	}
}

// classOf returns the class of a step.
//
//go:norace
func (m *Model) classOf(before *State, e Event, reply Reply, after *State) Class {
	c := e.Call
	switch e.What {
	case Calls:
	case Arrives:
		c = before.Copy
	case Sends, Dies, Lags, FailsOver, EndsWork, Deletes:
		return Class{What: e.What}
	default:
		c = Call{Task: e.Task, Attempt: e.Attempt}
	}
	class := Class{
		What: e.What, Script: c.Script, To: c.To, Refused: reply.Refused != "", Changed: before.Redis != after.Redis,
		Fenced: c.Script.ofLeader() && before.Redis.stale(c.Fence),
	}
	class.found(&before.Redis, c, m.Ticks > 0)
	if c.Script == Signal || c.Script == Retry {
		class.Noted, class.Given = before.Redis.Noted, before.Redis.Flow.Given
	}
	if c.Script == Advance {
		class.State, class.Owed, class.Cancel = c.Read.Own.State, c.Read.Told, c.Read.Own.Cancel
		class.Noted, class.Given = c.Read.Noted, c.Read.Flow.Given
		for i := range m.Steps {
			from, to := &before.Redis.Flow.Steps[i], &after.Redis.Flow.Steps[i]
			class.Steps[i] = stepClass{
				From: from.State, To: to.State, Told: c.Read.Steps[i].Told, Task: before.Redis.Tasks[i].State,
				Again: from.Generation > 0, Stopping: to.Stopping,
			}
		}
	}
	return class
}

// found notes what a script finds in Redis.
//
//go:norace
func (class *Class) found(r *Redis, c Call, ticks bool) {
	switch {
	case c.Script.ofQueue():
		d := r.Tasks[c.Task].Deliveries[max(c.Attempt, 1)-1]
		class.Delivery, class.Stale, class.Unlisted, class.Stamp = d.State, d.Stale, d.Unlisted, compare(d.Claim, c.Claim)
	case c.Script.ofTask() && c.Task != noTask:
		t := &r.Tasks[c.Task]
		class.State, class.Bare, class.Cancel, class.Over, class.Look = t.State, t.Bare, t.Cancel, t.Over, t.Look
		class.Place, class.Remembered = t.Place, t.Remembered
		class.Attempt, class.Run = compare(t.Attempt, c.Attempt), compare(t.Run, c.Run)
		class.Claim, class.LeaseEnd = compare(t.Claim, c.Claim), compare(t.LeaseEnd, c.LeaseEnd)
		class.Next, class.Later = t.Attempt+1 == c.Attempt, t.Later && c.Before
		class.Marked, class.Owed = t.Follow.Marked, t.Follow.owes()
		if c.Script == FollowUp {
			class.Owed = t.Follow.Owed[c.Attempt].has(c.To)
		}
		class.Child, class.There = c.Child, (c.Child || c.Script == FollowUp) && t.Follow.There[c.Attempt]
	}
	switch c.Script {
	case Claim:
		for i, other := range r.Tasks {
			class.Room = class.Room || i != int(c.Task) && other.Place == Due
		}
	case Fire, Finish, Cancel, ReapScript:
		if ticks {
			class.Cursor, class.Live, class.Waits = compare(r.Schedule.Cursor+1, c.Plan.Cursor+1), r.live(), r.Schedule.waits() > 0
			class.Empty = c.Plan.Cursor == c.Plan.Upto
		}
	}
}
