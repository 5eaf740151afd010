package handover

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/route"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// labelled are the labels of a node.
func labelled(values map[string]string) route.Labels {
	return func(name string) []string {
		if v, ok := values[name]; ok {
			return []string{v}
		}
		return nil
	}
}

// inZones returns a planner with nodes a, b and c of two slots each. Nodes a and b are in zone eu. It has a lane of
// tasks for these nodes by a route, which have waited in partition 1.
func inZones(by string) (*Planner, Lane) {
	p := New(Options{HandOver: 4, Partitions: 16, Look: never, Ask: time.Second})
	p.SetFleet(inZonesFleet(start))
	lane := Lane{Queue: "default", Type: "u", Reach: "zone=eu;;" + by}
	p.setBacklog(1, Backlog{lane: start.Add(-time.Minute)})
	return p, lane
}

func inZonesFleet(beat time.Time) Fleet {
	f := Fleet{Leaders: 1}
	for i, id := range []string{"a", "b", "c"} {
		n := aWorker(id, 2, 0, "default")
		n.Name, n.Labels, n.Beat = id, labelled(map[string]string{"zone": []string{"eu", "eu", "us"}[i]}), beat
		f.Workers = append(f.Workers, n)
	}
	return f
}

// looks has the planner look at the queues of its nodes, in which so many tasks wait or run.
func (p *Planner) looks(tasks map[string]int, now time.Time) (asked map[string]int) {
	lanes, levels := p.Asks(1, now)
	found := make(map[string]Look)
	for name := range levels {
		found[name] = Look{Waiting: tasks[name]}
	}
	p.Looked(lanes, found, now)
	return levels
}

func TestGrant_GivesTasksToNodesInTurn(t *testing.T) {
	t.Parallel()
	p, lane := inZones("round")
	if g, ok := p.Grant(1, false, start); ok {
		t.Errorf("before a look, it may claim %v", g.Lanes)
	}
	if asked := p.looks(nil, start); len(asked) != 3 || asked["default@a"] != 0 {
		t.Errorf("it looks at %v, want the queue and those of a and b", asked)
	}
	g, ok := p.Grant(1, false, start)
	if q := g.Lanes[lane]; !ok || q.Number != 4 || !slices.Equal(q.Nodes, []string{"a", "b", "a", "b"}) {
		t.Fatalf("it may claim %+v", q)
	}
	if other, ok := p.Grant(1, false, start); ok {
		t.Errorf("what is reserved is granted again: %v", other.Lanes)
	}
	// One is claimed: the next one is the turn of b.
	p.Claimed(1, g, Outcome{Claimed: map[Lane]int{lane: 1}, Found: Found{Backlog: Backlog{lane: start}}}, start)
	g, ok = p.Grant(1, false, start)
	if q := g.Lanes[lane]; !ok || !slices.Equal(q.Nodes, []string{"b", "a", "b"}) {
		t.Errorf("then it may claim %+v", q)
	}
}

