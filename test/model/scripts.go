package model

import "github.com/dts-sched/dts/lua"

// Model is the protocol. Some of its guards may be missing.
type Model struct {
	Size
	Without, Besides Guard
}

// has reports whether a guard is there.
func (m *Model) has(g Guard) bool { return m.Without != g && m.Besides != g }

// script is what one script does: it reads and writes Redis, and nothing else. Only the ids are shared by all.
type script func(m *Model, s *State, c Call) Reply

var scripts = [numScripts]script{
	Create: (*Model).create, Forget: (*Model).forget, Retry: (*Model).retry, Cancel: (*Model).cancel, Signal: (*Model).signal,
	AcquireLease: (*Model).acquireLease, RenewLease: (*Model).renewLease, ReleaseLease: (*Model).releaseLease,
	Claim: (*Model).claim, LookAfter: (*Model).lookAfter, TakeBackScript: (*Model).takeBack, ReapScript: (*Model).reap,
	DueSchedules: (*Model).dueSchedules, Fire: (*Model).fire, Advance: (*Model).advance,
	Enqueue: (*Model).enqueue, Recall: (*Model).recall, TendQueue: (*Model).tendQueue,
	Take: (*Model).take, GiveBack: (*Model).giveBack, Extend: (*Model).extend, Done: (*Model).done, Archive: (*Model).archive,
	Begin: (*Model).begin, ExtendRuns: (*Model).extendRuns, Finish: (*Model).finish, Restore: (*Model).restore,
	ReadTasks: (*Model).readTasks, ReadOutbox: (*Model).readOutbox, FollowUp: (*Model).followUp,
	ReadFlow: (*Model).readFlow, ReadSteps: (*Model).readSteps,
}

// run runs a script.
func (m *Model) run(s *State, c Call) Reply { return scripts[c.Script](m, s, c) }

func refused(code lua.Code) Reply { return Reply{Refused: code} }

func (m *Model) create(s *State, c Call) Reply {
	t := &s.Redis.Tasks[c.Task]
	if t.State != None && m.has(CreateOnce) || t.Remembered && m.has(CreateRemembered) {
		return Reply{} // it existed
	}
	t.created(s, Later)
	return Reply{}
}

// created makes a task, which waits in that place.
func (t *Task) created(s *State, place Place) {
	t.become(Task{State: Scheduled, Place: place, Bare: true})
	t.Later = s.Failed
}

// forget deletes a task that has ended and owes nothing. Its name stays taken.
func (m *Model) forget(s *State, c Call) Reply {
	t := &s.Redis.Tasks[c.Task]
	stays := !t.State.Final() && m.has(ForgetEnded) || t.Follow.Marked && m.has(ForgetOwing)
	if t.State == None || stays {
		return Reply{}
	}
	t.become(Task{Remembered: true})
	t.Follow.Marked = false
	return Reply{Deleted: true}
}

// retry has a task wait for a further attempt that has ended as the caller says. The outbox keeps that end.
func (m *Model) retry(s *State, c Call) Reply {
	t := &s.Redis.Tasks[c.Task]
	same := t.Attempt == c.Attempt && t.State == c.To
	switch {
	case t.State == None:
		return refused(lua.CodeNotFound)
	case !t.State.Final() && m.has(RetryEnded), !same && m.has(RetrySameEnd):
		return refused(lua.CodeState)
	}
	cancel := t.Cancel && !m.has(CancelAttempt)
	t.become(Task{State: Scheduled, Place: Later, Attempt: t.Attempt, Cancel: cancel})
	t.Follow.Marked = false
	return Reply{}
}

func (m *Model) cancel(s *State, c Call) Reply {
	t := &s.Redis.Tasks[c.Task]
	switch t.State {
	case None:
		return refused(lua.CodeNotFound)
	case Succeeded, Failed:
		return refused(lua.CodeState)
	}
	m.stop(s, t)
	if t.Run == runFlow && t.State == Running {
		s.Redis.Told = true // no worker runs it
	}
	return Reply{}
}

// stop has a task end that has not begun, and asks one that runs to stop.
func (m *Model) stop(s *State, t *Task) {
	switch t.State {
	case Running:
		t.Cancel = true
	case Scheduled, Queued:
		t.State, t.Place, t.Bare, t.Look, t.Claim = Cancelled, Nowhere, false, false, 0
		t.Follow.Marked = m.marks() && t != m.ownTask(s)
		m.owe(t)
		m.taskEnded(s)
	}
}

// acquireLease gives the lease to a leader. Its owner's name is not that of a leader that died before.
func (m *Model) acquireLease(s *State, c Call) Reply {
	l := &s.Redis.Lease
	if !l.Free && l.Owner == c.Owner && c.Owner != 0 {
		return Reply{Fence: l.Newest}
	}
	if !l.Free {
		return refused(lua.CodeHeld)
	}
	*l = Lease{Newest: s.freshFence(), Owner: c.Owner}
	return Reply{Fence: l.Newest}
}

func (m *Model) renewLease(s *State, c Call) Reply {
	if s.Redis.stale(c.Fence) {
		return refused(lua.CodeLost)
	}
	return Reply{}
}

