package handover

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/dts-sched/dts/internal/route"
	"github.com/dts-sched/dts/internal/task"
)

const (
	// placersLimit is of how many pools with a reach it is known whose turn it is.
	placersLimit = 1000
	// seenFor is how long a look at the queue of a node counts.
	seenFor = time.Second
)

// nodeRoom is what is known of what one node has: how much of its slots is taken, and how often it was chosen.
type nodeRoom struct {
	seen     map[string]seenQueue // by queue
	reserved int                  // slots of tasks that claims may be handing to it at the moment
	used     float64
	lastUsed time.Time
	doubted  time.Time // its heartbeat when it left a delivery too long; zero if it has not
	failed   time.Time // when it left a task of several slots too long; zero if it has not
}

// seenQueue is a queue of one node.
type seenQueue struct {
	slots int       // of tasks that wait there, or that the node runs
	still int       // looks in a row that have found as many
	at    time.Time // of the look
	asked time.Time // when a look was asked for; zero: ask again

	paused bool // somebody has paused it, in one of asynq's tools
}

func (n *nodeRoom) forgetAsked(queue string) {
	if s, known := n.seen[queue]; known {
		s.asked = time.Time{}
		n.seen[queue] = s
	}
}

// placer decides for the tasks of a pool with a reach to which nodes they go.
type placer struct {
	reach  route.Reach
	broken bool  // somebody has written the reach by hand: no node is in it
	nodes  []int // places of those in the fleet that may run its tasks
	turns  route.Turns
	count  int       // how often it was somebody's turn
	full   time.Time // since when tasks wait for the node of their key or move, or for slots; zero if they do not
	used   time.Time
}

// placing is to which nodes the tasks of a quota go, and whose turn it was before each of them and after the last one.
type placing struct {
	turns []route.Turns
	count int       // of the placer, when all were chosen
	full  time.Time // of the placer, before that
}

// placer returns the placer of a pool with a reach.
func (p *Planner) placer(pool Lane) *placer {
	pl := p.placers[pool]
	if pl != nil {
		return pl
	}
	if len(p.placers) >= placersLimit {
		oldest := slices.MinFunc(slices.Collect(maps.Keys(p.placers)), func(a, b Lane) int {
			return cmp.Or(p.placers[a].used.Compare(p.placers[b].used), byName(a, b))
		})
		delete(p.placers, oldest)
	}
	reach, err := route.ParseReach(pool.Reach)
	pl = &placer{reach: reach, broken: err != nil}
	pl.setNodes(pool, p.fleet.Workers)
	if n := uint64(len(pl.nodes)); n > 0 && p.o.Seed != 0 {
		pl.turns.Name = p.fleet.Workers[pl.nodes[p.o.Seed%n]].Name // or all leaders would begin with the same one
	}
	p.placers[pool] = pl
	return pl
}

// setNodes finds out which nodes may run the tasks of a pool.
func (pl *placer) setNodes(pool Lane, workers []Node) {
	pl.nodes = pl.nodes[:0]
	for i := range workers {
		fits := workers[i].serves(pool) && workers[i].hasSlots(pool.Queue, pl.reach.Holds())
		if !pl.broken && fits && pl.reach.Select.Matches(workers[i].Labels) {
			pl.nodes = append(pl.nodes, i)
		}
	}
}

// serves reports whether the node takes tasks of a pool, if its labels allow.
func (n Node) serves(pool Lane) bool {
	_, serves := n.Queues[pool.Queue]
	return serves && n.runs(pool.Type) && n.Capacity > 0
}

// setNodes notes that the fleet has changed.
func (p *Planner) setNodes() {
	ids := make(map[string]bool, len(p.fleet.Workers))
	for _, n := range p.fleet.Workers {
		ids[n.ID] = true
	}
	maps.DeleteFunc(p.nodes, func(id string, n *nodeRoom) bool { return !ids[id] && n.reserved == 0 })
	maps.DeleteFunc(p.servers, func(name string, _ Server) bool {
		_, node := task.SplitNodeQueue(name)
		return node != "" && !ids[node]
	})
	for pool, pl := range p.placers {
		pl.setNodes(pool, p.fleet.Workers)
	}
}

