package route

import (
	"slices"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// Strategy is a rule by which a route chooses. The documentation of the package says what each one does.
type Strategy string

// The strategies. The default is Any.
const (
	Any           Strategy = "any"
	First         Strategy = "first"
	Last          Strategy = "last"
	Round         Strategy = "round"
	WeightedRound Strategy = "weighted_round"
	Random        Strategy = "random"
	Hash          Strategy = "hash"
	LeastRunning  Strategy = "least_running"
	LeastUsed     Strategy = "least_used"
	LongestIdle   Strategy = "longest_idle"
	Weighted      Strategy = "weighted"
	Failover      Strategy = "failover"
	BusyOver      Strategy = "busy_over"
)

// Strategies lists every strategy.
var Strategies = []Strategy{
	Any, First, Last, Round, WeightedRound, Random, Hash, LeastRunning, LeastUsed, LongestIdle, Weighted, Failover,
	BusyOver,
}

// Sticky says how long a task waits for the node of its key.
type Sticky string

// The values of Sticky. The default is StickyNot.
const (
	StickyNot     Sticky = ""        // not at all: another node gets it if that one has no free slot, or too much
	StickyPrefer  Sticky = "prefer"  // up to StickyWait
	StickyRequire Sticky = "require" // as long as the node lives
)

// StickyWait is how long a task with StickyPrefer waits for the node of its key.
const StickyWait = 2 * time.Second

// OrderLimit is the most names in an Order.
const OrderLimit = 16

// Route says to which of the nodes that may run a task it goes. The zero value is the route any.
type Route struct {
	By     Strategy
	Order  []string // of Failover, and of BusyOver if it is given: the names of nodes; no others get the task
	Sticky Sticky   // of Hash
	Load   Load     // of Weighted; the zero value stands for DefaultLoad
}

// Check returns an error if the route is none. Error: CodeInvalid of the fields by, order, sticky and load.*.
func (r Route) Check() error {
	return task.Join(r.checkBy(), r.checkOrder(), r.checkSticky(), task.Within("load", r.Load.check(r.By)))
}

func (r Route) checkBy() error {
	if r.By == "" || slices.Contains(Strategies, r.By) {
		return nil
	}
	names := make([]string, len(Strategies))
	for i, s := range Strategies {
		names[i] = string(s)
	}
	return task.Invalid("by", "%q must be one of %s", r.By, strings.Join(names, ", "))
}

func (r Route) checkOrder() error {
	sorted := slices.Sorted(slices.Values(r.Order))
	switch {
	case r.By == Failover && len(r.Order) == 0:
		return task.Invalid("order", "must name 1 to %d nodes, the first one first", OrderLimit)
	case r.By != Failover && r.By != BusyOver && len(r.Order) > 0:
		return task.Invalid("order", "must be left out: only %s and %s go by it", Failover, BusyOver)
	case len(r.Order) > OrderLimit:
		return task.Invalid("order", "has %d names; must have at most %d", len(r.Order), OrderLimit)
	case slices.Contains(r.Order, ""):
		return task.Invalid("order", "has an empty name; must name nodes")
	case strings.ContainsFunc(strings.Join(r.Order, ""), func(r rune) bool { return notOfName(r) || r == '/' }):
		return task.Invalid("order", "%q must be names of nodes, of A-Z a-z 0-9 . _ -", r.Order)
	case len(slices.Compact(sorted)) < len(r.Order):
		return task.Invalid("order", "names a node twice; must name each one once")
	}
	return nil
}

func (r Route) checkSticky() error {
	switch {
	case r.Sticky != StickyNot && r.Sticky != StickyPrefer && r.Sticky != StickyRequire:
		return task.Invalid("sticky", "%q must be %s or %s, or left out", r.Sticky, StickyPrefer, StickyRequire)
	case r.Sticky != StickyNot && r.By != Hash:
		return task.Invalid("sticky", "must be left out: only %s goes by it", Hash)
	}
	return nil
}

// Task is what a route asks about a task.
type Task struct {
	// Anywhere says that all nodes that serve the task's queue may run it. So it can go to the queue that they share.
	Anywhere bool
	Key      string        // of Hash
	Seed     uint64        // of Random, and where nodes are equal
	Waited   time.Duration // since it could go to the node of its key, or of its move, for the first time
}

// Place is where a task goes. The zero value: it waits for any node with a free slot.
type Place struct {
	Shared bool   // to the queue that all nodes share
	Node   string // to the node with this id; "": to none
	// For is the name of the only node for which it waits; "" if it does not wait, or not for one.
	For string
	// Still is after what further time it waits for others as well; 0 for never.
	Still time.Duration
}

// to returns the place of a node; without one, the task waits.
func to(c *Candidate) Place {
	if c == nil {
		return Place{}
	}
	return Place{Node: c.ID}
}

// Place decides where a task goes, and whose turn is next. nodes are all that may run it, also those without a free
// slot, in any order; a node that is left out counts as gone. If the task waits, the turns stay as they are.
func (r Route) Place(t Task, nodes []Candidate, turns Turns) (Place, Turns) {
	switch {
	case (r.By == "" || r.By == Any) && t.Anywhere && alike(nodes):
		return Place{Shared: true}, turns
	case r.By == Hash:
		return r.byKey(t, nodes), turns
	case r.By == Failover || len(r.Order) > 0:
		return r.inOrder(t, nodes), turns
	}
	free := preferred(nodes, (*Candidate).hasRoom)
	if len(free) == 0 {
		return Place{}, turns
	}
	var chosen *Candidate
	switch r.By {
	case Round:
		chosen, turns = turns.next(free)
	case WeightedRound:
		chosen, turns = turns.weighted(free, nodes)
	default:
		chosen = r.choose(free, seeded(t.Seed))
	}
	return to(chosen), turns
}

// choose returns one of the nodes with free slots by a rule that needs to know nothing else.
func (r Route) choose(free []*Candidate, d draw) *Candidate {
	switch r.By {
	case First, BusyOver:
		return slices.MinFunc(free, byName)
	case Last:
		return slices.MaxFunc(free, byName)
	case Random:
		return d.first(free)
	case LeastRunning:
		return least(free, d, (*Candidate).load)
	case LeastUsed:
		newest := slices.MaxFunc(free, func(a, b *Candidate) int { return a.LastUsed.Compare(b.LastUsed) }).LastUsed
		return least(free, d, func(c *Candidate) float64 { return c.usedBy(newest) })
	case LongestIdle:
		return least(free, d, func(c *Candidate) int64 { return c.LastUsed.UnixMilli() })
	case Weighted:
		idleness := r.Load.among(free)
		return least(free, d, func(c *Candidate) float64 { return -idleness(c) })
	}
	return least(free, d, func(c *Candidate) int { return -c.free() })
}

// inOrder chooses the first living node of the Order, or, for BusyOver, the first one with a free slot. Several nodes
// can have one name.
func (r Route) inOrder(t Task, nodes []Candidate) Place {
	for _, name := range r.Order {
		living := false
		free := preferred(nodes, func(c *Candidate) bool {
			living = living || c.Name == name
			return c.Name == name && c.hasRoom()
		})
		if len(free) > 0 {
			return to(least(free, seeded(t.Seed), (*Candidate).load))
		}
		if living && r.By == Failover {
			return Place{For: name}
		}
	}
	return Place{}
}

// byKey chooses the node of the task's key. If that one has no free slot, or too much, another one is next, unless the
// task waits for it.
func (r Route) byKey(t Task, nodes []Candidate) Place {
	d := keyed(t.Key)
	if r.Sticky != StickyNot && len(nodes) > 0 {
		home := d.first(preferred(nodes, func(*Candidate) bool { return true }))
		still := StickyWait - t.Waited
		switch {
		case home.hasRoom():
			return to(home)
		case r.Sticky == StickyRequire:
			return Place{For: home.Name}
		case still > 0:
			return Place{For: home.Name, Still: still}
		}
	}
	if chosen := d.first(preferred(nodes, withinBound(nodes))); chosen != nil {
		return to(chosen)
	}
	return to(d.first(preferred(nodes, (*Candidate).hasRoom))) // others have free slots, but too few for the task
}

// withinBound returns the rule which nodes may get one more task: they have a free slot. If half of their slots are
// taken, their share of all tasks is then at most 5/4 of their share of all slots, rounded up to a task. If some node
// has a free slot, the rule allows one: were all that are within the bound full, the others would have fewer tasks for
// each slot, and so be within it, too.
func withinBound(nodes []Candidate) func(*Candidate) bool {
	slots, tasks := 0, 1
	for i := range nodes {
		slots += max(nodes[i].Slots, 0)
		tasks += nodes[i].load()
	}
	return func(c *Candidate) bool {
		return c.hasRoom() && (2*c.load() < c.Slots || 4*c.load()*slots < 5*tasks*c.Slots)
	}
}
