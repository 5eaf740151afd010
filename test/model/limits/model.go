package limits

// Size says how much of the protocol is searched.
type Size struct {
	Partitions int
	Tasks      int // of each partition; each has all limits
	Limits     int
	Slots      int                  // of each limit
	Stale      int                  // in so many partitions, two processes may believe that they lead
	Burst      int                  // tokens of each limit; 0: no rate
	Costs      [maxPartitions]uint8 // slots and tokens that a task of each partition needs; 0 as 1
	Again      bool                 // tasks may run again
	Cancels    bool                 // clients may cancel a task that waits
	Expires    bool                 // the lease of a leader that lives may end
	Changes    bool                 // somebody changes the slots, between 1 and Slots
	Copies     bool                 // a copy of a call may be on its way
	Lives      bool                 // leaders do not die
	Silent     bool                 // the server of the first partition may become silent, for good
	Lag        int                  // a failover loses up to that many writes; 0: there is none
	Loses      Server               // what the server has that fails
	Prompt     bool                 // nobody is slow after a failover
	Fair       bool                 // Served is checked
}

// Server is what a server of Redis has.
type Server uint8

// The servers.
const (
	ThePartition Server = iota // the first partition
	TheHome                    // the homes of the limits
	Everything
)

// Model is a model of some size. Without names a guard that it does not have.
type Model struct {
	Size
	Without Guard
}

// has reports whether the model has a guard.
//
//go:norace
func (m *Model) has(g Guard) bool { return m.Without != g }

// leaders returns how many processes may lead a partition.
//
//go:norace
func (m *Model) leaders(p int) int {
	if p < m.Stale {
		return 2
	}
	return 1
}

// initial returns the state in which all tasks wait, and nothing has happened.
func (m *Model) initial() State {
	var s State
	for l := range m.Limits {
		home := &s.Redis.Homes[l]
		home.Slots, home.Tokens, s.Bound[l] = uint8(m.Slots), uint8(m.Burst), uint8(m.Slots)
	}
	for p := range s.Redis.Partitions {
		s.Redis.Partitions[p].Cost = max(m.Costs[p], 1)
	}
	return s
}

// Guard is a guard of the protocol. The tests take one away at a time, to show that the search finds what it is for.
type Guard uint8

// The guards.
const (
	None Guard = iota
	CapInRedis
	CapVersion
	CapFirst
	RecountMints
	RecountFirst
	RecountFence
	ClaimFence
	HoldWithClaim
	FreeWithEnd
	HomeVersion
	RepeatKeeps
	TokensOnce
	InLine
	EndOfLine
	WholeTask
	WholeStart
	LineFades
	GiveBack
	AskAgain
	KeepGrant
	InOrder
	numGuards
)

func (g Guard) String() string {
	return [...]string{
		"none",
		"claim compares the holders with the cap in Redis, not with a number of the leader",
		"claim raises the cap only if it is of the version to which the home granted more",
		"a cap is lowered before the home hears of it",
		"recount takes a new version",
		"after a loss of writes, leaders recount and tell the home before anything starts",
		"recount compares the fence",
		"claim compares the fence",
		"the script that claims a task has it hold its slot",
		"the script that ends an attempt frees its slot",
		"the home refuses an older version",
		"the home lowers no count for a version that it knows",
		"the home grants tokens to a version once",
		"the home leaves a slot for each partition that has waited longer",
		"a partition that gets some slots, and less than it wants, goes to the end of the line",
		"the home grants slots for a whole task or none, and keeps as many for each partition that has waited longer",
		"the home grants tokens for a whole task or none, and keeps as many for each partition that has waited longer",
		"the home forgets that a partition waits that does not ask again",
		"a leader gives back a cap that is free when others want it",
		"a leader that knows that others wait asks the home before it takes a slot again",
		"a leader keeps what it was granted in turn while it waits for limits behind",
		"a leader asks for a limit, and keeps it, only while it has room in those before",
	}[g]
}