func (m *Model) releaseLease(s *State, c Call) Reply {
	if s.Redis.Lease.Newest == c.Fence {
		s.Redis.Lease.Free = true
	}
	return Reply{}
}

// fenced reports whether another leader holds the lease, or none does, unless the guard is missing.
func (m *Model) fenced(s *State, c Call, g Guard) bool {
	return m.has(g) && s.Redis.stale(c.Fence)
}

func (m *Model) claim(s *State, c Call) Reply {
	if m.fenced(s, c, ClaimFence) {
		return refused(lua.CodeFenced)
	}
	var reply Reply
	for i := range s.Redis.Tasks {
		t := &s.Redis.Tasks[i]
		early := t.Place == Later && !m.has(ClaimDue)
		switch {
		case m.wants(c, uint8(i)) && reply.Attempt == 0 && (t.Place == Due || t.Place == Ready || early):
			t.State, t.Place, t.Bare, t.Attempt, t.Run, t.Claim = Queued, Nowhere, false, t.Attempt+1, 0, s.freshClaim(i)
			t.Follow.Marked = m.marks() && m.has(ClaimMarks) && !m.isOwn(uint8(i))
			reply.Task, reply.Attempt, reply.Claim = uint8(i), t.Attempt, t.Claim
		case t.Place == Due:
			t.Place = Ready // there is no room
		}
	}
	return reply
}

// wants reports whether a claim has room for a task. The tasks of a schedule share a queue; one of them is live at most.
func (m *Model) wants(c Call, task uint8) bool {
	return task == c.Task || m.Ticks > 0 && c.Task != noTask
}

func (m *Model) lookAfter(s *State, c Call) Reply {
	if m.fenced(s, c, LookFence) {
		return refused(lua.CodeFenced)
	}
	var reply Reply
	for i := range s.Redis.Tasks {
		t := &s.Redis.Tasks[i]
		switch {
		case t.State == Running && t.Over && m.has(LookAtRuns):
			t.Over, t.LeaseEnd = false, s.freshLeaseEnd(i)
			reply.Found[i] = Hand{Doing: Reap, Attempt: t.Attempt, Run: t.Run, LeaseEnd: t.LeaseEnd}
		case t.State == Queued && t.Look && m.has(LookAtDeliveries):
			t.Look = false
			reply.Found[i] = Hand{Doing: HandAgain, Attempt: t.Attempt, Claim: t.Claim}
		}
	}
	return reply
}

func (m *Model) takeBack(s *State, c Call) Reply {
	if m.fenced(s, c, TakeBackFence) {
		return refused(lua.CodeFenced)
	}
	t := &s.Redis.Tasks[c.Task]
	waits := t.State == Queued || t.State == Running && !m.has(TakeBackQueued)
	if waits && t.Attempt == c.Attempt {
		t.become(Task{State: Scheduled, Place: Ready, Attempt: t.Attempt - 1})
	}
	return Reply{}
}

// begun has a run of a queued task begin.
func (t *Task) begun(run, leaseEnd ID) {
	t.State, t.Run, t.Look, t.Over, t.LeaseEnd = Running, run, false, false, leaseEnd
}

func (m *Model) begin(s *State, c Call) Reply {
	t := &s.Redis.Tasks[c.Task]
	sameAttempt := t.Attempt == c.Attempt || !m.has(BeginAttempt)
	sameRun := t.Run == c.Run || !m.has(BeginRun)
	switch {
	case t.State == None:
		return refused(lua.CodeNotFound)
	case t.State == Queued && sameAttempt:
		t.begun(c.Run, s.freshLeaseEnd(int(c.Task)))
	case t.State != Queued && (t.State != Running || !sameRun):
		return refused(lua.CodeState)
	case !sameAttempt:
		return refused(lua.CodeStale)
	default:
		t.Over, t.LeaseEnd = false, s.freshLeaseEnd(int(c.Task))
	}
	return Reply{Claim: t.Claim, Stopped: t.Cancel}
}

// queuedAgain makes a task queued for an attempt that has begun though Redis has lost that, and with it the claim in some cases. It reports
// false if that cannot be: another run may have begun the attempt, or the task is a later one of the same name.
func (m *Model) queuedAgain(t *Task, c Call) bool {
	claimed := t.State == Queued && (t.Attempt == c.Attempt || !m.has(ReclaimAttempt))
	waits := t.State == Scheduled && t.Attempt+1 == c.Attempt
	if !claimed && !waits || t.Later && c.Before && m.has(ReclaimTask) {
		return false
	}
	if waits {
		t.become(Task{State: Queued, Attempt: c.Attempt, Claim: c.Claim})
		t.Follow.Marked = m.marks()
	}
	return true
}

// reported returns why a run cannot report on its attempt, "" if it can.
func (t *Task) reported(c Call, sameRun bool) lua.Code {
	behind := t.State == Scheduled && t.Attempt+1 < c.Attempt
	switch {
	case t.State == None:
		return lua.CodeNotFound
	case t.State != Running && t.State != Queued && !behind:
		return lua.CodeState
	case t.State != Running || t.Attempt != c.Attempt || !sameRun:
		return lua.CodeStale
	}
	return ""
}

