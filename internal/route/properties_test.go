package route

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// someNodes makes up nodes, some of which are full, equal, or have the name of another one.
func someNodes(r *rand.Rand) []Candidate {
	nodes := make([]Candidate, r.IntN(7))
	for i := range nodes {
		nodes[i] = Candidate{
			ID: fmt.Sprint("id-", i), Name: fmt.Sprint("name-", r.IntN(8)), Slots: r.IntN(5), Running: r.IntN(4),
			Waiting: r.IntN(2), CPU: float64(r.IntN(4)) / 3, Memory: float64(r.IntN(4)) / 3, Response: time.Duration(r.IntN(4)),
			LastUsed: start.Add(time.Duration(r.IntN(4)) * time.Minute), Used: float64(r.IntN(3)), Weight: r.IntN(4),
			Prefer: r.IntN(2) * 10,
		}
		if r.IntN(4) == 0 {
			nodes[i].CPU = math.NaN()
		}
	}
	return nodes
}

// someRoute makes up a route by each strategy in turn, and what it asks about a task.
func someRoute(r *rand.Rand, i int) (Route, Task) {
	route := Route{By: Strategies[i%len(Strategies)]}
	t := Task{Key: fmt.Sprint("key-", r.IntN(9)), Seed: r.Uint64(), Waited: time.Duration(r.IntN(4)) * time.Second}
	switch {
	case route.By == Failover, route.By == BusyOver && r.IntN(2) == 0:
		for _, n := range r.Perm(8)[:1+r.IntN(4)] {
			route.Order = append(route.Order, fmt.Sprint("name-", n))
		}
	case route.By == Hash:
		route.Sticky = []Sticky{StickyNot, StickyPrefer, StickyRequire}[r.IntN(3)]
	case route.By == Weighted && r.IntN(2) == 0:
		route.Load = Load{float64(r.IntN(2)), float64(r.IntN(2)), float64(r.IntN(2)), float64(r.IntN(2))}
	}
	return route, t
}

// someTurns makes up turns that nodes have had.
func someTurns(r *rand.Rand) Turns {
	i := r.IntN(8)
	return Turns{
		Name: fmt.Sprint("name-", i), ID: fmt.Sprint("id-", i),
		Credit: map[string]int{"id-0": r.IntN(5) - 2, "id-3": r.IntN(5) - 2, "gone": 7},
	}
}

// isFree is the rule which nodes can get a task: from the words of the documentation, not from the code.
func isFree(c Candidate) bool { return c.Running+c.Waiting < c.Slots }

// best returns the nodes for which a number is greatest.
func best(nodes []Candidate, number func(Candidate) float64) []Candidate {
	var most []Candidate
	for _, c := range nodes {
		if !slices.ContainsFunc(nodes, func(other Candidate) bool { return number(other) > number(c) }) {
			most = append(most, c)
		}
	}
	return most
}

func names(a, b Candidate) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) }

// allowed returns the nodes to which a task may go, by a slow and simple form of each rule; none if it waits.
func allowed(route Route, nodes []Candidate) []Candidate {
	free := slices.DeleteFunc(slices.Clone(nodes), func(c Candidate) bool { return !isFree(c) })
	free = best(free, func(c Candidate) float64 { return float64(c.Prefer) })
	position := func(c Candidate) float64 { return float64(slices.Index(route.Order, c.Name)) }
	switch {
	case len(route.Order) > 0:
		some := slices.DeleteFunc(slices.Clone(nodes), func(c Candidate) bool {
			return position(c) < 0 || route.By == BusyOver && !isFree(c)
		})
		some = best(some, func(c Candidate) float64 { return -position(c) })
		return slices.DeleteFunc(some, func(c Candidate) bool { return !isFree(c) })
	case route.By == First || route.By == BusyOver:
		slices.SortFunc(free, names)
		return free[:min(len(free), 1)]
	case route.By == Last:
		slices.SortFunc(free, names)
		return free[max(len(free)-1, 0):]
	case route.By == Any:
		return best(free, func(c Candidate) float64 { return float64(c.Slots - c.Running - c.Waiting) })
	case route.By == LeastRunning:
		return best(free, func(c Candidate) float64 { return -float64(c.Running + c.Waiting) })
	case route.By == LeastUsed:
		return best(free, func(c Candidate) float64 {
			return -math.Round(1e9 * c.Used * math.Pow(math.E, c.LastUsed.Sub(start).Hours()))
		})
	case route.By == LongestIdle:
		return best(free, func(c Candidate) float64 { return -float64(c.LastUsed.Unix()) })
	case route.By == Weighted:
		return best(free, func(c Candidate) float64 { return idleness(route.Load, c, free) })
	case route.By == Hash:
		return nil // TestHash_... have its rules
	}
	return free
}

