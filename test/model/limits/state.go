package limits

// The dimensions of a State. A Size says how much of it is used.
const (
	maxLimits     = 2
	maxPartitions = 3
	maxLeaders    = 2
	maxTasks      = 2
)

// State is the state of everything: Redis, the leaders, and what is on its way between them.
type State struct {
	Redis   Redis
	Leaders [maxPartitions][maxLeaders]Leader
	Works   [maxPartitions][maxTasks]bool // a worker runs the task, whether or not Redis knows it
	Copy    Call                          // a call that arrives some day, and whose sender gets no reply
	Replica Redis                         // of the server that may fail, while the replica lags
	Lag     uint8                         // 0: the replica does not lag; else 1 and the writes that it lacks
	Failed  bool
	Silent  bool             // the server of the first partition answers no more
	Quiet   bool             // after a failover: nothing starts, and counts are told again
	Bound   [maxLimits]uint8 // the slots, and more only while counts from before a lowering stand
	Spare   [maxLimits]int8  // tokens that were granted, and with which no task has started
}

// Redis is what Redis has. Homes and partitions can be on different servers.
type Redis struct {
	Homes      [maxLimits]Home
	Partitions [maxPartitions]Partition
}

// Home is what Redis has of a limit in the partition of its name.
type Home struct {
	Slots  uint8 // the rule: how many may run at once
	Tokens uint8 // how many may start now; it grows as time passes, up to the burst
	Use    [maxPartitions]Use
	Line   Line // for a slot
	Starts Line // for tokens
}

// Line is which partitions wait, numbered from 1, the first one first; then zeros.
type Line [maxPartitions]uint8

// Use is what the home knows of a partition: it may use Count slots.
type Use struct {
	Version Version
	Count   uint8
	Tokens  uint8 // that this version was granted
	Least   uint8 // while it waits for slots: fewer are of no use
	Start   uint8 // while it waits for tokens: fewer are of no use
}

// Version numbers what a partition has of a limit. A script of the partition's leader takes the next one whenever it
// changes the cap. 0 is none.
type Version uint8

// Partition is what Redis has of a partition.
type Partition struct {
	Cost  uint8 // how many slots and tokens each of its tasks needs
	Fence uint8 // of the newest leader; 0: there was none
	Free  bool  // the lease is over
	Caps  [maxLimits]Cap
	Tasks [maxTasks]Task
}

// Cap is how many tasks may hold a slot in a partition.
type Cap struct {
	Version Version
	Cap     uint8
	Tokens  uint8 // with which no task has started
}

// Task is a task that is due, and that has all limits of the model.
type Task struct {
	State TaskState
	Holds bool // it is among those that hold a slot
}

// TaskState is the state of a task. Live is queued or running.
type TaskState uint8

// The states of a task.
const (
	Waits TaskState = iota
	Live
	Ended
)

func (s TaskState) String() string { return [...]string{"waits", "live", "ended"}[s] }

// Leader is a process that leads a partition, or believes so, with what it knows.
type Leader struct {
	Fence  uint8 // 0: it does not lead
	Limits [maxLimits]Known
	Heard  uint8 // without a guard: the tasks about which it has a second call to make
}

// Known is what a leader knows of a limit.
type Known struct {
	Phase   Phase
	Version Version // of what it knows; of MustCount: the next one must be beyond
	Cap     uint8
	Count   uint8 // what the home has granted: the cap, or more
	Tokens  uint8 // what the home has granted besides
	Wanted  bool  // others wait at the home, or more is in use than there are slots
}

// Phase is what a leader must do with a limit.
type Phase uint8

// The phases.
const (
	MustCount Phase = iota // count who holds a slot in the partition
	MustTell               // tell the home
	Ready                  // claim
)

// holders returns how many slots are held.
//
//go:norace
func (p *Partition) holders() (n uint8) {
	for i := range p.Tasks {
		if p.Tasks[i].Holds {
			n += p.Cost
		}
	}
	return n
}

// waiting returns how many tasks wait.
//
//go:norace
func (p *Partition) waiting(tasks int) (n uint8) {
	for i := range tasks {
		if p.Tasks[i].State == Waits {
			n++
		}
	}
	return n
}

// isStale reports whether a script refuses a call with that fence.
//
//go:norace
func (p *Partition) isStale(fence uint8) bool { return p.Free || p.Fence != fence }

// isSilent reports whether the server of a partition answers no more.
//
//go:norace
func (s *State) isSilent(p int) bool { return s.Silent && p == 0 }

// sum returns how many slots the partitions may use.
//
//go:norace
func (h *Home) sum() (n uint8) {
	for i := range h.Use {
		n += h.Use[i].Count
	}
	return n
}

// place returns how many partitions wait before the given one; isIn reports whether it waits at all.
//
//go:norace
func (l *Line) place(partition uint8) (before uint8, isIn bool) {
	for i, waits := range l {
		switch waits {
		case partition + 1:
			return uint8(i), true
		case 0:
			return uint8(i), false
		}
	}
	return maxPartitions, false
}