// refusedReport refuses a report. The detail says whether Redis is behind.
func (t *Task) refusedReport(c Call, code lua.Code) Reply {
	return Reply{Refused: code, Behind: code == lua.CodeStale && t.Attempt < c.Attempt}
}

func (m *Model) extendRuns(s *State, c Call) Reply {
	t := &s.Redis.Tasks[c.Task]
	if m.queuedAgain(t, c) {
		t.begun(c.Run, s.freshLeaseEnd(int(c.Task)))
		return Reply{}
	}
	if code := t.reported(c, t.Run == c.Run || !m.has(ExtendRun)); code != "" {
		return t.refusedReport(c, code)
	}
	t.Over, t.LeaseEnd = false, s.freshLeaseEnd(int(c.Task))
	return Reply{Stopped: t.Cancel}
}

func (m *Model) finish(s *State, c Call) Reply {
	t := &s.Redis.Tasks[c.Task]
	if t.State == c.To && t.Attempt == c.Attempt && t.Run == c.Run {
		return Reply{} // it was reported before
	}
	if !m.queuedAgain(t, c) {
		if code := t.reported(c, t.Run == c.Run || !m.has(FinishRun)); code != "" {
			return t.refusedReport(c, code)
		}
		if t.Cancel && (c.To == Failed || c.To == Scheduled) {
			return refused(lua.CodeCancelled)
		}
	}
	m.endAttempt(s, c.Task, c.Run, c.To, Later)
	return Reply{}
}

// restore makes a task that Redis has lost, as it was when the attempt was claimed.
func (m *Model) restore(s *State, c Call) Reply {
	t := &s.Redis.Tasks[c.Task]
	switch {
	case c.Child:
		t.Follow.There[c.Attempt] = true
	case t.State == None || !m.has(RestoreLost):
		*t = Task{State: Queued, Attempt: c.Attempt, Claim: c.Claim, Deliveries: t.Deliveries, Follow: t.Follow}
		t.Follow.Marked = m.marks() && m.has(RestoreMarks)
	}
	return Reply{}
}

func (m *Model) readTasks(s *State, c Call) Reply {
	t := &s.Redis.Tasks[c.Task]
	return Reply{State: t.State, Attempt: t.Attempt}
}

func (m *Model) reap(s *State, c Call) Reply {
	t := &s.Redis.Tasks[c.Task]
	switch {
	case m.fenced(s, c, ReapFence):
		return refused(lua.CodeFenced)
	case t.State == None:
		return refused(lua.CodeNotFound)
	case t.State != Running:
		return refused(lua.CodeState)
	case t.Attempt != c.Attempt || t.Run != c.Run:
		return refused(lua.CodeStale)
	case !t.Over && t.LeaseEnd != c.LeaseEnd && m.has(ReapLease):
		return refused(lua.CodeHeld)
	case t.Cancel && c.To != Cancelled:
		return refused(lua.CodeCancelled)
	}
	run := runLost
	if !m.has(ReapToken) {
		run = t.Run
	}
	m.endAttempt(s, c.Task, run, c.To, Due)
	return Reply{}
}

// endAttempt ends the attempt of a queued or running task, which is in the state to from now on. If that is Scheduled, it waits in
// that place.
func (m *Model) endAttempt(s *State, task uint8, run ID, to TaskState, place Place) {
	t := &s.Redis.Tasks[task]
	t.become(Task{State: to, Attempt: t.Attempt, Run: run})
	if to == Scheduled {
		t.Place = place
		return
	}
	m.owe(t)
	m.taskEnded(s)
}

// owe writes the end of a task into the outbox if the task has the mark.
func (m *Model) owe(t *Task) {
	if t.Follow.Marked && m.has(EndOwes) {
		t.Follow.Owed[t.Attempt].add(t.State)
	}
}

// readOutbox reads the oldest entry of a task.
func (m *Model) readOutbox(s *State, c Call) Reply {
	attempt, state := s.Redis.Tasks[c.Task].Follow.oldest()
	return Reply{State: state, Attempt: attempt}
}

// followUp creates what follows an end, and removes the end from the outbox. The task may have been run again since.
func (m *Model) followUp(s *State, c Call) Reply {
	if m.fenced(s, c, FollowFence) {
		return refused(lua.CodeFenced)
	}
	t := &s.Redis.Tasks[c.Task]
	owed, same := &t.Follow.Owed[c.Attempt], t.State == c.To && t.Attempt == c.Attempt
	if !owed.has(c.To) && m.has(FollowListed) || !same && !m.has(FollowEarlier) {
		return Reply{}
	}
	if !c.Child && m.has(FollowMissed) {
		return Reply{}
	}
	there := &t.Follow.There[c.Attempt]
	creates := c.Child && !(*there && m.has(FollowExisting))
	*there = *there || creates
	owed.remove(c.To)
	if (same || !m.has(FollowSameEnd)) && m.has(FollowSettles) {
		t.Follow.Marked = false
	}
	return Reply{Created: creates}
}
