package limits

import "fmt"

// What is what happens.
type What uint8

// What can happen.
const (
	Calls     What = iota // a leader calls a script and gets the reply
	Ends                  // the attempt of a live task ends
	Runs                  // the same, and the task waits again
	Reports               // after a failover: a worker says that it runs a task that Redis takes for waiting
	Expires               // time passes: the lease of a partition ends
	Refills               // time passes: a token comes
	Fades                 // time passes: the home forgets that a partition waits, which has not asked again
	QuietEnds             // time passes: after a failover, work starts again
	Dies                  // a leader dies, and another process starts in its place
	Cancels               // a client cancels a task that waits
	Silences              // the server of the first partition becomes silent
	Sets                  // somebody changes the slots of a limit
	Sends                 // a copy of a call is on its way: the reply to it will be lost, it arrives twice, or late
	Arrives               // the copy arrives; nobody gets the reply
	Lags                  // the replica begins to lag
	FailsOver             // the primary dies, and the replica is Redis now
)

// Event is something that can happen in a state.
type Event struct {
	What   What
	Call   Call  // of Calls and Sends; of other events, the partition, limit and task that they are about
	Leader uint8 // of Calls, Sends and Dies
	Slots  uint8 // of Sets
}

// byItself reports whether an event happens without a fault, and without a person.
func (e Event) byItself() bool { return e.What < Dies }

func (e Event) String() string {
	c := e.Call
	partition := fmt.Sprintf("partition %d", c.Partition+1)
	leader := fmt.Sprintf("leader %d.%d", c.Partition+1, e.Leader+1)
	task := fmt.Sprintf("task %d of %s", c.Task+1, partition)
	return map[What]string{
		Calls:     leader + " calls " + c.String(),
		Ends:      task + " ends",
		Runs:      "the attempt of " + task + " ends, and it waits for the next one",
		Reports:   "the worker of " + task + " reports",
		Expires:   "the lease of " + partition + " ends",
		Refills:   "a token comes",
		Fades:     "the home forgets that " + partition + " waits",
		QuietEnds: "work starts again",
		Dies:      leader + " dies",
		Cancels:   "a client cancels " + task,
		Silences:  "the server of partition 1 becomes silent",
		Sets:      fmt.Sprintf("somebody sets limit %d to %d slots", c.Limit+1, e.Slots),
		Sends:     leader + " sends a copy of " + c.String() + ", which is delayed",
		Arrives:   "the copy arrives",
		Lags:      "the replica begins to lag",
		FailsOver: "the primary dies, and what the replica lacks is lost",
	}[e.What]
}

func (c Call) String() string {
	grant := c.Grants[c.Limit]
	limit := fmt.Sprintf("%s of limit %d", c.Script, c.Limit+1)
	switch c.Script {
	case Recount:
		return limit
	case Settle:
		return fmt.Sprintf("%s, version %d: has %d, wants %d, at least %d",
			limit, grant.Version, grant.Count, c.Want, c.Least)
	case Claim:
		return fmt.Sprintf("claim, with %d granted to version %d", grant.Count, grant.Version)
	}
	return c.Script.String()
}

// events returns everything that can happen in a state.
//
//go:norace
func (m *Model) events(s *State) []Event {
	all := m.requests(s)
	for _, e := range all {
		if m.Copies && s.Copy.Script == NoScript && e.Call.Script != Acquire {
			e.What = Sends
			all = append(all, e)
		}
	}
	startsNothing := s.Copy.Want == 0 && s.Copy.Script != Claim
	if s.Copy.Script != NoScript && !s.isSilent(int(s.Copy.Partition)) && (!s.Quiet || startsNothing) {
		all = append(all, Event{What: Arrives})
	}
	for p := range m.Partitions {
		if !s.isSilent(p) {
			all = append(all, m.work(s, uint8(p))...)
		}
		all = append(all, m.leadership(s, uint8(p))...)
	}
	for l := range m.Limits {
		all = append(all, m.rules(s, uint8(l))...)
	}
	return append(all, m.failovers(s)...)
}