// idleness is the formula of the route weighted, rounded, so that the order of additions does not matter.
func idleness(l Load, c Candidate, free []Candidate) float64 {
	if l == (Load{}) {
		l = Load{0.4, 0.3, 0.3, 0}
	}
	cpu, speed := 1-c.CPU, 0.5
	if math.IsNaN(c.CPU) {
		cpu = 0.5
	}
	if c.Response > 0 {
		speed = 1
		for _, other := range free {
			if other.Response > 0 {
				speed = min(speed, float64(other.Response)/float64(c.Response))
			}
		}
	}
	slots := float64(c.Slots-c.Running-c.Waiting) / float64(c.Slots)
	sum := l.CPU*cpu + l.Memory*(1-c.Memory) + l.Slots*slots + l.Response*speed
	return math.Round(1e9 * float64(max(c.Weight, 1)) * sum)
}

func TestRoute_AgreesWithAnOracle(t *testing.T) {
	t.Parallel()
	for i := range 40_000 {
		r := rand.New(rand.NewPCG(uint64(i), 0))
		nodes, turns := someNodes(r), someTurns(r)
		route, asked := someRoute(r, i)
		if err := route.Check(); err != nil {
			t.Fatal(err)
		}
		got, _ := route.Place(asked, nodes, turns)
		at := slices.IndexFunc(nodes, func(c Candidate) bool { return c.ID == got.Node })
		want := allowed(route, nodes)
		switch {
		case got.Node != "" && (at < 0 || !isFree(nodes[at])):
			t.Fatalf("%d: %+v goes to %q, which has no free slot: %+v", i, route, got.Node, nodes)
		case got.Shared || got.Node != "" && got.For != "":
			t.Fatalf("%d: %+v is at two places: %+v", i, route, got)
		case route.By == Hash:
			if got == (Place{}) && slices.ContainsFunc(nodes, isFree) {
				t.Fatalf("%d: %+v waits for nothing, while nodes are free: %+v", i, route, nodes)
			}
		case got.Node == "" && len(want) > 0:
			t.Fatalf("%d: %+v waits, while nodes are free: %+v", i, route, nodes)
		case got.Node != "" && !slices.ContainsFunc(want, func(c Candidate) bool { return c.ID == got.Node }):
			t.Fatalf("%d: %+v goes to %q, want one of %+v; nodes %+v", i, route, got.Node, want, nodes)
		}
	}
}

func TestRoute_DependsOnItsArgumentsOnly(t *testing.T) {
	t.Parallel()
	for i := range 20_000 {
		r := rand.New(rand.NewPCG(uint64(i), 1))
		nodes, turns := someNodes(r), someTurns(r)
		route, asked := someRoute(r, i)
		before := turns
		before.Credit = maps.Clone(turns.Credit)
		shuffled := slices.Clone(nodes)
		r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		unchanged := slices.Clone(shuffled)

		got, next := route.Place(asked, nodes, turns)
		again, nextAgain := route.Place(asked, shuffled, turns)
		if got != again || fmt.Sprint(next) != fmt.Sprint(nextAgain) {
			t.Fatalf("%d: %+v: %+v, and in another order of nodes %+v; %v, %v", i, route, got, again, next, nextAgain)
		}
		if fmt.Sprint(turns) != fmt.Sprint(before) || fmt.Sprint(shuffled) != fmt.Sprint(unchanged) {
			t.Fatalf("%d: %+v changed its arguments", i, route)
		}
		if got.Node == "" && fmt.Sprint(next) != fmt.Sprint(before) {
			t.Fatalf("%d: %+v: the task waits, and the turns are %v after %v", i, route, next, before)
		}
	}
}

