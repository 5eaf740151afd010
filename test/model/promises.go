package model

// Promise is something that holds in every state, or of everything that happens.
type Promise uint8

// The promises. The numbers are those of the README, whose first four they spell out.
const (
	Kept         Promise = iota // 1: what was accepted is in Redis
	Ends                        // 1: whatever has happened, everything can end without further help
	Final                       // 1: what has ended stays as it ended
	OneTask                     // 1: a repeated submission or follow-up changes nothing
	OneTick                     // 2: the task of a tick is made once
	Recorded                    // 2: a tick has a task or a record that says why not
	BegunOnce                   // 3: an attempt begins once
	Heard                       // 3: only the run that began an attempt reports on it
	Limited                     // 3: a task makes max_attempts attempts at most
	Held                        // 3: no attempt is taken for lost while the word of its worker holds
	OneHolder                   // 3: a delivery that a worker holds is handed to nobody else
	Fenced                      // 4: a stale leader changes nothing
	Early                       // 5: nothing is claimed or decided before its time
	Followed                    // 1: each end, and nothing else, has its follow-up or owes it
	FollowedOnce                // 1: a follow-up is created once for each attempt with which a task ends
	ReleasedOnce                // 1: a step is released once in each generation
	Agreed                      // 1: a run ends as its steps say, and those as their tasks
	Reasoned                    // 1: no step has a task that was not released
	Asked                       // 1: an attempt of a run is cancelled only if somebody has asked for that
	numPromises
)

func (p Promise) String() string {
	return [...]string{
		"what was accepted is in Redis", "whatever has happened, everything can end without further help", "what has ended stays as it ended",
		"a repeated submission or follow-up changes nothing",
		"the task of a tick is made once", "a tick has a task or a record that says why not", "an attempt begins once",
		"only the run that began an attempt reports on it", "a task makes max_attempts attempts at most",
		"no attempt is taken for lost while the word of its worker holds", "a delivery that a worker holds is handed to nobody else",
		"a stale leader changes nothing", "nothing is claimed or decided before its time",
		"each end, and nothing else, has its follow-up or owes it",
		"a follow-up is created once for each attempt with which a task ends",
		"a step is released once in each generation", "a run ends as its steps say, and those as their tasks",
		"no step has a task that was not released",
		"an attempt of a run is cancelled only if somebody has asked for that",
	}[p]
}

// breaks returns the promises that are broken when an event leads from one state to the next. Ends is not among them: it is about
// all states together.
func (m *Model) breaks(before *State, e Event, reply Reply, after *State) []Promise {
	broken := m.brokenByState(before, after)
	switch e.What {
	case Calls:
		return append(broken, m.brokenByCall(before, e.Call, reply, after)...)
	case Arrives:
		return append(broken, m.brokenByCall(before, before.Copy, reply, after)...)
	}
	return broken
}

// noted is the promises of which each is broken if its condition holds.
type noted []Promise

func (n *noted) note(p Promise, isBroken bool) {
	if isBroken {
		*n = append(*n, p)
	}
}

// brokenByState returns the promises about states, and about what must not change.
//
//go:norace
func (m *Model) brokenByState(before, after *State) noted {
	var broken noted
	for i := range m.tasks() {
		was, is := &before.Redis.Tasks[i], &after.Redis.Tasks[i]
		broken.note(Kept, after.Seen.Accepted[i] && is.State == None && !is.Remembered)
		broken.note(Final, m.revived(was, is))
		broken.note(Limited, int(is.Attempt) > m.attempts())
		broken.note(Followed, m.Follow && (forgotten(was, is) && before.Failed == after.Failed || unfollowed(is)))
		for k := range is.Deliveries {
			broken.note(BegunOnce, after.Seen.Begun[i][k] > 1)
		}
	}
	if m.Steps > 0 {
		broken = append(broken, m.brokenByRun(before, after)...)
	}
	if m.Ticks > 0 {
		broken.note(Recorded, !m.ledgerHolds(before, after))
		broken.note(Early, after.Redis.Schedule.Cursor > after.Clock)
	}
	return broken
}