// work returns what can become of the tasks of a partition.
//
//go:norace
func (m *Model) work(s *State, p uint8) (all []Event) {
	for i := range m.Tasks {
		c := Call{Partition: p, Task: uint8(i)}
		works, state := s.Works[p][i], s.Redis.Partitions[p].Tasks[i].State
		if state == Live || works {
			all = append(all, Event{What: Ends, Call: c})
			if m.Again {
				all = append(all, Event{What: Runs, Call: c})
			}
		}
		if works && state == Waits {
			all = append(all, Event{What: Reports, Call: c})
		}
		if m.Cancels && !works && state == Waits {
			all = append(all, Event{What: Cancels, Call: c})
		}
	}
	return all
}

// leadership returns what can become of the leaders of a partition, and of its lease.
//
//go:norace
func (m *Model) leadership(s *State, p uint8) (all []Event) {
	partition := &s.Redis.Partitions[p]
	led := false
	for i := range m.leaders(int(p)) {
		leader := &s.Leaders[p][i]
		if leader.Fence != 0 && !m.Lives {
			all = append(all, Event{What: Dies, Call: Call{Partition: p}, Leader: uint8(i)})
		}
		led = led || leader.Fence != 0 && leader.Fence == partition.Fence
	}
	if partition.Fence != 0 && !partition.Free && (!led || m.Expires) {
		all = append(all, Event{What: Expires, Call: Call{Partition: p}})
	}
	asks := led && !partition.Free && !s.isSilent(int(p)) && partition.waiting(m.Tasks) > 0
	if !asks && m.has(LineFades) {
		all = append(all, m.fades(s, p)...)
	}
	return all
}

// fades returns the lines from which a partition can go that does not ask again.
//
//go:norace
func (m *Model) fades(s *State, p uint8) (all []Event) {
	for l := range m.Limits {
		if use := &s.Redis.Homes[l].Use[p]; use.Least > 0 || use.Start > 0 {
			all = append(all, Event{What: Fades, Call: Call{Partition: p, Limit: uint8(l)}})
		}
	}
	return all
}

// rules returns what can become of the rule of a limit, and of its tokens.
//
//go:norace
func (m *Model) rules(s *State, l uint8) (all []Event) {
	home := &s.Redis.Homes[l]
	for slots := uint8(1); m.Changes && int(slots) <= m.Slots; slots++ {
		if slots != home.Slots {
			all = append(all, Event{What: Sets, Call: Call{Limit: l}, Slots: slots})
		}
	}
	if int(home.Tokens) < m.Burst {
		all = append(all, Event{What: Refills, Call: Call{Limit: l}})
	}
	return all
}

// failovers returns what can become of a server of Redis.
//
//go:norace
func (m *Model) failovers(s *State) []Event {
	switch {
	case s.Quiet && m.canWork(s):
		return []Event{{What: QuietEnds}}
	case m.Silent && !s.Silent:
		return []Event{{What: Silences}}
	case m.Lag == 0 || s.Failed:
		return nil
	case s.Lag == 0:
		return []Event{{What: Lags}}
	case s.Lag > 1:
		return []Event{{What: FailsOver}}
	}
	return nil
}

// canWork reports whether work may start again after a failover: when some time has passed. With Prompt, nobody is
// slower: each worker has reported, and each partition has a leader that has told the home what it has since.
//
//go:norace
func (m *Model) canWork(s *State) bool {
	for p := 0; m.Prompt && p < m.Partitions; p++ {
		partition := &s.Redis.Partitions[p]
		if m.has(RecountFirst) && !m.hasTold(s, uint8(p)) {
			return false
		}
		for i := range m.Tasks {
			if s.Works[p][i] != (partition.Tasks[i].State == Live) {
				return false
			}
		}
	}
	return true
}

// hasTold reports whether a partition has a leader that has told the homes what the partition has.
//
//go:norace
func (m *Model) hasTold(s *State, p uint8) bool {
	partition := &s.Redis.Partitions[p]
	for i := range m.leaders(int(p)) {
		leader := &s.Leaders[p][i]
		isReady := leader.Fence != 0 && !partition.isStale(leader.Fence)
		for l := range m.Limits {
			isReady = isReady && leader.Limits[l].Phase == Ready && partition.holders() <= partition.Caps[l].Cap
		}
		if isReady {
			return true
		}
	}
	return false
}

