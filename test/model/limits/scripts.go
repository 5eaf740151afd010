package limits

// Script is a script of the protocol.
type Script uint8

// The scripts. Hold and Free exist only where a guard is missing.
const (
	NoScript Script = iota
	Acquire         // in a partition: take its lease
	Recount         // in a partition: the cap becomes what is held
	Claim           // in a partition: raise the caps to what was granted, and take a task
	Settle          // at the home: say how many slots the partition uses and wants
	Hold            // in a partition: a task that was claimed holds a slot
	Free            // in a partition: a task that has ended holds none
)

func (s Script) String() string {
	return [...]string{"", "acquire_lease", "recount", "claim", "settle", "hold", "free"}[s]
}

// Call is a call of a script. What a script does not need is zero.
type Call struct {
	Script    Script
	Partition uint8
	Fence     uint8 // of scripts in a partition
	Limit     uint8 // of recount and settle
	Grants    [maxLimits]Grant
	Want      uint8 // of settle: slots beyond those that the grant of the limit counts
	Least     uint8 // of settle: fewer slots are of no use
	Tokens    uint8 // of settle: tokens that are wanted
	Start     uint8 // of settle: fewer tokens are of no use
	Room      uint8 // of claim without a guard: how many it takes, by what the leader knows
	Task      uint8 // of hold and free
}

// Grant is what a call says of a limit: of recount, the version to go beyond; of settle, the cap; of claim, what the
// home has granted to the version.
type Grant struct {
	Version Version
	Count   uint8
	Tokens  uint8
}

// Reply is what a script replies.
type Reply struct {
	Refused Refusal
	Fence   uint8          // of acquire_lease
	Version Version        // of settle that is refused: the one that the home knows
	Caps    [maxLimits]Cap // of recount and claim, as they are now
	Count   uint8          // of settle: how many slots the partition may use
	Tokens  uint8          // of settle
	Wanted  bool           // of settle
	Taken   uint8          // of claim: the number of the task, from 1
}

// Refusal is why a script did nothing.
type Refusal string

// The refusals.
const (
	Fenced Refusal = "FENCED" // the caller does not lead the partition
	Old    Refusal = "OLD"    // the home knows a newer version
)

// run runs a script.
//
//go:norace
func (m *Model) run(s *State, c Call) Reply {
	p := &s.Redis.Partitions[c.Partition]
	switch c.Script {
	case Acquire:
		p.Fence, p.Free = s.freshFence(c.Partition), false
		return Reply{Fence: p.Fence}
	case Recount:
		return m.recount(p, c)
	case Claim:
		return m.claim(p, c)
	case Settle:
		return m.settle(&s.Redis.Homes[c.Limit], c)
	case Hold:
		p.Tasks[c.Task].Holds = p.Tasks[c.Task].State == Live
	case Free:
		p.Tasks[c.Task].Holds = false
	}
	return Reply{}
}

// recount lowers the cap to the number of holders, or raises it to that after a loss of writes. The version is newer
// than all that the partition had, and than the one that the caller gives.
//
//go:norace
func (m *Model) recount(p *Partition, c Call) Reply {
	if m.has(RecountFence) && p.isStale(c.Fence) {
		return Reply{Refused: Fenced}
	}
	limit := &p.Caps[c.Limit]
	if m.has(CapFirst) {
		limit.Cap = p.holders()
	}
	if m.has(RecountMints) {
		limit.Version = max(limit.Version, c.Grants[c.Limit].Version) + 1
	}
	reply := Reply{Caps: p.Caps}
	reply.Caps[c.Limit].Cap = p.holders()
	return reply
}