// unfollowed reports whether the end of a task neither has its follow-up nor owes it.
//
//go:norace
func unfollowed(t *Task) bool {
	return t.State.Final() && !t.Follow.Owed[t.Attempt].has(t.State) && !t.Follow.There[t.Attempt]
}

// forgotten reports whether an end of a task has left the outbox, and its follow-up is not there.
//
//go:norace
func forgotten(was, is *Task) bool {
	for attempt, owed := range was.Follow.Owed {
		if owed&^is.Follow.Owed[attempt] != 0 && !is.Follow.There[attempt] {
			return true
		}
	}
	return false
}

// revived reports whether a task has changed that had ended, though nobody deleted it or ran it again.
//
//go:norace
func (m *Model) revived(was, is *Task) bool {
	again := m.Retries && is.State == Scheduled
	return was.State.Final() && was.State != is.State && !is.Remembered && !again
}

// brokenByCall returns the promises about what a script did.
//
//go:norace
func (m *Model) brokenByCall(before *State, c Call, reply Reply, after *State) noted {
	var broken noted
	was, is := &before.Redis.Tasks[c.Task%maxTasks], &after.Redis.Tasks[c.Task%maxTasks]
	broken.note(Fenced, c.Script.ofLeader() && before.Redis.stale(c.Fence) && before.Redis != after.Redis)
	switch c.Script {
	case Create, Restore:
		broken.note(OneTask, remade(was, is, c))
	case Retry:
		broken = append(broken, brokenByRetry(before, c, was, is)...)
	case Forget:
		broken = append(broken, m.brokenByForget(was, reply)...)
	case FollowUp:
		broken = append(broken, brokenByFollowUp(before, c, was, reply)...)
	case Advance:
		broken = append(broken, m.brokenByAdvance(before, after)...)
	case Fire:
		broken.note(OneTick, m.madeAgain(before, after))
	case Claim, Enqueue:
		broken = append(broken, brokenByHandOver(c, was, is)...)
	case ReapScript:
		broken = append(broken, brokenByReap(before, c, was, is)...)
	case ExtendRuns, Finish:
		broken.note(Heard, reply.Refused == "" && !heard(before, c, was, is))
	}
	return broken
}

// brokenByHandOver returns the promises about a task, if it was claimed or enqueued.
//
//go:norace
func brokenByHandOver(c Call, was, is *Task) noted {
	var broken noted
	if c.Script == Claim {
		broken.note(Early, was.Place == Later && is.Place != Later)
		return broken
	}
	held := was.Deliveries[c.Attempt-1]
	broken.note(OneHolder, held.isHeld() && is.Deliveries[c.Attempt-1] != held)
	return broken
}

// remade reports whether a call has changed a task that was there, though it was to create it.
//
//go:norace
func remade(was, is *Task, c Call) bool { return was.State != None && *was != *is && !c.Child }

// brokenByFollowUp returns the promises about a follow-up, if it was created.
//
//go:norace
func brokenByFollowUp(before *State, c Call, was *Task, reply Reply) noted {
	var broken noted
	if reply.Created {
		broken.note(OneTask, was.Follow.There[c.Attempt])
		broken.note(Followed, !was.Follow.Owed[c.Attempt].has(c.To))
		broken.note(FollowedOnce, before.Seen.Followed[c.Task][c.Attempt])
	}
	return broken
}

// brokenByReap returns the promise about an attempt, if it was taken for lost.
//
//go:norace
func brokenByReap(before *State, c Call, was, is *Task) noted {
	var broken noted
	broken.note(Held, *was != *is && before.Seen.Word[c.Task])
	return broken
}

// brokenByRetry returns the promises about a task, if it was run again.
//
//go:norace
func brokenByRetry(before *State, c Call, was, is *Task) noted {
	var broken noted
	if *was != *is {
		broken.note(Final, was.Attempt != c.Attempt || was.State != c.To)
		broken.note(Held, !was.State.Final() && before.Seen.Word[c.Task])
	}
	return broken
}