// happen returns the state after an event, and the reply of the script if one ran.
//
//go:norace
func (m *Model) happen(before *State, e Event) (State, Reply) {
	s := *before
	c := e.Call
	var reply Reply
	switch e.What {
	case Calls:
		reply = m.execute(&s, c)
		m.answered(&s.Leaders[c.Partition][e.Leader], c, reply)
	case Arrives:
		c = s.Copy
		s.Copy = Call{}
		reply = m.execute(&s, c)
	case Sends:
		s.Copy = c
	case Dies:
		s.Leaders[c.Partition][e.Leader] = Leader{}
	case Lags:
		s.Replica, s.Lag = m.server(&s.Redis), 1
	case FailsOver:
		m.failOver(&s)
	case QuietEnds:
		s.Quiet = false
	case Silences:
		s.Silent = true
	default:
		m.pass(&s, e)
	}
	m.note(before, &s)
	return s, reply
}

// execute runs a script. A replica that would lag too far catches up.
//
//go:norace
func (m *Model) execute(s *State, c Call) Reply {
	before := s.Redis
	reply := m.run(s, c)
	if reply.Taken > 0 {
		s.Works[c.Partition][reply.Taken-1] = true
		for l := range m.Limits {
			if m.Burst > 0 {
				s.Spare[l] -= int8(s.Redis.Partitions[c.Partition].Cost)
			}
		}
	}
	m.lag(s, &before)
	return reply
}

// lag counts a write that the replica lacks.
//
//go:norace
func (m *Model) lag(s *State, before *Redis) {
	if s.Lag == 0 || m.server(before) == m.server(&s.Redis) {
		return
	}
	if s.Lag++; int(s.Lag)-1 > m.Lag {
		s.Replica, s.Lag = Redis{}, 0
	}
}

// pass has something happen to a task, a lease or a limit.
//
//go:norace
func (m *Model) pass(s *State, e Event) {
	before := s.Redis
	c := e.Call
	home, partition := &s.Redis.Homes[c.Limit], &s.Redis.Partitions[c.Partition]
	task := &partition.Tasks[c.Task]
	switch e.What {
	case Ends, Runs:
		m.endAttempt(s, c, e.What)
	case Reports:
		*task = Task{State: Live, Holds: true}
	case Cancels:
		task.State = Ended
	case Expires:
		partition.Free = true
	case Refills:
		home.Tokens++
	case Fades:
		home.forget(c.Partition)
	case Sets:
		home.Slots = e.Slots
	}
	m.lag(s, &before)
}

// endAttempt ends the attempt of a task. The script that does so frees its slot.
//
//go:norace
func (m *Model) endAttempt(s *State, c Call, what What) {
	task := &s.Redis.Partitions[c.Partition].Tasks[c.Task]
	held := task.Holds
	s.Works[c.Partition][c.Task] = false
	*task = Task{State: Ended}
	if what == Runs {
		task.State = Waits
	}
	if m.has(FreeWithEnd) {
		return
	}
	task.Holds = held
	for i := range s.Leaders[c.Partition] {
		if leader := &s.Leaders[c.Partition][i]; leader.Fence != 0 {
			leader.Heard |= 1 << c.Task
		}
	}
}

// server returns what the server has that may fail.
//
//go:norace
func (m *Model) server(r *Redis) Redis {
	var part Redis
	if m.Loses != ThePartition {
		part.Homes = r.Homes
	}
	if m.Loses != TheHome {
		part.Partitions[0] = r.Partitions[0]
	}
	if m.Loses == Everything {
		part.Partitions = r.Partitions
	}
	return part
}

// failOver makes the replica Redis. All leaders that it concerns hear of that before they make the next call.
//
//go:norace
func (m *Model) failOver(s *State) {
	lost := s.Replica
	if m.Loses != ThePartition {
		s.Redis.Homes = lost.Homes
	}
	if m.Loses != TheHome {
		s.Redis.Partitions[0] = lost.Partitions[0]
	}
	if m.Loses == Everything {
		s.Redis.Partitions = lost.Partitions
	}
	s.Replica, s.Lag, s.Failed, s.Quiet = Redis{}, 0, true, true
	for p := range m.Partitions {
		if !m.has(RecountFirst) || m.Loses == ThePartition && p > 0 {
			continue
		}
		for i := range m.leaders(p) {
			for l := range m.Limits {
				known := &s.Leaders[p][i].Limits[l]
				*known = Known{Version: known.Version}
			}
		}
	}
}
