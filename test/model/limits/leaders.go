package limits

// requests returns the calls that leaders may make now. What they know may be outdated, as others do not wait.
//
//go:norace
func (m *Model) requests(s *State) []Event {
	var all []Event
	for p := range m.Partitions {
		if s.isSilent(p) {
			continue
		}
		for i := range m.leaders(p) {
			for _, c := range m.calls(s, uint8(p), &s.Leaders[p][i]) {
				c.Partition = uint8(p)
				all = append(all, Event{What: Calls, Call: c, Leader: uint8(i)})
			}
		}
	}
	return all
}

// calls returns the calls that a leader may make.
//
//go:norace
func (m *Model) calls(s *State, p uint8, leader *Leader) []Call {
	if leader.Fence == 0 {
		if s.Redis.Partitions[p].Fence == 0 || s.Redis.Partitions[p].Free {
			return []Call{{Script: Acquire}}
		}
		return nil
	}
	all := m.secondCalls(s, p, leader)
	for l := range m.Limits {
		all = append(all, m.limitCalls(s, p, leader, uint8(l))...)
	}
	if m.mayClaim(s, p, leader) {
		c := Call{Script: Claim, Fence: leader.Fence}
		for l, known := range leader.Limits {
			c.Grants[l] = Grant{known.Version, known.Count, known.Tokens}
		}
		if !m.has(CapInRedis) {
			holders := s.Redis.Partitions[p].holders()
			c.Room = max(leader.Limits[0].Count, holders) - holders
		}
		all = append(all, c)
	}
	return all
}

// limitCalls returns the calls that a leader may make about a limit.
//
//go:norace
func (m *Model) limitCalls(s *State, p uint8, leader *Leader, l uint8) []Call {
	known := &leader.Limits[l]
	recount := Call{Script: Recount, Fence: leader.Fence, Limit: l}
	recount.Grants[l].Version = known.Version
	if known.Phase == MustCount {
		return []Call{recount}
	}
	settle := Call{Script: Settle, Limit: l}
	settle.Want, settle.Least = m.want(s, p, leader, l)
	settle.Tokens, settle.Start = m.wantTokens(s, p, known, l)
	settle.Grants[l] = Grant{Version: known.Version, Count: known.Cap}
	if known.Phase == MustTell {
		return []Call{settle}
	}
	partition := &s.Redis.Partitions[p]
	isBeyond := partition.holders() > known.Cap
	if isBeyond || m.has(GiveBack) && m.givesBack(partition, leader, l) {
		return []Call{settle, recount}
	}
	return []Call{settle}
}

// givesBack reports whether a leader gives back what is free of a limit: if nothing waits, or if others want it. What
// the home has granted it in turn, it keeps while it waits for the limits behind, but not for those before, and not if
// it is less than a task needs.
//
//go:norace
func (m *Model) givesBack(p *Partition, leader *Leader, l uint8) bool {
	known, holders := &leader.Limits[l], p.holders()
	if known.Count <= holders {
		return false
	}
	isKept := m.has(KeepGrant) && known.Count > known.Cap && known.Count >= holders+p.Cost &&
		!(m.has(InOrder) && leader.lacksBefore(l, holders+p.Cost))
	return p.waiting(m.Tasks) == 0 || known.Wanted && !isKept
}

// lacksBefore reports whether a leader has fewer slots than that of a limit that comes before the given one.
//
//go:norace
func (l *Leader) lacksBefore(limit, slots uint8) bool {
	for i := range limit {
		if known := &l.Limits[i]; known.Phase != Ready || known.Count < slots {
			return true
		}
	}
	return false
}

// want returns how many slots a leader asks the home for, if there is room in the limits before: those of each task
// that waits and has none. least is how many the next task needs.
//
//go:norace
func (m *Model) want(s *State, p uint8, leader *Leader, l uint8) (n, least uint8) {
	partition := &s.Redis.Partitions[p]
	holders, waiting := partition.holders(), partition.waiting(m.Tasks)*partition.Cost
	free := leader.Limits[l].Cap - min(leader.Limits[l].Cap, holders)
	if s.Quiet || waiting <= free || m.has(InOrder) && leader.lacksBefore(l, holders+partition.Cost) ||
		partition.Cost > s.Redis.Homes[l].Slots {
		return 0, 0
	}
	if !m.has(WholeTask) {
		return waiting - free, 1
	}
	return waiting - free, partition.Cost - free%partition.Cost
}

