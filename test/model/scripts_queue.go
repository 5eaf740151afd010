package model

// delivery returns the delivery that a call is about.
func (s *State) delivery(c Call) *Delivery { return &s.Redis.Tasks[c.Task].Deliveries[c.Attempt-1] }

func (m *Model) enqueue(s *State, c Call) Reply {
	d := s.delivery(c)
	if d.State == Archived {
		if d.Claim == c.Claim {
			return Reply{Handled: true}
		}
		*d = Delivery{}
	}
	switch {
	case d.State == Gone:
		*d = Delivery{State: Pending, Claim: c.Claim}
	case d.State == Active && (d.Stale || !m.has(EnqueueOnce)):
		d.State, d.Stale = Pending, false
	case d.State == Pending:
		d.Claim, d.Unlisted = c.Claim, d.Unlisted && !m.has(EnqueueListed)
	}
	return Reply{}
}

func (m *Model) recall(s *State, c Call) Reply {
	d := s.delivery(c)
	if d.State != Gone && !d.waits() {
		return Reply{}
	}
	*d = Delivery{}
	return Reply{Recalled: true}
}

func (m *Model) tendQueue(s *State, c Call) Reply {
	for i := range s.Redis.Tasks[c.Task].Deliveries {
		if d := &s.Redis.Tasks[c.Task].Deliveries[i]; d.State == Active && d.Stale {
			d.State, d.Stale = Pending, false
		}
	}
	return Reply{}
}

// take takes one delivery, if it waits still.
func (m *Model) take(s *State, c Call) Reply {
	d := s.delivery(c)
	if !d.waits() {
		return Reply{}
	}
	d.State, d.Stale = Active, false
	return Reply{Taken: true, Run: s.freshRun()}
}

func (m *Model) giveBack(s *State, c Call) Reply {
	if d := s.delivery(c); d.State == Active {
		d.State, d.Stale = Pending, false
	}
	return Reply{}
}

func (m *Model) extend(s *State, c Call) Reply {
	if d := s.delivery(c); d.State == Active {
		d.Stale = false
	}
	return Reply{}
}

func (m *Model) done(s *State, c Call) Reply {
	if d := s.delivery(c); d.State == Active {
		*d = Delivery{}
	}
	return Reply{}
}

func (m *Model) archive(s *State, c Call) Reply {
	if d := s.delivery(c); d.State == Active {
		d.State, d.Stale = Archived, false
	}
	return Reply{}
}