// claim raises the cap of each limit to what the home has granted, if nothing has changed the cap since it was told to
// the home. Then it takes one task, while fewer hold a slot than each cap says.
//
//go:norace
func (m *Model) claim(p *Partition, c Call) Reply {
	if m.has(ClaimFence) && p.isStale(c.Fence) {
		return Reply{Refused: Fenced}
	}
	for l := range m.Limits {
		limit, grant := &p.Caps[l], c.Grants[l]
		if m.has(CapVersion) && limit.Version != grant.Version || grant.Count <= limit.Cap && grant.Tokens == 0 {
			continue
		}
		limit.Cap, limit.Tokens = max(limit.Cap, grant.Count), limit.Tokens+grant.Tokens
		limit.Version++
	}
	reply := Reply{}
	if m.hasRoom(p, c) {
		reply.Taken = m.take(p)
	}
	reply.Caps = p.Caps
	return reply
}

// hasRoom reports whether a claim may take a task.
//
//go:norace
func (m *Model) hasRoom(p *Partition, c Call) bool {
	if !m.has(CapInRedis) {
		return c.Room > 0
	}
	for l := range m.Limits {
		if p.holders()+p.Cost > p.Caps[l].Cap || m.Burst > 0 && p.Caps[l].Tokens < p.Cost {
			return false
		}
	}
	return true
}

// take makes the first task that waits live, and returns its number.
//
//go:norace
func (m *Model) take(p *Partition) uint8 {
	for i := range m.Tasks {
		if p.Tasks[i].State != Waits {
			continue
		}
		p.Tasks[i] = Task{State: Live, Holds: m.has(HoldWithClaim)}
		for l := range m.Limits {
			if m.Burst > 0 {
				p.Caps[l].Tokens -= p.Cost
			}
		}
		return uint8(i) + 1
	}
	return 0
}

// settle notes how many slots a partition uses, which is never refused for want of slots: they are used. Beyond that it
// grants what is free, but for the slots of a task for each partition that has waited longer. What is not enough for a
// task is not granted. A partition that gets some slots, and less than it wants, waits for the others behind all
// partitions that wait now.
//
//go:norace
func (m *Model) settle(h *Home, c Call) Reply {
	use, version, have := &h.Use[c.Partition], c.Grants[c.Limit].Version, c.Grants[c.Limit].Count
	if m.has(HomeVersion) && version < use.Version {
		return Reply{Refused: Old, Version: use.Version}
	}
	repeated := version == use.Version
	kept := h.kept(c.Partition)
	if !m.has(InLine) {
		kept = 0
	}
	others := h.sum() - use.Count
	free := max(0, int(h.Slots)-int(others)-int(have)-int(kept))
	granted := min(c.Want, uint8(free))
	if granted < c.Least {
		granted = 0
	}
	count := have + granted
	if repeated && m.has(RepeatKeeps) {
		count = max(count, use.Count)
	}
	if !repeated || use.Tokens == 0 || !m.has(TokensOnce) {
		m.grantTokens(h, use, c)
	}
	use.Version, use.Count, use.Least = version, count, 0
	if count >= have+c.Want || count > have && m.has(EndOfLine) {
		h.Line.leave(c.Partition)
	}
	if count < have+c.Want {
		h.Line.join(c.Partition)
		use.Least = max(c.Least, 1)
	}
	return Reply{Count: count, Tokens: use.Tokens, Wanted: m.isWanted(h, c.Partition)}
}

// grantTokens grants tokens as settle grants slots. A partition that gets some waits for no more.
//
//go:norace
func (m *Model) grantTokens(h *Home, use *Use, c Call) {
	use.Tokens = min(c.Tokens, h.Tokens-min(h.Tokens, h.keptStarts(c.Partition)))
	if use.Tokens < c.Start {
		use.Tokens = 0
	}
	h.Tokens -= use.Tokens
	if use.Start = 0; use.Tokens > 0 || c.Tokens == 0 || !m.has(WholeStart) {
		h.Starts.leave(c.Partition)
		return
	}
	h.Starts.join(c.Partition)
	use.Start = max(c.Start, 1)
}

// isWanted reports whether a partition should give back what it does not use: another one waits, or more is in use than
// there are slots.
//
//go:norace
func (m *Model) isWanted(h *Home, p uint8) bool {
	return h.sum() > h.Slots || h.Line[0] != 0 && h.Line[0] != p+1 || h.Line[1] != 0
}