// room returns what is known of a node.
func (p *Planner) room(id string) *nodeRoom {
	n := p.nodes[id]
	if n == nil {
		n = &nodeRoom{seen: make(map[string]seenQueue)}
		p.nodes[id] = n
	}
	return n
}

// load is how many slots the tasks of a node hold, as far as known: those that it runs by its heartbeat. What was
// handed to it alone is known better from the looks at its queues.
func (n *nodeRoom) load(of Node, now time.Time) int {
	load := of.Running + n.reserved
	for queue, s := range n.seen {
		if now.Sub(s.at) <= seenFor {
			load += s.slots - of.Placed[queue]
		}
	}
	return max(load, 0)
}

// candidates returns the nodes that may run tasks of a pool. Of the slots that are free each leader may fill a part,
// and none of a node that cannot take tasks now. A task of several slots needs more than a part: for it all of them
// count, and two leaders may choose one node at once.
func (p *Planner) candidates(pool Lane, now time.Time) []route.Candidate {
	pl := p.placer(pool)
	all := make([]route.Candidate, 0, len(pl.nodes))
	for _, i := range pl.nodes {
		of, n := p.fleet.Workers[i], p.room(p.fleet.Workers[i].ID)
		c := route.Candidate{
			ID: of.ID, Name: of.Name, Slots: of.Capacity, Running: n.load(of, now),
			CPU: of.CPU, Memory: of.Memory, Response: of.Response, Weight: of.Weight,
			LastUsed: n.lastUsed, Used: n.used, Prefer: pl.reach.Prefer.Sum(of.Labels),
			Failed: now.Sub(n.failed) < route.GatherLimit,
		}
		free := max(c.Slots-c.Running, 0)
		switch c.Shut = !p.canTake(pool, of, n, now); {
		case c.Shut:
			c.Spare = free
		case pl.reach.Holds() == 1:
			c.Spare = free - p.share(free)
		}
		all = append(all, c)
	}
	return all
}

// canTake reports whether a node can take tasks of a pool now, as far as known.
func (p *Planner) canTake(pool Lane, of Node, n *nodeRoom, now time.Time) bool {
	return p.isOpen(pool, of, n) && now.Sub(n.seen[pool.Queue].at) <= seenFor
}

// isOpen reports whether nothing known keeps a node from taking a task of a pool.
func (p *Planner) isOpen(pool Lane, of Node, n *nodeRoom) bool {
	answers := p.servers[task.NodeQueue(pool.Queue, of.ID)] == Answers
	return answers && !p.paused[pool.Queue] && !n.isDoubted(of) && !n.seen[pool.Queue].paused
}

// isDoubted reports whether the node left a delivery too long, and has not beaten since.
func (n *nodeRoom) isDoubted(of Node) bool { return !n.doubted.IsZero() && n.doubted.Equal(of.Beat) }

// grantNodes adds what may be claimed of a pool with a reach, if some of its tasks wait in the partition, and to which
// nodes they go. What comes new waits until there is a node for it. It returns whether there is something.
func (p *Planner) grantNodes(partition int, pool Lane, f *flow, r *rooms, g *Grant, now time.Time) bool {
	pl := p.placer(pool)
	pl.used = now
	if !f.waits(partition) {
		g.Lanes[pool] = Quota{}
		return false
	}
	nodes := p.candidates(pool, now)
	f.free = pl.room(nodes, now)
	own, keyed := f.portions(partition, r)
	if len(f.plain.line) == 0 {
		own = Quota{}
	}
	g.add(pool, own, keyed)
	return p.place(pool, g, nodes, now)
}

// room returns for how many tasks the nodes have room. When tasks of several slots have found none for a while, there
// is room for one where a node may keep slots for it.
func (pl *placer) room(nodes []route.Candidate, now time.Time) (tasks int) {
	slots := pl.reach.Holds()
	for _, c := range nodes {
		tasks += max(c.Slots-c.Running-c.Spare, 0) / slots
	}
	if tasks > 0 || slots == 1 {
		return tasks
	}
	if pl.full.IsZero() {
		pl.full = now
	}
	if now.Sub(pl.full) >= route.GatherWait {
		return min(len(route.Gatherers(nodes)), 1)
	}
	return 0
}

