package handover

import (
	"maps"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/limit"
	"github.com/dts-sched/dts/internal/task"
)

// Options are what a planner goes by. All but Seed are needed.
type Options struct {
	HandOver   int           // deliveries that may wait in a queue for each slot of its living workers
	Partitions int           // of the installation
	Ask        time.Duration // between two looks at a full queue whose workers tell when it has room
	Look       time.Duration // between two looks at all names of the backlog of a partition, at most
	Seed       uint64        // of routes: where they choose among equal nodes, and begin with their turns
}

// Planner is what one node knows of the fleet, of what waits and of what is on its way. Its methods tell it what has
// happened, or ask it what to do. The caller calls one at a time, and SetFleet first.
type Planner struct {
	o       Options
	fleet   fleet
	flows   map[Lane]*flow       // pools that are served, or were a moment ago
	apart   map[int]*apart       // by partition
	servers map[string]Server    // those that do not answer, by queue
	wakes   map[int]bool         // partitions whose terms are to ask for a grant
	nodes   map[string]*nodeRoom // by id
	paused  map[string]bool      // queues that are paused, as far as tasks with a reach wait for them
	placers map[Lane]*placer     // by pool with a reach
	limits  *limit.Table
	books   map[int]*limit.Book // what is known of the limits, by partition
}

// New returns a planner that knows nothing yet.
func New(o Options) *Planner {
	return &Planner{
		o: o, flows: make(map[Lane]*flow), apart: make(map[int]*apart), servers: make(map[string]Server),
		wakes: make(map[int]bool), nodes: make(map[string]*nodeRoom), paused: make(map[string]bool),
		placers: make(map[Lane]*placer),
		limits:  limit.NewTable(nil), books: make(map[int]*limit.Book),
	}
}

func (p *Planner) flow(lane Lane) *flow {
	f := p.flows[lane]
	if f == nil {
		f = &flow{}
		p.flows[lane] = f
	}
	return f
}

// Wakes returns the partitions whose terms are to ask for a grant, as what was told since the last call may give them
// one.
func (p *Planner) Wakes() []int {
	if len(p.wakes) == 0 {
		return nil
	}
	woken := slices.Sorted(maps.Keys(p.wakes))
	clear(p.wakes)
	return woken
}

// Grant returns what the term of a partition may claim at once. If no task on its wheel is due, ok is false unless some
// of its waiting tasks may be claimed. If ok, what is granted is reserved until Claimed is called.
func (p *Planner) Grant(partition int, due bool, now time.Time) (g Grant, ok bool) {
	g = Grant{Lanes: make(Quotas, len(p.flows)), Default: LeastAhead, Served: p.fleet.served}
	a := p.apartIn(partition)
	lookDue := p.untilLook(partition, now) <= 0
	ok = due || lookDue || a.due(g.Served, now)
	r := p.rooms(now)
	for pool, f := range p.flows {
		if p.servers[pool.Queue] != Answers {
			g.Lanes[pool] = Quota{}
			continue
		}
		if pool.Reach != "" {
			ok = p.grantNodes(partition, pool, f, r, &g, now) || ok
			continue
		}
		own, keyed := f.portions(partition, r)
		g.add(pool, own, keyed)
		ok = ok || own.Number > 0 && f.waits(partition) || len(keyed) > 0
	}
	if !ok {
		return Grant{}, false
	}
	a.grant(&g, lookDue, now)
	p.grantSlots(partition, &g, now)
	for lane, quota := range g.Lanes {
		f := p.flows[lane.pool()]
		f.free, f.reserved = f.free-quota.Number, f.reserved+quota.Number
		if quota.inTurn {
			f.charge(lane.Fair, quota.Number)
		}
	}
	return g, true
}

// Claimed tells what came of a grant.
func (p *Planner) Claimed(partition int, g Grant, o Outcome, now time.Time) {
	var keyed map[Lane]bool // pools whose fair keys had a quota
	for lane, quota := range g.Lanes {
		f := p.flow(lane.pool())
		f.reserved -= quota.Number
		p.placed(lane, quota, o.Claimed[lane], now)
		f.free += max(quota.Number-o.Claimed[lane], 0)
		if quota.inTurn {
			f.charge(lane.Fair, min(o.Claimed[lane], quota.Number)-quota.Number)
			f.noteRun(lane.Fair, o.Claimed[lane] >= quota.Number)
		}
		if lane.Key != "" {
			if keyed == nil {
				keyed = make(map[Lane]bool)
			}
			keyed[lane.pool()] = true
		}
	}
	if g.Known && o.Backlog != nil {
		p.changeBacklog(partition, g.Lanes, o.Backlog)
	} else {
		p.setBacklog(partition, o.Backlog)
	}
	p.noteSlots(partition, g, o, now)
	p.apartIn(partition).note(g, o, now)
	p.note(o.Lengths, now)
	r := p.rooms(now)
	for lane, quota := range g.Lanes {
		if lane == lane.pool() {
			p.settle(lane, quota.Number > 0 || keyed[lane], r, now)
		}
	}
}

// settle looks at a pool after a claim, which may have taken something of it.
func (p *Planner) settle(pool Lane, claims bool, r *rooms, now time.Time) {
	f := p.flows[pool]
	if claims {
		f.noteRoom(now)
		if f.free > 0 || f.asked.IsZero() { // it may be the turn of others now
			f.wake(p.wakes, r)
		}
	}
	if pl := p.placers[pool]; pl != nil && len(f.order) == 0 {
		pl.full = time.Time{} // what comes next has not waited yet
	}
	silent := pool.Type == "" && p.servers[pool.Queue] != Answers
	if len(f.order) == 0 && f.reserved == 0 && now.Sub(f.used) > p.o.Ask && !silent {
		delete(p.flows, pool)
	}
}

