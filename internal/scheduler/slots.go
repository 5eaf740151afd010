package scheduler

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/lua"
)

const (
	foreignTime  = 5 * time.Second        // after which the list of asynq's own servers is read again
	foreignFirst = 500 * time.Millisecond // the same if there is a queue that had a server the last time, or was not asked for
)

// slots knows how many attempts the living workers of each queue can run at once, and of which types. A name is that of a queue or of a
// lane.
type slots struct {
	members Members
	at      time.Time         // of the view that own and nodes come from
	own     map[string]served // of nodes, by queue
	nodes   int               // that lead partitions, or want to
	foreign map[string]int    // of asynq's own servers, by queue
	asked   map[string]bool   // names for which foreign was read since began
	began   time.Time
	workers []cluster.Node // living ones that take attempts
	text    string         // see served
	leftOut int            // workers by HTTP that claims do not know
	read    time.Time      // when foreign was read
	reading bool           // Redis has not answered yet
}

// served is how many attempts the nodes that serve a queue can run at once.
type served struct {
	all    int            // of whatever type
	any    int            // of any type: of nodes that do not say which ones they run
	byType map[string]int // of the others
}

// add counts a node.
func (v *served) add(n cluster.Node) {
	v.all += n.Capacity
	if len(n.Types) == 0 {
		v.any += n.Capacity
	}
	for _, taskType := range n.Types {
		if v.byType == nil {
			v.byType = make(map[string]int, len(n.Types))
		}
		v.byType[taskType] += n.Capacity
	}
}

// of returns the slots for a type; "" stands for all slots.
func (v served) of(taskType string) int {
	if taskType == "" {
		return v.all
	}
	return v.any + v.byType[taskType]
}

// of returns the slots of a queue, or of a lane. Those of asynq's own servers, which say of no type that they do not run it, count if no
// node serves it.
func (s *slots) of(name string) int { return s.ofType(lua.SplitLane(name)) }

// ofType returns the slots for tasks of a type in a queue.
func (s *slots) ofType(queue, taskType string) int {
	s.refresh()
	if n := s.own[queue].of(taskType); n > 0 {
		return n
	}
	return s.foreign[queue]
}

// ofNodes returns the slots of a queue, or of a lane, without those of asynq's own servers.
func (s *slots) ofNodes(name string) int {
	s.refresh()
	queue, taskType := lua.SplitLane(name)
	return s.own[queue].of(taskType)
}

func (s *slots) onlyForeign(name string) bool { return s.ofNodes(name) == 0 && s.of(name) > 0 }

// servedLimit is how many bytes of the offers of guests, which are workers by HTTP, a claim carries: more are not worth
// their transport.
const servedLimit = 64 << 10

// served returns the queues and types that somebody serves, as claims take it.
func (s *slots) served() string {
	s.refresh()
	return s.text
}

// describe writes what served returns: all that nodes and asynq's own servers serve, and of what guests do as much as
// servedLimit allows, those with the fewest names first. The others are left out: what only they serve waits.
func (s *slots) describe() {
	var offers, ofGuests []lua.Offer
	for queue, n := range s.foreign {
		if n > 0 {
			offers = append(offers, lua.Offer{Queues: []string{queue}, Types: []string{lua.AllTypes}})
		}
	}
	for _, n := range s.workers {
		if n.Via == "" {
			offers = append(offers, offerOf(n))
		} else {
			ofGuests = append(ofGuests, offerOf(n))
		}
	}
	told, leftOut := fewestNames(ofGuests)
	s.text, s.leftOut = lua.ServedText(append(offers, told...)), leftOut
}

// fewestNames returns the offers that servedLimit allows, and how many it does not.
func fewestNames(offers []lua.Offer) (told []lua.Offer, leftOut int) {
	texts := make(map[string]int) // the number of offers alike
	by := make(map[string]lua.Offer)
	for _, o := range offers {
		text := lua.ServedText([]lua.Offer{o})
		texts[text]++
		by[text] = o
	}
	size := 0
	for _, text := range slices.SortedFunc(maps.Keys(texts), byLength) {
		if size += len(text); size <= servedLimit {
			told = append(told, by[text])
		} else {
			leftOut += texts[text]
		}
	}
	return told, leftOut
}

func byLength(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }

// offerOf returns what a worker node serves.
func offerOf(n cluster.Node) lua.Offer {
	o := lua.Offer{Queues: slices.Collect(maps.Keys(n.Queues)), Types: n.Types}
	if len(n.Types) == 0 {
		o.Types = []string{lua.AllTypes}
	}
	return o
}

// leaders is the number of living nodes that lead partitions, or want to.
func (s *slots) leaders() int {
	s.refresh()
	return s.nodes
}

// refresh counts the nodes and their slots again after a heartbeat.
func (s *slots) refresh() {
	view := s.members.View()
	if s.own != nil && view.At.Equal(s.at) {
		return
	}
	s.at, s.own, s.nodes = view.At, make(map[string]served), len(view.Alive(config.RoleScheduler))
	s.workers = nil
	for _, n := range view.Nodes {
		if n.State == cluster.StateAlive && n.Has(config.RoleWorker) {
			for name := range n.Queues {
				v := s.own[name]
				v.add(n)
				s.own[name] = v
			}
			if n.Capacity > 0 && len(n.Queues) > 0 {
				s.workers = append(s.workers, n)
			}
		}
	}
	s.describe()
}

// readAgain reports whether asynq's list of servers is to be read, as no node serves some of the queues.
func (s *slots) readAgain(names []string) bool {
	s.refresh()
	passed := clock.Since(s.read)
	for _, name := range names {
		queue, _ := lua.SplitLane(name)
		unknown := !s.asked[name] || s.foreign[queue] > 0
		if s.ofNodes(name) == 0 && (passed >= foreignTime || unknown && passed >= foreignFirst) {
			return true
		}
	}
	return false
}

// setForeign records the slots of asynq's own servers that were read for those queues. After an error, what was known before stays known.
func (s *slots) setForeign(names []string, foreign map[string]int, err error) {
	s.read, s.reading = clock.Now(), errors.Is(err, redisx.ErrLate)
	if err != nil {
		return
	}
	if s.asked == nil || s.read.Sub(s.began) >= foreignTime {
		s.asked, s.began = make(map[string]bool), s.read
	}
	s.foreign = foreign
	for _, name := range names {
		s.asked[name] = true
	}
	s.describe()
}