// brokenByForget returns the promises about a task, if it was deleted.
//
//go:norace
func (m *Model) brokenByForget(was *Task, reply Reply) noted {
	var broken noted
	if reply.Deleted {
		broken.note(Kept, !was.State.Final())
		broken.note(Followed, m.Follow && (was.Follow.owes() || !was.Follow.There[was.Attempt]))
	}
	return broken
}

// madeAgain reports whether a task was made that was made before.
//
//go:norace
func (m *Model) madeAgain(before, after *State) bool {
	for i := range m.tasks() {
		if before.Seen.Made[i] && before.Redis.Tasks[i].State == None && after.Redis.Tasks[i].State != None {
			return true
		}
	}
	return false
}

// heard reports whether an accepted report comes from the run that began the attempt. If a failover has lost that it began, the report must be
// about the next attempt that would begin, and about the task for which the run began, not a later one of the same name. Then the run of a later
// attempt may also say that one has ended.
//
//go:norace
func heard(before *State, c Call, was, is *Task) bool {
	switch {
	case c.Instead:
		later := was.Later && c.Before
		return before.Failed && before.Seen.Begun[c.Task][c.Attempt] > 0 && !later
	case *was == *is: // it was reported before
		return before.Failed || !before.Seen.Reaped[c.Task][c.Attempt-1]
	case was.State == Running:
		return was.Attempt == c.Attempt && was.Run == c.Run
	case was.State == Queued && was.Attempt == c.Attempt:
		return c.Run == runForeign || lostBegin(before, c, was)
	case was.State == Scheduled && was.Attempt+1 == c.Attempt:
		return lostBegin(before, c, was)
	}
	return false
}

// lostBegin reports whether a run of a task had begun, and a failover has lost that.
func lostBegin(before *State, c Call, was *Task) bool {
	return before.Failed && before.Seen.Begun[c.Task][c.Attempt-1] > 0 && !(was.Later && c.Before)
}

// ledgerHolds reports whether the ledger of a state has what it must have, and what was recorded before. A task that was restored after a
// failover can come before its record.
//
//go:norace
func (m *Model) ledgerHolds(before, after *State) bool {
	g := &after.Redis.Schedule
	for i := range m.Ticks {
		outcome, made := g.Ledger[i], after.Redis.Tasks[i].State != None
		restored := made && after.Failed && (outcome == Undecided || outcome == Waits)
		if (outcome != Undecided) != (i < int(g.Cursor)) || (outcome == Fired) != made && !restored {
			return false
		}
		was := before.Redis.Schedule.Ledger[i]
		if was != outcome && was != Undecided && (was != Waits || outcome != Fired) && before.Failed == after.Failed {
			return false
		}
	}
	return true
}

// settled reports whether everything has ended: tasks, deliveries and ticks.
func (m *Model) settled(s *State) bool {
	for i := range m.tasks() {
		t := &s.Redis.Tasks[i]
		if t.State != None && !t.State.Final() && !m.waitsForSignal(s, i) {
			return false
		}
		if t.Follow.owes() || t.State.Final() && t.Follow.Marked {
			return false
		}
		for _, d := range t.Deliveries {
			if d.waits() || d.State == Active { // what is in no list is left to the doctor
				return false
			}
		}
	}
	if s.Redis.Told {
		return false
	}
	g := &s.Redis.Schedule
	return m.Ticks == 0 || g.Next > s.Clock && g.waits() == 0
}

// waitsForSignal reports whether a task is that of a run that waits for a signal, which nobody has to give.
func (m *Model) waitsForSignal(s *State, i int) bool {
	return m.Signals && m.isOwn(uint8(i)) && s.Redis.Tasks[i].State == Running && !s.Seen.Signaled
}

// Guard is a guard of the protocol, in words. The tests take one away at a time, to show that the search finds what it is for.
type Guard string