// Where all nodes are equal, each gets its part of many tasks.
func TestRoute_SpreadsTasksOverEqualNodes(t *testing.T) {
	t.Parallel()
	const nodes, tasks = 7, 14_000
	fleet := make([]Candidate, nodes)
	for i := range fleet {
		fleet[i] = idle5(fmt.Sprint("node-", i))
	}
	for _, by := range []Strategy{Any, Random, Hash, LeastRunning, LeastUsed, LongestIdle, Weighted} {
		got := make(map[string]int)
		for i := range uint64(tasks) {
			p, _ := Route{By: by}.Place(Task{Key: fmt.Sprint("order-", i), Seed: i}, fleet, Turns{})
			got[p.Node]++
		}
		for id, n := range got {
			if n < tasks/nodes*9/10 || n > tasks/nodes*11/10 { // 200 is 4.8 standard deviations
				t.Errorf("%s: %s got %d of %d tasks, want about %d", by, id, n, tasks, tasks/nodes)
			}
		}
		if len(got) != nodes {
			t.Errorf("%s: tasks went to %d nodes, want %d", by, len(got), nodes)
		}
	}
}

// A node that gets busier is not chosen for that.
func TestWeighted_AvoidsWhatGetsBusier(t *testing.T) {
	t.Parallel()
	for i := range uint64(20_000) {
		r := rand.New(rand.NewPCG(i, 2))
		nodes := someNodes(r)
		route, asked := Route{By: Weighted, Load: Load{r.Float64(), r.Float64(), r.Float64(), r.Float64()}}, Task{Seed: i}
		before, _ := route.Place(asked, nodes, Turns{})
		if len(nodes) == 0 {
			continue
		}
		c := &nodes[r.IntN(len(nodes))]
		if c.ID == before.Node {
			continue
		}
		switch r.IntN(4) {
		case 0:
			c.CPU = min(c.CPU+r.Float64(), 1) // NaN stays
		case 1:
			c.Memory = min(c.Memory+r.Float64(), 1)
		case 2:
			c.Running++
		case 3:
			if c.Response > 0 {
				c.Response += time.Duration(r.IntN(5))
			}
		}
		if after, _ := route.Place(asked, nodes, Turns{}); after.Node == c.ID {
			t.Fatalf("%d: %q was chosen when it was busier, and %q before", i, c.ID, before.Node)
		}
	}
}

// Nodes come, go, are full and are free again. Of any two that could always get a task, each gets its turn after the
// other one.
func TestRound_ShiftsNobodyIfNodesComeAndGo(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 3))
		lasting := []Candidate{idle5("b"), idle5("e"), idle5("h")}
		others := []Candidate{idle5("a"), idle5("c"), idle5("d"), idle5("f"), idle5("i")}
		var turns Turns
		var got []string
		for range 60 {
			nodes := slices.Clone(lasting)
			for _, c := range others {
				if r.IntN(2) == 0 {
					c.Running = r.IntN(2) * 5
					nodes = append(nodes, c)
				}
			}
			var p Place
			p, turns = Route{By: Round}.Place(Task{}, nodes, turns)
			if slices.Contains([]string{"b-", "e-", "h-"}, p.Node) {
				got = append(got, p.Node)
			}
		}
		for i, id := range got {
			if want := []string{"b-", "e-", "h-"}[(slices.Index([]string{"b-", "e-", "h-"}, got[0])+i)%3]; id != want {
				t.Fatalf("seed %d: turn %d of %v is that of %s, want %s", seed, i, got, id, want)
			}
		}
	}
}