// join puts a partition at the end of the line.
//
//go:norace
func (l *Line) join(partition uint8) {
	if end, isIn := l.place(partition); !isIn {
		l[end] = partition + 1
	}
}

// leave takes a partition out of the line.
//
//go:norace
func (l *Line) leave(partition uint8) {
	at, isIn := l.place(partition)
	if !isIn {
		return
	}
	copy(l[at:], l[at+1:])
	l[maxPartitions-1] = 0
}

// kept returns how many slots the home keeps for the partitions that have waited longer than the given one.
//
//go:norace
func (h *Home) kept(partition uint8) (n uint8) {
	before, _ := h.Line.place(partition)
	for _, other := range h.Line[:before] {
		n += h.Use[other-1].Least
	}
	return n
}

// keptStarts returns how many tokens the home keeps for the partitions that have waited longer for them.
//
//go:norace
func (h *Home) keptStarts(partition uint8) (n uint8) {
	before, _ := h.Starts.place(partition)
	for _, other := range h.Starts[:before] {
		n += h.Use[other-1].Start
	}
	return n
}

// forget has a partition wait no more.
//
//go:norace
func (h *Home) forget(partition uint8) {
	h.Line.leave(partition)
	h.Starts.leave(partition)
	h.Use[partition].Least, h.Use[partition].Start = 0, 0
}

// canonical returns the state in which versions, fences and the order of equals say nothing. States that are equal then
// are one for the search.
//
//go:norace
func (m *Model) canonical(s *State) State {
	c := *s
	for p := range m.Partitions {
		for l := range m.Limits {
			var versions [12]*Version
			m.renumber(c.versions(versions[:0], p, l))
		}
		m.renameFences(&c, p)
		if leaders := &c.Leaders[p]; leaders[0].Fence < leaders[1].Fence {
			leaders[0], leaders[1] = leaders[1], leaders[0]
		}
		if m.has(HoldWithClaim) && m.has(FreeWithEnd) && m.Lag == 0 && m.Tasks > 1 {
			sortTasks(&c, p)
		}
	}
	return c
}

// sortTasks brings the two tasks of a partition into an order.
//
//go:norace
func sortTasks(c *State, p int) {
	if tasks := &c.Redis.Partitions[p].Tasks; tasks[0].State > tasks[1].State {
		tasks[0], tasks[1] = tasks[1], tasks[0]
		works := &c.Works[p]
		works[0], works[1] = works[1], works[0]
	}
}

// versions appends all versions of a limit in a partition, in Redis and elsewhere.
//
//go:norace
func (s *State) versions(all []*Version, p, l int) []*Version {
	for _, r := range []*Redis{&s.Redis, &s.Replica} {
		all = append(all, &r.Partitions[p].Caps[l].Version, &r.Homes[l].Use[p].Version)
	}
	for i := range s.Leaders[p] {
		all = append(all, &s.Leaders[p][i].Limits[l].Version)
	}
	if int(s.Copy.Partition) == p && s.Copy.Script != NoScript {
		all = append(all, &s.Copy.Grants[l].Version)
	}
	return all
}

// renumber gives versions the smallest numbers in the same order. After a loss of writes a version can be taken twice,
// so that it matters how far they are apart: a distance of two or more stays two.
//
//go:norace
func (m *Model) renumber(versions []*Version) {
	gap := Version(1)
	if m.Lag > 0 {
		gap = 2
	}
	for last, next := Version(0), Version(0); ; {
		least := Version(255)
		for _, v := range versions {
			if *v > last {
				least = min(least, *v)
			}
		}
		if least == 255 {
			return
		}
		distance := min(least-last, gap)
		next = last + distance
		for _, v := range versions {
			if *v >= least { // all above move down together
				*v -= least - next
			}
		}
		last = next
	}
}

// renameFences gives fences the smallest numbers in the same order.
//
//go:norace
func (m *Model) renameFences(s *State, p int) {
	var all [6]*uint8
	fences := append(all[:0], &s.Redis.Partitions[p].Fence, &s.Replica.Partitions[p].Fence)
	for i := range s.Leaders[p] {
		fences = append(fences, &s.Leaders[p][i].Fence)
	}
	if int(s.Copy.Partition) == p && s.Copy.Script != NoScript {
		fences = append(fences, &s.Copy.Fence)
	}
	for last := uint8(0); ; last++ {
		least := uint8(255)
		for _, f := range fences {
			if *f > last {
				least = min(least, *f)
			}
		}
		if least == 255 {
			return
		}
		for _, f := range fences {
			if *f == least {
				*f = last + 1
			}
		}
	}
}

// freshFence returns a fence that no leader has had. A fence has its owner with it, so that also one that is given
// again after a loss of writes is another one.
//
//go:norace
func (s *State) freshFence(p uint8) uint8 {
	fence := max(s.Redis.Partitions[p].Fence, s.Replica.Partitions[p].Fence)
	for i := range s.Leaders[p] {
		fence = max(fence, s.Leaders[p][i].Fence)
	}
	if s.Copy.Partition == p {
		fence = max(fence, s.Copy.Fence)
	}
	return fence + 1
}