func TestGrant_GivesNothingToNodesThatCannot(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		change func(p *Planner)
		tasks  map[string]int
		want   []string
	}{
		"all can":             {func(*Planner) {}, nil, []string{"a", "a", "b", "b"}},
		"one is full":         {func(*Planner) {}, map[string]int{"default@a": 2}, []string{"b", "b"}},
		"all are full":        {func(*Planner) {}, map[string]int{"default@a": 2, "default@b": 3}, nil},
		"one runs others":     {func(p *Planner) { p.fleet.Workers[0].Running = 1 }, nil, []string{"a", "b", "b"}},
		"another leader":      {func(p *Planner) { p.fleet.Leaders = 2 }, nil, []string{"a", "b"}},
		"one left deliveries": {func(p *Planner) { p.Left([]task.Delivery{{Node: "a"}}, start) }, nil, []string{"b", "b"}},
		"one left deliveries as it was full": {func(p *Planner) {
			p.fleet.Workers[0].Running = 2
			p.room("a").seen["default"] = seenQueue{slots: 1, at: start}
			p.Left([]task.Delivery{{Node: "a"}}, start)
			p.fleet.Workers[0].Running = 1
			clear(p.room("a").seen)
		}, nil, []string{"a", "b", "b"}},
		"it beats again": {func(p *Planner) {
			p.Left([]task.Delivery{{Node: "a"}}, start)
			p.SetFleet(inZonesFleet(start.Add(time.Second)))
		}, nil, []string{"a", "a", "b", "b"}},
		"one is silent": {func(p *Planner) { p.ServerFailed("default@b", Silent) }, nil, []string{"a", "a"}},
		"one serves another queue": {func(p *Planner) {
			f := inZonesFleet(start)
			f.Workers[1].Queues = map[string]int{"other": 1}
			p.SetFleet(f)
		}, nil, []string{"a", "a"}},
		"one runs another type": {func(p *Planner) {
			f := inZonesFleet(start)
			f.Workers[0].Types = []string{"v"}
			p.SetFleet(f)
		}, nil, []string{"b", "b"}},
	}
	for name, c := range cases {
		p, lane := inZones("first")
		c.change(p)
		p.looks(c.tasks, start)
		g, ok := p.Grant(1, false, start)
		if q := g.Lanes[lane]; !slices.Equal(q.Nodes, c.want) || ok != (c.want != nil) {
			t.Errorf("%s: %v, %v, want %v", name, q.Nodes, ok, c.want)
		}
	}
}

func TestGrant_GivesNothingOfAPausedQueueToNodes(t *testing.T) {
	t.Parallel()
	p, _ := inZones("first")
	lanes, levels := p.Asks(1, start)
	looks := make(map[string]Look)
	for name := range levels {
		looks[name] = Look{Paused: name == "default"}
	}
	p.Looked(lanes, looks, start)
	if g, ok := p.Grant(1, false, start); ok {
		t.Errorf("it may claim %v", g.Lanes)
	}
	later := start.Add(silentPause)
	p.looks(nil, later)
	if _, ok := p.Grant(1, false, later); !ok {
		t.Error("it may claim nothing after the pause")
	}
}

// asynq's tools show the queue of a node, and may pause it: the tasks go to other nodes meanwhile.
func TestGrant_GivesNothingToANodeWhoseQueueIsPaused(t *testing.T) {
	t.Parallel()
	p, lane := inZones("first")
	for i, paused := range []string{"default@a", "none"} {
		now := start.Add(time.Duration(i) * time.Second)
		lanes, levels := p.Asks(1, now)
		looks := make(map[string]Look)
		for name := range levels {
			looks[name] = Look{Paused: name == paused}
		}
		p.Looked(lanes, looks, now)
		g, _ := p.Grant(1, false, now)
		if gets := slices.Contains(g.Lanes[lane].Nodes, "a"); gets == (paused == "default@a") || g.Lanes[lane].Number == 0 {
			t.Errorf("%s is paused, and the tasks go to %v", paused, g.Lanes[lane].Nodes)
		}
	}
}

// A task waits two seconds for the node of its key, and goes elsewhere then.
func TestGrant_WaitsForTheNodeOfAKey(t *testing.T) {
	t.Parallel()
	p, lane := inZones("hash:7:prefer")
	p.looks(nil, start)
	g, _ := p.Grant(1, false, start)
	home := g.Lanes[lane].Nodes[0]
	p.Claimed(1, g, Outcome{Claimed: map[Lane]int{lane: 2}, Found: Found{Backlog: Backlog{lane: start}}}, start)
	full := map[string]int{"default@" + home: 2}
	for at, want := range []bool{false, true} {
		now := start.Add(time.Duration(at+1) * 1100 * time.Millisecond)
		p.looks(full, now)
		g, ok := p.Grant(1, false, now)
		if ok != want || ok && g.Lanes[lane].Nodes[0] == home {
			t.Errorf("after %v, it may claim %v, %v", now.Sub(start), g.Lanes[lane].Nodes, ok)
		}
	}
}