// The guards.
const (
	CreateOnce       Guard = "create compares with the task of that id"
	CreateRemembered Guard = "create leaves the name of a task that was deleted"
	ForgetEnded      Guard = "forget leaves a task that has not ended"
	ForgetOwing      Guard = "forget leaves a task that owes a follow-up"
	RetryEnded       Guard = "retry leaves a task that has not ended"
	RetrySameEnd     Guard = "retry leaves a task with another end than the caller means"
	ClaimFence       Guard = "claim compares the fence"
	ClaimDue         Guard = "claim leaves what is not due"
	LookFence        Guard = "look_after compares the fence"
	LookAtRuns       Guard = "look_after finds runs whose lease is over"
	LookAtDeliveries Guard = "look_after finds queued tasks that have waited long"
	TakeBackFence    Guard = "take_back compares the fence"
	TakeBackQueued   Guard = "take_back leaves what has begun"
	ReapFence        Guard = "reap compares the fence"
	ReapLease        Guard = "reap compares the lease of the run"
	ReapToken        Guard = "reap replaces the token of the run"
	Limit            Guard = "max_attempts is compared before another attempt"
	EnqueueOnce      Guard = "enqueue leaves what a worker holds, as a delivery is named after its attempt"
	EnqueueListed    Guard = "enqueue looks for a delivery that waits in the list"
	BeginAttempt     Guard = "begin compares the attempt"
	BeginRun         Guard = "begin compares the token of the run"
	ExtendRun        Guard = "extend_runs compares the token of the run"
	FinishRun        Guard = "finish compares the token of the run"
	ReclaimAttempt   Guard = "an attempt whose begin was lost must be the one for which the task is queued"
	ReclaimTask      Guard = "an attempt whose begin was lost must be of the same task, and not of a later one of its name"
	EndBeforeTask    Guard = "an attempt that must have ended is one of the same task, and not of a later one of its name"
	RestoreLost      Guard = "restore leaves a task that exists"
	FireExisting     Guard = "fire leaves a tick alone whose task exists"
	FireFence        Guard = "fire compares the fence"
	FireCursor       Guard = "fire compares the cursor"
	WakeSchedule     Guard = "the end of a task makes the schedule due of which a tick waits"
	Tending          Guard = "the leader of partition 0 tends the queues"
	EndOwes          Guard = "the script that ends a task writes it into the outbox"
	ClaimMarks       Guard = "a claim marks a task that has a follow-up"
	RestoreMarks     Guard = "restore marks a task that has a follow-up"
	FollowFence      Guard = "follow compares the fence"
	FollowListed     Guard = "follow leaves an end that the outbox does not have"
	FollowEarlier    Guard = "follow asks the outbox for an end, and not the task, which may have been run again since"
	FollowMissed     Guard = "a leader that does not find a task leaves its end in the outbox"
	FollowExisting   Guard = "follow leaves a follow-up that exists"
	FollowSettles    Guard = "follow removes the mark with the end that it follows up"
	FollowSameEnd    Guard = "follow leaves the mark of another end than the one that it follows up"
	AdvanceFence     Guard = "advance compares the fence"
	AdvanceCursor    Guard = "advance compares the cursor of the run"
	AdvanceStates    Guard = "advance compares the states of the tasks whose ends it takes from the outbox"
	AdvanceAttempts  Guard = "advance compares the attempts of the tasks whose ends it takes from the outbox"
	AdvanceRuns      Guard = "advance compares the runs of the tasks whose ends it takes from the outbox"
	AdvanceOwn       Guard = "advance compares the own task of the run"
	AdvanceAsked     Guard = "advance compares what was asked of the run"
	AdvanceTakes     Guard = "advance removes from the outbox only what the leader has read"
	AdvanceFrees     Guard = "the end of a run removes the marks of its steps"
	ReleaseExisting  Guard = "advance leaves the task of a step that is there"
	ReleaseTells     Guard = "advance tells again of a task that is there and has ended"
	CancelAttempt    Guard = "retry forgets that an attempt was to stop"
)
