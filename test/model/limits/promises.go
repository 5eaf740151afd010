package limits

// Promise is something that holds in every state, or of everything that happens.
type Promise uint8

// The promises.
const (
	Within   Promise = iota // live tasks need no more slots than there are
	Capped                  // in a partition, no more slots are held than its cap says
	Counted                 // the home counts at least the cap of each partition
	Shared                  // the home counts no more than there are slots
	Agrees                  // exactly the live tasks hold a slot
	InTurn                  // who waits longest gets the next free slot
	Paced                   // tasks that start need no more tokens than there were
	Once                    // a repeated call takes no tokens again
	Guarded                 // a stale leader changes nothing in its partition
	Finishes                // whatever has happened, all tasks can run and all numbers can come right without help
	Served                  // where nobody dies and all are fair, who waits for a slot gets one
)

func (p Promise) String() string {
	return [...]string{
		"live tasks need no more slots than there are",
		"in a partition, no more slots are held than its cap says",
		"the home counts at least the cap of each partition",
		"the home counts no more than there are slots",
		"exactly the live tasks hold a slot",
		"who waits longest gets the next free slot",
		"tasks that start need no more tokens than there were",
		"a repeated call takes no tokens again",
		"a stale leader changes nothing in its partition",
		"whatever has happened, all tasks can run and all numbers can come right without help",
		"where nobody dies and all are fair, who waits for a slot gets one",
	}[p]
}

// note keeps what somebody outside sees. A limit that was lowered holds when no counts from before stand any more.
//
//go:norace
func (m *Model) note(before, s *State) {
	for l := range m.Limits {
		home := &s.Redis.Homes[l]
		s.Bound[l] = max(home.Slots, min(before.Bound[l], home.sum()))
		if granted := before.Redis.Homes[l].Tokens; home.Tokens < granted && before.Failed == s.Failed {
			s.Spare[l] = min(s.Spare[l]+int8(granted-home.Tokens), maxSpare)
		}
	}
}

// maxSpare bounds the tokens that somebody outside counts. No size has more on their way.
const maxSpare = 8

// breaks returns the promises that are broken when an event leads from one state to the next. Finishes is not among
// them: it is about all states together.
//
//go:norace
func (m *Model) breaks(before *State, e Event, after *State) (broken []Promise) {
	note := func(p Promise, isBroken bool) {
		if isBroken {
			broken = append(broken, p)
		}
	}
	for l := range m.Limits {
		home := &after.Redis.Homes[l]
		note(Within, m.live(after) > after.Bound[l])
		note(Shared, home.sum() > after.Bound[l])
		note(Paced, m.Burst > 0 && after.Spare[l] < 0)
		for p := range m.Partitions {
			partition := &after.Redis.Partitions[p]
			note(Capped, partition.holders() > partition.Caps[l].Cap)
			note(Counted, partition.Caps[l].Cap > home.Use[p].Count)
		}
	}
	for p := range m.Partitions {
		for i := range m.Tasks {
			task := after.Redis.Partitions[p].Tasks[i]
			note(Agrees, task.Holds != (task.State == Live))
		}
	}
	note(InTurn, m.overtakes(before, e, after))
	note(Once, m.takesAgain(before, e, after))
	note(Guarded, changesAsStale(before, e, after))
	return broken
}

// live returns how many slots the tasks need that workers have, as somebody outside sees it.
//
//go:norace
func (m *Model) live(s *State) (n uint8) {
	for p := range m.Partitions {
		for i := range m.Tasks {
			if s.Works[p][i] {
				n += s.Redis.Partitions[p].Cost
			}
		}
	}
	return n
}

// overtakes reports whether a partition gets a slot that another one has waited for longer, or takes one though it
// knows that others wait, and the home has not granted it since.
//
//go:norace
func (m *Model) overtakes(before *State, e Event, after *State) bool {
	c := e.Call
	if e.What == Arrives {
		c = before.Copy
	}
	switch c.Script {
	case Settle:
		was, is := &before.Redis.Homes[c.Limit], &after.Redis.Homes[c.Limit]
		first := was.kept(c.Partition)
		grown := is.Use[c.Partition].Count > max(was.Use[c.Partition].Count, c.Grants[c.Limit].Count)
		return grown && is.sum()+first > is.Slots
	case Claim:
		started := after.Works[c.Partition] != before.Works[c.Partition]
		for l := range m.Limits {
			known := &before.Leaders[c.Partition][e.Leader].Limits[l]
			if e.What == Calls && started && known.Wanted && known.Count <= known.Cap {
				return true
			}
		}
	}
	return false
}

// takesAgain reports whether a call of a version that has tokens takes more.
//
//go:norace
func (m *Model) takesAgain(before *State, e Event, after *State) bool {
	c := e.Call
	if e.What == Arrives {
		c = before.Copy
	}
	was, is := &before.Redis.Homes[c.Limit], &after.Redis.Homes[c.Limit]
	use := was.Use[c.Partition]
	return c.Script == Settle && c.Grants[c.Limit].Version == use.Version && use.Tokens > 0 && is.Tokens < was.Tokens
}

// changesAsStale reports whether a script of a leader changes a partition that it leads no more.
//
//go:norace
func changesAsStale(before *State, e Event, after *State) bool {
	c := e.Call
	if e.What == Arrives {
		c = before.Copy
	}
	if e.What != Calls && e.What != Arrives || c.Script != Recount && c.Script != Claim {
		return false
	}
	was := &before.Redis.Partitions[c.Partition]
	return was.isStale(c.Fence) && *was != after.Redis.Partitions[c.Partition]
}

// finished reports whether all tasks have ended, and all numbers are as they should be. Where a server is silent, its
// tasks wait, and others may wait for slots that it uses.
//
//go:norace
func (m *Model) finished(s *State) bool {
	for p := range m.Partitions {
		for i := range m.Tasks {
			ended := s.Redis.Partitions[p].Tasks[i].State == Ended && !s.Works[p][i]
			if !ended && !s.isSilent(p) && !m.lacksSlots(s) && !m.isTooDear(s, p) {
				return false
			}
		}
	}
	for l := range m.Limits {
		home := &s.Redis.Homes[l]
		for p := range m.Partitions {
			partition := &s.Redis.Partitions[p]
			if partition.holders() > partition.Caps[l].Cap || partition.Caps[l].Cap > home.Use[p].Count {
				return false
			}
		}
		if home.sum() > home.Slots {
			return false
		}
	}
	return true
}

// isTooDear reports whether the tasks of a partition need more slots than a limit has.
//
//go:norace
func (m *Model) isTooDear(s *State, p int) bool {
	for l := range m.Limits {
		if s.Redis.Partitions[p].Cost > s.Redis.Homes[l].Slots {
			return true
		}
	}
	return false
}

// lacksSlots reports whether a partition whose server is silent uses all slots of a limit.
//
//go:norace
func (m *Model) lacksSlots(s *State) bool {
	for l := range m.Limits {
		if home := &s.Redis.Homes[l]; s.Silent && home.Use[0].Count >= home.Slots {
			return true
		}
	}
	return false
}