// While the node of a key, or of a move, has no free slot, tasks wait for it for a while, and then all go elsewhere.
// When it has one again, they wait for it again.
func TestGrant_WaitsOnceForANode(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reach string
		wait  time.Duration
	}{
		"key":                       {"zone=eu;;hash:7:prefer", route.StickyWait},
		"move":                      {"^c^b^", route.MoveWait},
		"key of tasks of two slots": {"zone=eu;;hash:7:prefer;2", route.StickyWait},
	} {
		p, lane := inZones("")
		p.setBacklog(1, nil)
		lane.Reach = c.reach
		p.setBacklog(1, Backlog{lane: start})
		now := start
		// nodes returns to which nodes tasks go after a moment, if so many run.
		nodes := func(after time.Duration, tasks map[string]int) []string {
			now = now.Add(after)
			p.looks(tasks, now)
			g, ok := p.Grant(1, false, now)
			if !ok {
				return nil
			}
			p.Claimed(1, g, Outcome{
				Claimed: map[Lane]int{lane: len(g.Lanes[lane].Nodes)}, Found: Found{Backlog: Backlog{lane: start}},
			}, now)
			return g.Lanes[lane].Nodes
		}
		home := nodes(0, nil)[0]
		full, all := map[string]int{"default@" + home: 2}, map[string]int{"default@a": 2, "default@b": 2, "default@c": 2}
		for step, s := range []struct {
			after time.Duration
			tasks map[string]int
			want  bool // it goes elsewhere
		}{
			{time.Second, full, false}, {c.wait, full, true}, {time.Second, full, true}, {time.Second, all, false},
			{time.Second, full, true}, {time.Second, nil, false}, {time.Second, full, false}, {c.wait, full, true},
		} {
			got := nodes(s.after, s.tasks)
			if elsewhere := len(got) > 0 && got[0] != home; elsewhere != s.want {
				t.Errorf("%s, step %d: tasks go to %v, and the node that they wait for is %s", name, step, got, home)
			}
		}
	}
}

// What was claimed for a node that has gone or is not in the reach any more comes back.
func TestSplit_TakesBackWhatTheNodeCannotTake(t *testing.T) {
	t.Parallel()
	p, lane := inZones("first")
	to := func(node string) task.Delivery {
		return task.Delivery{Queue: lane.Queue, Type: lane.Type, Reach: lane.Reach, Node: node}
	}
	s := p.Split([]task.Delivery{to("a"), to("c"), to("gone"), to("")})
	if len(s.Served) != 1 || s.Served[0].Node != "a" || len(s.Apart) != 3 {
		t.Errorf("%v are served, %v come back", s.Served, s.Apart)
	}
}

// A node whose queue has room again wakes those whose tasks may go there.
func TestHasRoom_OfANodeWakesItsTasks(t *testing.T) {
	t.Parallel()
	p, _ := inZones("first")
	p.looks(map[string]int{"default@a": 2, "default@b": 2}, start)
	p.Wakes()
	if asked := p.looks(nil, start); len(asked) != 0 {
		t.Errorf("it looks again at once at %v", asked)
	}
	p.HasRoom("default@a", start)
	p.wakesOnly(t, 1)
	if asked := p.looks(nil, start); len(asked) != 2 {
		t.Errorf("it looks at %v, want the queue of a", asked)
	}
}

// Nodes come, go and run other tasks, claims take as many as they like, and looks are as late as they may be. No node
// gets a task for which it has too few free slots or that it may not run, and none is free while a task may run there.
// A task of several slots that has waited goes to a node with too few of them, but only one at a time.
func TestGrant_FillsTheNodesThatMayRunTasks(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		fillNodes(t, seed)
	}
}