// place chooses the nodes for the tasks of a pool that a claim may take, and takes the number of them back for which
// there are none. It returns whether there are some.
func (p *Planner) place(pool Lane, g *Grant, nodes []route.Candidate, now time.Time) (some bool) {
	pl := p.placer(pool)
	var lanes []Lane
	for lane, quota := range g.Lanes {
		if lane.pool() == pool && quota.Number > 0 {
			lanes = append(lanes, lane)
		}
	}
	slices.SortFunc(lanes, byName)
	for _, lane := range lanes {
		quota := g.Lanes[lane]
		quota.turns, quota.full = []route.Turns{pl.turns}, pl.full
		for range quota.Number {
			place, turns := pl.next(p.o.Seed, nodes, now)
			i := slices.IndexFunc(nodes, func(c route.Candidate) bool { return c.ID == place.Node })
			if i < 0 {
				break
			}
			pl.turns, pl.count = turns, pl.count+1
			nodes[i] = nodes[i].HandOver(now)
			nodes[i].Waiting += pl.reach.Holds() - 1
			quota.Nodes, quota.turns = append(quota.Nodes, place.Node), append(quota.turns, turns)
		}
		quota.Number, quota.count = len(quota.Nodes), pl.count
		for _, id := range quota.Nodes {
			p.room(id).reserved += pl.reach.Holds()
			some = true
		}
		g.Lanes[lane] = quota
	}
	return some
}

// seedStep is between the seeds of two tasks.
const seedStep = 0x9e3779b97f4a7c15

// next chooses the node of the next task, and returns whose turn it is then. While the nodes for which it would wait
// have no free slot, all tasks of the lane wait from the same moment on.
func (pl *placer) next(seed uint64, nodes []route.Candidate, now time.Time) (route.Place, route.Turns) {
	t := route.Task{Key: strconv.Itoa(pl.reach.Bucket), Seed: seed + uint64(pl.count)*seedStep}
	place, turns := pl.reach.Place(t, nodes, pl.turns)
	switch {
	case place.Node != "":
		pl.full = time.Time{}
	case place.For == "" && place.Still == 0 && pl.reach.Holds() == 1: // it waits for any node
	case pl.full.IsZero():
		pl.full = now
	default:
		t.Waited = now.Sub(pl.full)
		place, turns = pl.reach.Place(t, nodes, pl.turns)
		if i := slices.IndexFunc(nodes, func(c route.Candidate) bool { return c.ID == place.Node }); i >= 0 &&
			nodes[i].Slots-nodes[i].Running-nodes[i].Waiting < pl.reach.Holds() {
			pl.full = now // it gathers, and the next one waits as long
		}
	}
	return place, turns
}

// placed notes how many tasks of a lane were claimed, of those that have nodes. Whose turn it is goes back, unless
// others were chosen since.
func (p *Planner) placed(lane Lane, quota Quota, claimed int, now time.Time) {
	if len(quota.Nodes) == 0 {
		return
	}
	pl := p.placer(lane.pool())
	for i, id := range quota.Nodes {
		n := p.room(id)
		n.reserved -= pl.reach.Holds()
		if i < claimed {
			s := n.seen[lane.Queue]
			s.slots += pl.reach.Holds()
			n.seen[lane.Queue] = s
			c := route.Candidate{Used: n.used, LastUsed: n.lastUsed}.HandOver(now)
			n.used, n.lastUsed = c.Used, c.LastUsed
		}
	}
	if pl.count == quota.count {
		if pl.turns = quota.turns[min(claimed, len(quota.Nodes))]; claimed == 0 {
			pl.full = quota.full
		}
	}
}

