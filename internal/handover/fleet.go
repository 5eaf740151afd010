package handover

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/route"
	"github.com/dts-sched/dts/lua"
)

const (
	// foreignTime is after what time the list of asynq's own servers is due again.
	foreignTime = 5 * time.Second
	// ForeignFirst is the same for a queue that had a server the last time, or was not asked for.
	ForeignFirst = 500 * time.Millisecond
	// ServedLimit is how many bytes of the offers of guests a claim carries: more are not worth their transport.
	ServedLimit = 64 << 10
)

// Fleet is the nodes that live.
type Fleet struct {
	Workers []Node // that take work
	Leaders int    // that lead partitions, or want to
}

// Node is a worker.
type Node struct {
	ID       string
	Queues   map[string]int // that it serves, with their weights
	Types    []string       // of the tasks that it runs; none if it does not say: it runs all
	Capacity int            // its slots: most tasks that it runs at once, if each holds one
	Largest  map[string]int // by queue: slots of its largest pool that serves it; nil: Capacity
	Running  int            // slots that are taken
	Placed   map[string]int // of these: how many tasks hold that were handed to it alone, by queue
	Guest    bool           // it is no dtsd, but a worker by HTTP

	Name     string
	Labels   route.Labels
	Weight   int           // of its turns; below 1 counts as 1
	CPU      float64       // share of the machine's in use, 0 to 1; NaN if it is not known
	Memory   float64       // the same
	Response time.Duration // how long its tasks take, on average; 0 if that is not known
	Beat     time.Time     // of its last heartbeat
}

func (n Node) types() []string {
	if len(n.Types) == 0 {
		return []string{lua.AllTypes}
	}
	return n.Types
}

// runs reports whether the node runs tasks of a type, "" for any.
func (n Node) runs(taskType string) bool {
	return taskType == "" || len(n.Types) == 0 || slices.Contains(n.Types, taskType)
}

// hasSlots reports whether a task that holds so many slots can run on the node. Guests run tasks of one slot only.
func (n Node) hasSlots(queue string, slots int) bool {
	largest, pools := n.Largest[queue]
	if !pools {
		largest = n.Capacity
	}
	return slots <= 1 || !n.Guest && slots <= min(largest, n.Capacity)
}

// fleet knows how many attempts the workers of each queue and type can run at once.
type fleet struct {
	Fleet
	own     map[Lane]int // slots of nodes, of the lanes that were asked for
	served  string       // the queues and types that somebody serves, as claims take it
	leftOut int          // guests that served leaves out

	foreign map[string]int // slots of asynq's own servers, by queue
	asked   map[Lane]bool  // for which foreign was read since began
	began   time.Time
	read    time.Time // when foreign was read
	late    bool      // Redis has not answered yet
}

// ofNodes returns the slots of a lane without those of asynq's own servers. Nodes can serve many more pairs of a queue
// and a type than there are tasks of.
func (f *fleet) ofNodes(lane Lane) int {
	slots, known := f.own[lane]
	if known {
		return slots
	}
	for _, n := range f.Workers {
		if _, serves := n.Queues[lane.Queue]; serves && n.runs(lane.Type) {
			slots += n.Capacity
		}
	}
	if f.own == nil {
		f.own = make(map[Lane]int)
	}
	f.own[lane] = slots
	return slots
}

// of returns the slots of a lane. Those of asynq's own servers, which say of no type that they do not run it, count if
// no node serves it.
func (f *fleet) of(lane Lane) int {
	if n := f.ofNodes(lane); n > 0 {
		return n
	}
	return f.foreign[lane.Queue]
}

// SetFleet tells which nodes live.
func (p *Planner) SetFleet(nodes Fleet) {
	f := &p.fleet
	f.Fleet, f.own = nodes, nil
	p.setNodes()
	f.describe()
}

// LeftOut returns how many workers by HTTP claims are not told of: they offer more names than a claim carries.
func (p *Planner) LeftOut() int { return p.fleet.leftOut }

// ForeignDue reports whether asynq's list of servers is to be read, as no node serves some of the lanes, and whether
// Redis still owes an answer to the last try.
func (p *Planner) ForeignDue(lanes []Lane, now time.Time) (due, late bool) {
	f := &p.fleet
	passed := now.Sub(f.read)
	due = slices.ContainsFunc(lanes, func(lane Lane) bool {
		unknown := !f.asked[lane] || f.foreign[lane.Queue] > 0
		return f.ofNodes(lane) == 0 && (passed >= foreignTime || unknown && passed >= ForeignFirst)
	})
	return due, f.late
}

// ForeignFailed tells that asynq's list of servers could not be read, or, if late is set, not yet.
func (p *Planner) ForeignFailed(late bool, now time.Time) { p.fleet.read, p.fleet.late = now, late }

// ForeignRead tells the slots of asynq's own servers, by queue, which were read for some lanes.
func (p *Planner) ForeignRead(lanes []Lane, slots map[string]int, now time.Time) {
	f := &p.fleet
	f.read, f.late, f.foreign = now, false, slots
	if f.asked == nil || now.Sub(f.began) >= foreignTime {
		f.asked, f.began = make(map[Lane]bool), now
	}
	for _, lane := range lanes {
		f.asked[lane] = true
	}
	before := f.served
	if f.describe(); f.served != before {
		p.wakeApart()
	}
}

// describe writes what is served: all that nodes and asynq's own servers serve, and of what guests do as much as
// ServedLimit allows, those with the fewest names first. The others are left out: what only they serve waits.
func (f *fleet) describe() {
	var offers, ofGuests []lua.Offer
	for queue, n := range f.foreign {
		if n > 0 {
			offers = append(offers, lua.Offer{Queues: []string{queue}, Types: []string{lua.AllTypes}})
		}
	}
	for _, n := range f.Workers {
		offer := lua.Offer{Queues: slices.Collect(maps.Keys(n.Queues)), Types: n.types()}
		switch {
		case n.Capacity <= 0 || len(n.Queues) == 0:
		case n.Guest:
			ofGuests = append(ofGuests, offer)
		default:
			offers = append(offers, offer)
		}
	}
	told, leftOut := fewestNames(ofGuests)
	f.served, f.leftOut = lua.ServedText(append(offers, told...)), leftOut
}

// fewestNames returns the offers that ServedLimit allows, and how many it does not.
func fewestNames(offers []lua.Offer) (told []lua.Offer, leftOut int) {
	alike := make(map[string][]lua.Offer, len(offers)) // by text
	for _, o := range offers {
		text := lua.ServedText([]lua.Offer{o})
		alike[text] = append(alike[text], o)
	}
	size := 0
	for _, text := range slices.SortedFunc(maps.Keys(alike), byLength) {
		if size += len(text); size <= ServedLimit {
			told = append(told, alike[text][0])
		} else {
			leftOut += len(alike[text])
		}
	}
	return told, leftOut
}

func byLength(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }
