package model

import "github.com/dts-sched/dts/lua"

// live reports whether the task of a tick has not ended.
func (r *Redis) live() bool {
	for _, t := range r.Tasks {
		if t.State != None && !t.State.Final() {
			return true
		}
	}
	return false
}

// waits returns the first tick that waits for the end of the task before it; 0 if none does.
func (g *Schedule) waits() uint8 {
	for i, outcome := range g.Ledger {
		if outcome == Waits {
			return uint8(i) + 1
		}
	}
	return 0
}

// taskEnded makes the schedule due if a tick waits and no task is live.
func (m *Model) taskEnded(s *State) {
	if m.Ticks > 0 && s.Redis.Schedule.waits() > 0 && !s.Redis.live() && m.has(WakeSchedule) {
		s.Redis.Schedule.Next = 0
	}
}

func (m *Model) dueSchedules(s *State, c Call) Reply {
	if m.fenced(s, c, LookFence) {
		return refused(lua.CodeFenced)
	}
	if g := s.Redis.Schedule; g.Next <= s.Clock {
		return Reply{Planned: true, Cursor: g.Cursor}
	}
	return Reply{}
}

func (m *Model) fire(s *State, c Call) Reply {
	if m.fenced(s, c, FireFence) {
		return refused(lua.CodeFenced)
	}
	r := &s.Redis
	g := &r.Schedule
	if g.Cursor != c.Plan.Cursor && m.has(FireCursor) {
		return refused(lua.CodeChanged)
	}
	for tick := g.waits(); tick > 0 && !r.live(); tick = g.waits() {
		m.startTick(s, tick)
	}
	for tick := c.Plan.Cursor + 1; tick <= c.Plan.Upto; tick++ {
		m.decide(s, tick)
	}
	g.Cursor, g.Next = c.Plan.Upto, c.Plan.Upto+1
	if g.waits() > 0 && !r.live() {
		g.Next = 0
	}
	return Reply{}
}

// decide applies the overlap policy to a tick. One that was decided before a failover may have its task already.
func (m *Model) decide(s *State, tick uint8) {
	r := &s.Redis
	busy := r.live() || r.Schedule.waits() > 0
	switch {
	case r.Tasks[tick-1].State != None && m.has(FireExisting):
		r.Schedule.Ledger[tick-1] = Fired
	case busy && m.Overlap == Skip:
		r.Schedule.Ledger[tick-1] = Skipped
	case busy:
		r.Schedule.Ledger[tick-1] = Waits
	default:
		m.startTick(s, tick)
	}
}

// startTick creates the task of a tick, due at once, unless it exists.
func (m *Model) startTick(s *State, tick uint8) {
	s.Redis.Schedule.Ledger[tick-1] = Fired
	if t := &s.Redis.Tasks[tick-1]; t.State == None {
		t.created(s, Due)
	}
}
