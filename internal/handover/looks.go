package handover

import (
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

const (
	// aheadTime is how much of the work of fast workers may wait in a queue.
	aheadTime = 250 * time.Millisecond
	// silentPause is the time between two looks at what tells no leader that it has room: a queue with a backlog that
	// only asynq's own servers serve, and a lane with a backlog. Workers tell how many deliveries of all types are left.
	silentPause = 50 * time.Millisecond
)

// NoLevel stands for a queue whose workers are not asked to tell anything.
const NoLevel = -1

// Look is what a leader sees of a queue for which it has more deliveries.
type Look struct {
	Waiting int            // deliveries that wait for a worker
	Active  int            // of a queue of one node: those that it has taken
	Further int            // of a queue of one node: slots beyond one of those that hold several
	Paused  bool           // nobody takes any
	Ended   int64          // deliveries that have ended so far
	Types   map[string]int // how many of those that wait have each type, if workers pass over some, else nil: an estimate
}

// bound is how many deliveries of a lane may wait: 0 if nobody serves it. f may be nil.
func (p *Planner) bound(lane Lane, f *flow, now time.Time) int {
	n := p.fleet.of(lane)
	if n == 0 {
		return 0
	}
	bound := max(n*p.o.HandOver, LeastAhead)
	if f != nil && now.Sub(f.measured) <= p.o.Ask {
		bound = max(bound, int(f.rate*aheadTime.Seconds()))
	}
	return bound
}

// share is the part of what a queue may get that this node may hand over, as other nodes hand over too.
func (p *Planner) share(free int) int {
	nodes := max(min(p.fleet.Leaders, p.o.Partitions), 1)
	return (max(free, 0) + nodes - 1) / nodes
}

// Waiting returns the lanes that have waiting tasks in a partition, in any order, and some lanes that nobody serves.
func (p *Planner) Waiting(partition int) []Lane {
	lanes := slices.Clone(p.apartIn(partition).lanes)
	for lane, f := range p.flows {
		if f.waits(partition) {
			lanes = append(lanes, lane)
		}
	}
	return lanes
}

// Asks returns the lanes to ask Redis for, of those that have tasks in a partition, and for each of their queues the
// number of waiting deliveries at which its workers are to tell. What came of it is told to Looked.
func (p *Planner) Asks(partition int, now time.Time) (asked []Lane, levels map[string]int) {
	levels = make(map[string]int)
	for lane, f := range p.flows {
		if !f.waits(partition) {
			continue
		}
		if lane.Reach != "" {
			if f.comes(partition) {
				p.askNodes(lane, levels, now)
			}
			continue
		}
		bound := p.bound(lane, f, now)
		switch {
		case bound == 0:
			f.free = 0
			f.fill()
		case p.servers[lane.Queue] == Asked:
		case now.Sub(f.asked) >= p.askPause(lane) && f.comes(partition):
			f.asked = now // before Redis is asked: word that comes meanwhile makes it zero again
			asked = append(asked, lane)
			if _, known := levels[lane.Queue]; lane.Type == "" {
				levels[lane.Queue] = bound / 2
			} else if !known {
				levels[lane.Queue] = NoLevel
			}
		}
	}
	return asked, levels
}

// Looked tells what was seen of the queues of lanes that were asked for. Those that could not be looked at get nothing
// until the next time.
func (p *Planner) Looked(asked []Lane, looks map[string]Look, now time.Time) {
	for name, look := range looks {
		p.lookedAt(name, look, now)
	}
	for _, lane := range asked {
		if look, ok := looks[lane.Queue]; ok {
			p.evaluate(lane, look, now)
		} else {
			p.flow(lane).free = 0
		}
	}
	r := p.rooms(now)
	for _, lane := range asked {
		p.flow(lane).wakeLimited(p.wakes, r)
	}
}

// evaluate finds out from a look at its queue what a lane may get.
func (p *Planner) evaluate(lane Lane, look Look, now time.Time) {
	f := p.flow(lane)
	f.measure(look, now)
	waiting := look.Waiting
	if lane.Type == "" {
		f.apart = p.closeLanes(lane.Queue, look.Types, now)
		waiting -= f.apart
	} else if look.Types != nil {
		waiting = look.Types[lane.Type]
	}
	f.free = max(p.share(p.bound(lane, f, now)-waiting)-f.reserved, 0)
	f.noteRoom(f.begin(now))
}

// closeLanes returns how many of the deliveries that wait in a queue have types that only some of its workers run, or
// none. If as many deliveries of a type wait as those workers take soon, the type gets a lane without room. Its
// further tasks wait there, and the leader asks for the lane by itself then.
func (p *Planner) closeLanes(queue string, types map[string]int, now time.Time) (apart int) {
	for taskType, n := range types {
		lane := Lane{Queue: queue, Type: taskType}
		if taskType == "" || p.fleet.of(lane) == p.fleet.of(Lane{Queue: queue}) {
			continue
		}
		apart += n
		if n >= p.bound(lane, nil, now) {
			p.flow(lane).used = now
		}
	}
	return apart
}

// note records how many deliveries wait in queues after some were handed over to them.
func (p *Planner) note(lengths map[string]int, now time.Time) {
	for queue, length := range lengths {
		if _, node := task.SplitNodeQueue(queue); node != "" {
			continue
		}
		lane := Lane{Queue: queue}
		f := p.flows[lane]
		if f != nil {
			length -= f.apart
		}
		free := p.share(p.bound(lane, f, now) - length)
		if f == nil {
			if 2*length <= p.bound(lane, nil, now) {
				continue
			}
			f = p.flow(lane)
			f.free = free
		}
		f.used = now
		f.free = min(f.free, max(free-f.reserved, 0))
		if free <= f.reserved {
			f.fill()
		}
	}
}

// Pause returns how long the term of a partition may sleep until it asks for a grant again.
func (p *Planner) Pause(partition int, now time.Time) time.Duration {
	a := p.apartIn(partition)
	pause := max(p.untilLook(partition, now), 0)
	if len(a.lanes) > 0 {
		pause = min(pause, p.o.Ask)
	}
	if a.unnamed != "" {
		pause = min(pause, p.o.Ask, unnamedPause)
	}
	for lane, f := range p.flows {
		if f.waits(partition) {
			pause = min(pause, p.askPause(lane))
		}
	}
	if b := p.books[partition]; b != nil {
		_, needs := p.line(partition)
		pause = min(pause, b.Pause(needs, now))
	}
	return pause
}

// askPause is the time between two looks at a lane with a backlog.
func (p *Planner) askPause(lane Lane) time.Duration {
	if lane.Reach != "" {
		return p.placePause(lane)
	}
	if p.fleet.of(lane) > 0 && (p.fleet.ofNodes(lane) == 0 || lane.Type != "") {
		return min(silentPause, p.o.Ask)
	}
	return p.o.Ask
}