func fillNodes(t *testing.T, seed uint64) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 0))
	p := New(Options{HandOver: 4, Partitions: 16, Look: never, Ask: time.Second})
	now, runs := start, make(map[string][]int) // by node: the slots of the tasks that it has
	keeps := make(map[string]bool)             // nodes that keep slots for a task
	lanes := make([]Lane, 3)
	waiting := make([]int, len(lanes))
	for i := range lanes {
		by := []string{"round", "weighted_round", "first", "last", "random", "least_running", "least_used", "longest_idle",
			"weighted", "hash:3:", "busy_over:n2,n0", ""}[r.IntN(12)]
		lanes[i] = Lane{
			Queue: "default", Type: "u",
			Reach: fmt.Sprintf("%s;%s;%s%s", []string{"", "z=0", "z~in~(0,1)"}[r.IntN(3)], []string{"", "5*z=1"}[r.IntN(2)],
				by, []string{"", "", ";2", ";3"}[r.IntN(4)]),
		}
		waiting[i] = r.IntN(12)
	}
	if lanes[1] == lanes[2] || lanes[1] == lanes[0] || lanes[2] == lanes[0] {
		return
	}
	for step := range 60 {
		now = now.Add(time.Duration(500+r.IntN(300)) * time.Millisecond)
		f := Fleet{Leaders: 1}
		for i := range 4 {
			if r.IntN(10) == 0 {
				continue
			}
			id := fmt.Sprint("n", i)
			n := aWorker(id, 1+i, 0, "default")
			n.Name, n.Labels, n.Beat = id, labelled(map[string]string{"z": fmt.Sprint(i % 3)}), now
			f.Workers = append(f.Workers, n)
			if len(runs[id]) > 0 && r.IntN(2) == 0 {
				runs[id] = runs[id][1:]
			}
		}
		p.SetFleet(f)
		backlog := make(Backlog)
		for i, lane := range lanes {
			waiting[i] += r.IntN(3)
			if waiting[i] > 0 {
				backlog[lane] = start
			}
		}
		p.setBacklog(1, backlog)
		tasks := make(map[string]int)
		for id, of := range runs {
			tasks["default@"+id] = sum(of)
		}
		p.looks(tasks, now)
		var mayGather [3]bool // by lane: its tasks have waited long enough to go to a node with too few free slots
		for i, lane := range lanes {
			mayGather[i] = p.gathers(lane, now)
		}
		g, _ := p.Grant(1, false, now)
		claimed, after := make(map[Lane]int), make(Backlog)
		keptBefore := make(map[string]bool)
		for _, n := range f.Workers {
			keptBefore[n.ID] = sum(runs[n.ID]) > n.Capacity
		}
		gathered := make(map[string]int) // by node: the slots of a task that has come, and may wait there
		for i, lane := range lanes {
			quota := g.Lanes[lane]
			if len(quota.Nodes) != quota.Number {
				t.Fatalf("seed %d, step %d: %+v", seed, step, quota)
			}
			claimed[lane] = min(quota.Number, waiting[i])
			waiting[i] -= claimed[lane]
			for _, id := range quota.Nodes[:claimed[lane]] {
				slots := route.SlotsOf(lane.Reach)
				runs[id] = append(runs[id], slots)
				if mayGather[i] {
					gathered[id] = max(gathered[id], slots)
				}
				of := p.placer(lane).nodes
				isFit := slices.ContainsFunc(of, func(k int) bool { return f.Workers[k].ID == id })
				if !isFit || keptBefore[id] {
					t.Fatalf("seed %d, step %d: a task of %v goes to %s", seed, step, lane, id)
				}
			}
			if waiting[i] > 0 {
				after[lane] = start
			}
		}
		p.Claimed(1, g, Outcome{Claimed: claimed, Found: Found{Backlog: after}}, now)
		for _, n := range f.Workers {
			taken, kept := sum(runs[n.ID]), gathered[n.ID]
			if keeps[n.ID] = keeps[n.ID] || kept > 0 && taken-kept <= n.Capacity; taken <= n.Capacity {
				delete(keeps, n.ID)
			} else if !keeps[n.ID] {
				t.Fatalf("seed %d, step %d: the tasks of %s hold %v slots", seed, step, n.ID, runs[n.ID])
			}
		}
		again(t, p, lanes, waiting, runs, now.Add(silentPause<<slowest), fmt.Sprintf("seed %d, step %d", seed, step))
	}
}