// askNodes adds the queues of the nodes to which tasks of a pool may go to those at which to look. The workers are to
// tell when they have taken what waits there.
func (p *Planner) askNodes(pool Lane, levels map[string]int, now time.Time) {
	for _, i := range p.placer(pool).nodes {
		id := p.fleet.Workers[i].ID
		name := task.NodeQueue(pool.Queue, id)
		s := p.room(id).seen[pool.Queue]
		if p.servers[name] == Asked || now.Sub(s.asked) < p.nodePause(s) {
			continue
		}
		s.asked = now
		p.room(id).seen[pool.Queue] = s
		levels[name] = 0
		if _, known := levels[pool.Queue]; !known {
			levels[pool.Queue] = NoLevel // tells whether it is paused
		}
	}
}

// slowest is how often the time between two looks at the queue of a node doubles while nothing changes there.
const slowest = 3

// nodePause is the time between two looks at the queue of a node.
func (p *Planner) nodePause(s seenQueue) time.Duration {
	return min(silentPause<<min(s.still, slowest), p.o.Ask)
}

// placePause is the time between two looks at the nodes to which tasks of a pool may go.
func (p *Planner) placePause(pool Lane) time.Duration {
	pause := p.o.Ask
	for _, i := range p.placer(pool).nodes {
		pause = min(pause, p.nodePause(p.room(p.fleet.Workers[i].ID).seen[pool.Queue]))
	}
	return pause
}

// lookedAt notes what was seen of a queue, or of a queue of one node.
func (p *Planner) lookedAt(name string, look Look, now time.Time) {
	queue, id := task.SplitNodeQueue(name)
	if id != "" {
		s := p.room(id).seen[queue]
		if slots := look.Waiting + look.Active + look.Further; slots != s.slots || s.at.IsZero() {
			s.slots, s.still = slots, 0
		} else {
			s.still++
		}
		s.at, s.paused = now, look.Paused
		p.room(id).seen[queue] = s
		return
	}
	if delete(p.paused, queue); look.Paused {
		p.paused[queue] = true
	}
}

// mayTake reports whether the node may take a delivery that was handed to it alone.
func (p *Planner) mayTake(d task.Delivery) bool {
	pool := LaneOf(d)
	return slices.ContainsFunc(p.placer(pool).nodes, func(i int) bool { return p.fleet.Workers[i].ID == d.Node })
}

// Stays reports whether a delivery of several slots that its node has not taken stays there for now, as it would go
// nowhere else. The node takes it next, and keeps what becomes free for it. age is the time since it was claimed.
func (p *Planner) Stays(d task.Delivery, age time.Duration, now time.Time) bool {
	pool := LaneOf(d)
	pl := p.placer(pool)
	if pl.reach.Holds() == 1 || age >= route.GatherLimit || !p.mayTake(d) || p.room(d.Node).seen[d.Queue].paused {
		return false
	}
	nodes := p.candidates(pool, now)
	for i, k := range pl.nodes { // while nothing waits in lanes, nobody looks at their queues: heartbeats count
		if of := p.fleet.Workers[k]; nodes[i].Shut && p.isOpen(pool, of, p.room(of.ID)) {
			nodes[i].Shut, nodes[i].Spare = false, 0
		}
	}
	t := route.Task{Key: strconv.Itoa(pl.reach.Bucket), Seed: p.o.Seed}
	place, _ := pl.reach.Place(t, nodes, pl.turns)
	return place.Node == "" || place.Node == d.Node
}

// Left tells that nodes did not take deliveries for a while that were handed to them alone. A node that had free slots
// for them gets no further ones until its next heartbeat: it may be dead.
func (p *Planner) Left(deliveries []task.Delivery, now time.Time) {
	left, most := make(map[string]int), make(map[string]int) // slots by node
	for _, d := range deliveries {
		slots := route.SlotsOf(d.Reach)
		left[d.Node] += slots
		most[d.Node] = max(most[d.Node], slots)
	}
	for _, of := range p.fleet.Workers {
		n := p.room(of.ID)
		if left[of.ID] > 0 && n.load(of, now)-left[of.ID]+most[of.ID] <= of.Capacity {
			n.doubted = of.Beat
		}
		if most[of.ID] > 1 {
			p.room(of.ID).failed = now
		}
	}
}