// wantTokens returns how many tokens a leader asks the home for: none while it has no slot.
//
//go:norace
func (m *Model) wantTokens(s *State, p uint8, known *Known, l uint8) (n, least uint8) {
	partition := &s.Redis.Partitions[p]
	waiting, has := partition.waiting(m.Tasks)*partition.Cost, partition.Caps[l].Tokens
	if m.Burst == 0 || s.Quiet || waiting <= has || known.Count < partition.holders()+partition.Cost {
		return 0, 0
	}
	if !m.has(WholeStart) {
		return waiting - has, 1
	}
	return waiting - has, partition.Cost - has%partition.Cost
}

// mayClaim reports whether a leader claims: if the home knows what it has, it has room, and either nobody else wants
// that, or the home has granted it though others do.
//
//go:norace
func (m *Model) mayClaim(s *State, p uint8, leader *Leader) bool {
	partition := &s.Redis.Partitions[p]
	if s.Quiet || partition.waiting(m.Tasks) == 0 {
		return false
	}
	for l := range m.Limits {
		known := &leader.Limits[l]
		hasRoom := known.Phase == Ready && known.Count >= partition.holders()+partition.Cost
		if !hasRoom || m.lacksTokens(partition, known, l) {
			return false
		}
		if m.has(AskAgain) && known.Wanted && known.Count <= known.Cap {
			return false
		}
	}
	return true
}

// lacksTokens reports whether no task can start for want of tokens.
//
//go:norace
func (m *Model) lacksTokens(p *Partition, known *Known, l int) bool {
	return m.Burst > 0 && known.Tokens+p.Caps[l].Tokens < p.Cost
}

// secondCalls returns the calls about tasks that a leader has heard of, where a guard is missing.
//
//go:norace
func (m *Model) secondCalls(s *State, p uint8, leader *Leader) (all []Call) {
	for i := range m.Tasks {
		if leader.Heard&(1<<i) == 0 {
			continue
		}
		c := Call{Script: Free, Task: uint8(i)}
		if s.Redis.Partitions[p].Tasks[i].State == Live {
			c.Script = Hold
		}
		all = append(all, c)
	}
	return all
}

// answered has a leader take a reply.
//
//go:norace
func (m *Model) answered(leader *Leader, c Call, reply Reply) {
	known := &leader.Limits[c.Limit]
	switch {
	case reply.Refused == Fenced:
		*leader = Leader{}
	case reply.Refused == Old:
		*known = Known{Version: reply.Version}
	case c.Script == Acquire:
		*leader = Leader{Fence: reply.Fence}
	case c.Script == Recount:
		limit := reply.Caps[c.Limit]
		*known = Known{Phase: MustTell, Version: limit.Version, Cap: limit.Cap, Count: limit.Cap}
	case c.Script == Settle:
		known.Phase, known.Count, known.Tokens, known.Wanted = Ready, reply.Count, reply.Tokens, reply.Wanted
	case c.Script == Claim:
		m.claimed(leader, reply)
	case c.Script == Hold, c.Script == Free:
		leader.Heard &^= 1 << c.Task
	}
}

// claimed has a leader take the reply to a claim.
//
//go:norace
func (m *Model) claimed(leader *Leader, reply Reply) {
	for l := range m.Limits {
		known, limit := &leader.Limits[l], reply.Caps[l]
		if known.Version != limit.Version { // the grant was used, or is out of date
			known.Version, known.Tokens = limit.Version, 0
		}
		known.Cap, known.Count = limit.Cap, limit.Cap
	}
	if reply.Taken > 0 && !m.has(HoldWithClaim) {
		leader.Heard |= 1 << (reply.Taken - 1)
	}
}