// gathers reports whether tasks of several slots have waited so long that one of them may go to a node with too few.
func (p *Planner) gathers(lane Lane, now time.Time) bool {
	pl := p.placer(lane)
	return pl.reach.Holds() > 1 && !pl.full.IsZero() && now.Sub(pl.full) >= route.GatherWait
}

// fewKeep reports whether fewer than half of the nodes of a lane have more tasks than slots.
func (p *Planner) fewKeep(lane Lane, runs map[string][]int) bool {
	keep, of := 0, p.placer(lane).nodes
	for _, i := range of {
		if n := p.fleet.Workers[i]; sum(runs[n.ID]) > n.Capacity {
			keep++
		}
	}
	return 2*keep < len(of)
}

// sum adds up numbers.
func sum(numbers []int) (all int) {
	for _, n := range numbers {
		all += n
	}
	return all
}

// again looks again, and fails unless something may be claimed exactly if a task waits and a node for it has a free
// slot.
func again(t *testing.T, p *Planner, lanes []Lane, waiting []int, runs map[string][]int, now time.Time, at string) {
	t.Helper()
	tasks, want := make(map[string]int), false
	for _, n := range p.fleet.Workers {
		taken := sum(runs[n.ID])
		tasks["default@"+n.ID] = taken
		for i, lane := range lanes {
			reach, err := route.ParseReach(lane.Reach)
			testkit.Must(t, err)
			listed := len(reach.Route.Order) == 0 || slices.Contains(reach.Route.Order, n.Name)
			slots := reach.Holds()
			gathers := p.gathers(lane, now) && p.fewKeep(lane, runs)
			room := taken+slots <= n.Capacity || slots <= n.Capacity && taken <= n.Capacity && gathers
			want = want || waiting[i] > 0 && listed && reach.Select.Matches(n.Labels) && room
		}
	}
	p.looks(tasks, now)
	g, ok := p.Grant(1, false, now)
	if ok != want {
		t.Fatalf("%s: something may be claimed: %v, want %v: %v", at, ok, want, g.Lanes)
	}
	if ok {
		backlog := make(Backlog)
		for i, lane := range lanes {
			if waiting[i] > 0 {
				backlog[lane] = start
			}
		}
		p.Claimed(1, g, Outcome{Claimed: map[Lane]int{}, Found: Found{Backlog: backlog}}, now)
	}
}