// inTurn returns the ids of the nodes whose turn it is n times.
func inTurn(nodes []Candidate, n int) (ids []string, turns Turns) {
	for range n {
		var p Place
		p, turns = Route{By: WeightedRound}.Place(Task{}, nodes, turns)
		ids = append(ids, p.Node)
	}
	return ids, turns
}

func TestWeightedRound_GivesEachItsWeight(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 4))
		nodes := make([]Candidate, 1+r.IntN(6))
		sum := 0
		for i := range nodes {
			nodes[i] = idle5(string(rune('a' + i)))
			nodes[i].Weight = 1 + r.IntN(9)
			sum += nodes[i].Weight
		}
		ids, turns := inTurn(nodes, 3*sum)
		for i := range 2*sum + 1 {
			got := make(map[string]int)
			for _, id := range ids[i : i+sum] {
				got[id]++
			}
			for _, c := range nodes {
				if got[c.ID] != c.Weight {
					t.Fatalf("seed %d: %s came %d times in turns %d to %d, want %d", seed, c.ID, got[c.ID], i, i+sum, c.Weight)
				}
			}
		}
		for id, credit := range turns.Credit {
			if credit != 0 {
				t.Fatalf("seed %d: %s has %d after three rounds, want 0", seed, id, credit)
			}
		}
	}
	nodes := having(weight(5), weight(1), weight(1))
	if ids, _ := inTurn(nodes, 7); !slices.Equal(ids, []string{"a-", "a-", "b-", "a-", "c-", "a-", "a-"}) {
		t.Errorf("weights 5, 1, 1: %v, want the order that nginx documents: a a b a c a a", ids)
	}
}

// While nodes are full now and then, none of them saves more turns than a round, nor owes more.
func TestWeightedRound_BoundsWhatIsSaved(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 5))
		nodes := make([]Candidate, 2+r.IntN(5))
		sum := 0
		for i := range nodes {
			nodes[i] = idle5(string(rune('a' + i)))
			nodes[i].Weight = 1 + r.IntN(9)
			sum += nodes[i].Weight
		}
		var turns Turns
		for step := range 2000 {
			living := slices.Clone(nodes)
			if r.IntN(20) == 0 {
				living = living[1:] // it is forgotten
			}
			for i := range living {
				living[i].Running = r.IntN(2) * 5
			}
			_, turns = Route{By: WeightedRound}.Place(Task{}, living, turns)
			for id, credit := range turns.Credit {
				if limit := len(nodes) * sum; credit > limit || credit < -limit {
					t.Fatalf("seed %d: %s has %d after %d turns, want at most %d", seed, id, credit, step, limit)
				}
			}
			gone := turns.Credit[nodes[0].ID] != 0 && living[0].ID != nodes[0].ID
			if gone && slices.ContainsFunc(living, isFree) {
				t.Fatalf("seed %d: %s is gone and has %d", seed, nodes[0].ID, turns.Credit[nodes[0].ID])
			}
		}
	}
}

// homes returns to which of some idle nodes each of 2,000 keys goes.
func homes(nodes []Candidate) map[string]string {
	got := make(map[string]string)
	for i := range 2000 {
		key := fmt.Sprint("customer-", i)
		p, _ := Route{By: Hash}.Place(Task{Key: key}, nodes, Turns{})
		got[key] = p.Node
	}
	return got
}

func TestHash_MovesOnlyTheKeysOfTheNodeThatWent(t *testing.T) {
	t.Parallel()
	nodes := having(same, same, same, same, same, same, same, same)
	before := homes(nodes)
	for i, gone := range nodes {
		moved := 0
		for key, home := range homes(slices.Delete(slices.Clone(nodes), i, i+1)) {
			switch {
			case before[key] == gone.ID:
				moved++
			case before[key] != home:
				t.Fatalf("without %s, %s moves from %s to %s", gone.Name, key, before[key], home)
			}
		}
		if moved < 2000/8*7/10 || moved > 2000/8*13/10 {
			t.Errorf("%s had %d of 2000 keys, want about %d", gone.Name, moved, 2000/8)
		}
	}
}