// setBacklog records all that waits in a partition.
func (p *Planner) setBacklog(partition int, backlog Backlog) {
	for pool, f := range p.flows {
		f.leaveAllBut(partition, pool, backlog)
	}
	p.addBacklog(partition, backlog)
}

// changeBacklog records what a claim has found that looked only at the lanes from which it might take something, and at
// those of due tasks. The other lanes stay as they are.
func (p *Planner) changeBacklog(partition int, granted Quotas, backlog Backlog) {
	for lane, quota := range granted {
		if _, waits := backlog[lane]; !waits && quota.Number > 0 {
			p.flow(lane.pool()).leave(lane.Fair, partition)
		}
	}
	p.addBacklog(partition, backlog)
}

// addBacklog records what waits in a partition. Lanes that begin to wait do so in the order of their names, not of a
// map: it says which of them comes first.
func (p *Planner) addBacklog(partition int, backlog Backlog) {
	var begin []Lane
	for lane, at := range backlog {
		if t := p.flow(lane.pool()).of(lane.Fair); t == nil || len(t.line) == 0 {
			begin = append(begin, lane)
		} else {
			p.addLane(partition, lane, at)
		}
	}
	slices.SortFunc(begin, byName)
	for _, lane := range begin {
		p.addLane(partition, lane, backlog[lane])
	}
}

// addLane records that tasks of a lane wait in a partition. What a claim finds there without a quota has waited since
// before: for room, or for a worker.
func (p *Planner) addLane(partition int, lane Lane, at time.Time) {
	f := p.flow(lane.pool())
	t := f.of(lane.Fair)
	waits := t != nil && t.waits(partition)
	if at.IsZero() && !waits {
		f.fill()
	}
	if !at.IsZero() || !waits {
		f.wait(lane.Fair, partition, at)
	}
}

// Leave tells that this node leads a partition no more.
func (p *Planner) Leave(partition int) {
	p.setBacklog(partition, nil)
	delete(p.apart, partition)
	delete(p.books, partition)
	r := p.rooms(time.Time{})
	for _, f := range p.flows {
		f.wake(p.wakes, r) // the partition may have come before others
	}
}

// HasRoom tells that the workers of a queue say that it has room again. It may be the queue of one node.
func (p *Planner) HasRoom(name string, now time.Time) {
	queue, node := task.SplitNodeQueue(name)
	if n := p.nodes[node]; n != nil {
		n.forgetAsked(queue)
	}
	r := p.rooms(now)
	for lane, f := range p.flows {
		if lane.Queue == queue && (node == "" || lane.Reach != "") {
			f.forgetAsked(now)
			f.wake(p.wakes, r)
		}
	}
}

// WorkersChanged tells that workers have come or gone, or that word of room may be lost.
func (p *Planner) WorkersChanged(now time.Time) {
	r := p.rooms(now)
	for _, f := range p.flows {
		f.forgetAsked(now)
		f.wake(p.wakes, r)
	}
	p.wakeApart()
}

// Server is whether the server of a queue answers. In a cluster, the queue of one that does not has no room.
type Server int

// What is known of a server.
const (
	Answers Server = iota
	Silent         // it did not answer when it was asked last, or refused
	Asked          // it did not, and is being asked
)

// Server returns what is known of the server of a queue.
func (p *Planner) Server(queue string) Server { return p.servers[queue] }

// ServerFailed tells that the server of a queue has not answered: Silent, or Asked.
func (p *Planner) ServerFailed(queue string, s Server) {
	p.servers[queue] = s
	if _, node := task.SplitNodeQueue(queue); node == "" {
		p.flow(Lane{Queue: queue}) // so that a claim has a quota for it
	}
}

// ServerAnswered tells that the server of a queue answers. again reports that it did not before.
func (p *Planner) ServerAnswered(queue string, now time.Time) (again bool) {
	if p.servers[queue] == Answers {
		return false
	}
	delete(p.servers, queue)
	p.HasRoom(queue, now)
	return true
}

// Split is deliveries by who can take them.
type Split struct {
	Served   []task.Delivery
	Unserved []task.Delivery // nobody serves their queue
	// Apart belong into lanes: their queue is served, but nobody runs their type, or the node to which they go cannot.
	Apart   []task.Delivery
	Strange []Lane // of those that no node can take
}

// Split separates deliveries by who can take them.
func (p *Planner) Split(deliveries []task.Delivery) (s Split) {
	for _, d := range deliveries {
		lane := Lane{Queue: d.Queue, Type: d.Type}
		if d.Reach != "" && !p.mayTake(d) {
			s.Apart = append(s.Apart, d)
			continue
		}
		if p.fleet.ofNodes(lane) == 0 && !slices.Contains(s.Strange, lane) {
			s.Strange = append(s.Strange, lane)
		}
		switch {
		case p.fleet.of(lane) > 0:
			s.Served = append(s.Served, d)
		case p.fleet.of(Lane{Queue: d.Queue}) > 0:
			s.Apart = append(s.Apart, d)
		default:
			s.Unserved = append(s.Unserved, d)
		}
	}
	return s
}

// RoomSince returns since when the lane of each claimed delivery has had room, as far as this node knows; the zero time
// if it always had.
func (p *Planner) RoomSince(deliveries []task.Delivery) []time.Time {
	since := make([]time.Time, len(deliveries))
	for i, d := range deliveries {
		f := p.flows[LaneOf(d)]
		if f == nil {
			f = p.flows[Lane{Queue: d.Queue}]
		}
		if f != nil {
			since[i] = f.since
		}
	}
	return since
}