// When a task of several slots has waited for a node with as many free ones, it goes to the node with the most. That
// keeps what becomes free for it, and gets no other task until it has all.
func TestGrant_HasANodeKeepSlotsForATask(t *testing.T) {
	t.Parallel()
	p, _ := inZones("first")
	for i, running := range []int{2, 1, 2} {
		p.fleet.Workers[i].Running = running
	}
	lane := Lane{Queue: "default", Type: "u", Reach: ";;;2"}
	backlog := Backlog{lane: start.Add(-time.Minute), {Queue: "default", Type: "u", Reach: "zone=eu;;first"}: start}
	p.setBacklog(1, Backlog{lane: start.Add(-time.Minute)})
	for _, waited := range []time.Duration{0, time.Second, route.GatherWait - time.Second} {
		p.looks(nil, start.Add(waited))
		if g, ok := p.Grant(1, false, start.Add(waited)); ok {
			t.Errorf("after %s, it may claim %+v", waited, g.Lanes[lane])
		}
	}
	now := start.Add(route.GatherWait)
	for range 2 { // a claim that takes nothing changes nothing
		p.looks(nil, now)
		g, ok := p.Grant(1, false, now)
		if q := g.Lanes[lane]; !ok || !slices.Equal(q.Nodes, []string{"b"}) {
			t.Fatalf("after %s, it may claim %+v", route.GatherWait, q)
		}
		p.Claimed(1, g, Outcome{Claimed: map[Lane]int{}, Found: Found{Backlog: Backlog{lane: start}}}, now)
		now = now.Add(time.Second)
	}
	p.looks(nil, now)
	g, _ := p.Grant(1, false, now)
	p.Claimed(1, g, Outcome{Claimed: map[Lane]int{lane: 1}, Found: Found{Backlog: backlog}}, now)
	d := task.Delivery{Queue: "default", Type: "u", Reach: lane.Reach, Node: "b"}
	p.looks(map[string]int{"default@b": 2}, now.Add(time.Second))
	if g, ok := p.Grant(1, false, now.Add(time.Second)); ok || !p.Stays(d, time.Second, now.Add(time.Second)) {
		t.Errorf("while b keeps slots, it may claim %+v", g.Lanes)
	}
	if p.Stays(d, route.GatherLimit, now.Add(time.Second)) {
		t.Error("it stays at b for ever")
	}
	p.lookedAt("default@b", Look{Waiting: 1, Further: 1, Paused: true}, now.Add(time.Second))
	if p.Stays(d, time.Second, now.Add(time.Second)) {
		t.Error("it stays at b, though its queue there is paused")
	}
	p.looks(map[string]int{"default@b": 2}, now.Add(time.Second))
	p.fleet.Workers[2].Running = 0
	if p.Stays(d, time.Second, now.Add(time.Second)) {
		t.Error("it stays at b, while c has two free slots")
	}
	if p.Stays(d, time.Second, now.Add(seenFor+time.Minute)) {
		t.Error("it stays at b, while the heartbeat of c tells of two free slots, and nobody looks at queues")
	}
	p.fleet.Workers[2].Running = 2
	p.Left([]task.Delivery{d}, now)
	now = now.Add(route.GatherLimit - time.Second)
	p.SetFleet(p.fleet.Fleet)
	p.looks(map[string]int{"default@b": 0, "default@c": 0, "default@a": 0}, now)
	for _, c := range p.candidates(lane, now) {
		if c.Failed != (c.ID == "b") {
			t.Errorf("%s kept slots in vain: %v", c.ID, c.Failed)
		}
	}
}

// Nodes that have too few slots in all get no task, nor do workers by HTTP. A node with pools has those of the largest.
func TestGrant_GivesTasksOfSeveralSlotsToNodesThatHaveAsMany(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(n *Node)
		want   []string
	}{
		"both have":      {func(*Node) {}, []string{"a", "b"}},
		"one is small":   {func(n *Node) { n.Capacity = 1 }, []string{"b"}},
		"one is a guest": {func(n *Node) { n.Guest = true }, []string{"b"}},
		"small pools":    {func(n *Node) { n.Largest = map[string]int{"default": 1} }, []string{"b"}},
		"large pools":    {func(n *Node) { n.Largest = map[string]int{"default": 2} }, []string{"a", "b"}},
	} {
		p, _ := inZones("first")
		f := inZonesFleet(start)
		f.Leaders = 2 // each of them may fill a node
		c.change(&f.Workers[0])
		p.SetFleet(f)
		lane := Lane{Queue: "default", Type: "u", Reach: "zone=eu;;first;2"}
		p.setBacklog(1, Backlog{lane: start})
		p.looks(nil, start)
		g, _ := p.Grant(1, false, start)
		if q := g.Lanes[lane]; !slices.Equal(q.Nodes, c.want) {
			t.Errorf("%s: they go to %v, want %v", name, q.Nodes, c.want)
		}
	}
}