func TestHash_ReturnsKeysToANodeThatRestarts(t *testing.T) {
	t.Parallel()
	nodes := having(same, same, same)
	before := homes(nodes)
	nodes[1].ID = "b-again"
	for key, home := range homes(nodes) {
		if want := before[key]; home != want && (want != "b-" || home != "b-again") {
			t.Fatalf("%s is at %s, and was at %s", key, home, want)
		}
	}
}

// Two nodes with one name are one place, whose keys they share.
func TestHash_SharesTheKeysOfAName(t *testing.T) {
	t.Parallel()
	got := make(map[string]int)
	for _, home := range homes(having(same, same, named("b"))) {
		got[home]++
	}
	if got["a-"] < 900 || got["a-"] > 1100 || got["b-"] < 400 || got["b-"] > 600 {
		t.Errorf("%v of 2000 keys, want about 1000, 500 and 500", got)
	}
}

// All nodes of an installation must agree where a key goes, also while they are upgraded.
func TestHash_IsTheSameInAllReleases(t *testing.T) {
	t.Parallel()
	nodes := having(same, same, same, same, same, same, same, same)
	for key, want := range map[string]string{"": "c-", "customer-7": "g-", "import": "c-", "käse": "c-", "order-1": "f-"} {
		if got, _ := (Route{By: Hash}).Place(Task{Key: key}, nodes, Turns{}); got.Node != want {
			t.Errorf("%q goes to %s, want %s", key, got.Node, want)
		}
	}
}

// With one hot key, tasks come one after the other, and each stays. No node gets more than half of its slots, or 5/4 of
// its share of the tasks, both rounded up. Yet all slots are filled in the end.
func TestHash_PassesOverANodeWithTooMuch(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 6))
		nodes := make([]Candidate, 1+r.IntN(6))
		total := 0
		for i := range nodes {
			nodes[i] = idle5(string(rune('a' + i)))
			nodes[i].Slots = r.IntN(12)
			total += nodes[i].Slots
		}
		for n := 1; n <= total; n++ {
			p, _ := Route{By: Hash}.Place(Task{Key: []string{"hot", fmt.Sprint(r.IntN(9))}[r.IntN(2)]}, nodes, Turns{})
			i := slices.IndexFunc(nodes, func(c Candidate) bool { return c.ID == p.Node })
			if i < 0 {
				t.Fatalf("seed %d: task %d of %d waits, while slots are free", seed, n, total)
			}
			nodes[i].Running++
			share := float64(nodes[i].Slots) / float64(total)
			bound := max(math.Ceil(1.25*float64(n)*share), math.Ceil(float64(nodes[i].Slots)/2))
			if got := nodes[i].Running; float64(got) > bound {
				t.Fatalf("seed %d: %s has %d of %d tasks with %d of %d slots, want at most %v",
					seed, p.Node, got, n, nodes[i].Slots, total, bound)
			}
		}
	}
}

// A route that goes by what a node got before spreads tasks evenly, however they come.
func TestLeastUsed_SpreadsTasks(t *testing.T) {
	t.Parallel()
	for _, by := range []Strategy{LeastUsed, LongestIdle} {
		nodes := having(same, same, same, same, same)
		got := make(map[string]int)
		now := start
		r := rand.New(rand.NewPCG(1, 7))
		for seed := range uint64(500) {
			now = now.Add(time.Duration(1+r.IntN(60_000)) * time.Millisecond)
			for i := range nodes {
				nodes[i].Running = min(r.IntN(8), 1) * r.IntN(2) * 5
			}
			p, _ := Route{By: by}.Place(Task{Seed: seed}, nodes, Turns{})
			for i := range nodes {
				if nodes[i].ID == p.Node {
					nodes[i] = nodes[i].HandOver(now)
					got[p.Node]++
				}
				nodes[i].Waiting = 0
			}
		}
		for id, n := range got {
			if n < 80 || n > 120 {
				t.Errorf("%s: %s got %d of 500 tasks, want about 100", by, id, n)
			}
		}
	}
}
