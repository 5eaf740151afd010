package route

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A task of several slots goes to a node with as many free ones. Only when it has waited does it go to one that has
// fewer, and that keeps none for another task. By the rules that may choose any node, it waits for nothing else.
func TestReach_PlacesTasksOfSeveralSlots(t *testing.T) {
	t.Parallel()
	placed, gathered := 0, 0
	for i := range 20_000 {
		r := rand.New(rand.NewPCG(uint64(i), 8))
		nodes := someNodes(r)
		for i := range nodes {
			nodes[i].Slots += r.IntN(8)
			nodes[i].Shut, nodes[i].Failed = r.IntN(8) == 0, r.IntN(8) == 0
			if nodes[i].Shut {
				nodes[i].Spare = max(nodes[i].free(), 0)
			}
		}
		route, task := someRoute(r, i)
		task.Waited = time.Duration(r.IntN(2)) * GatherWait
		reach := Reach{Route: route, Slots: 2 + r.IntN(3)}
		place, _ := reach.Place(task, nodes, someTurns(r))
		has := func(c Candidate) bool { return !c.Shut && c.Slots-c.Running-c.Waiting >= reach.Slots }
		some := slices.ContainsFunc(nodes, has)
		bound := len(route.Order) > 0 || route.Sticky != StickyNot
		at := slices.IndexFunc(nodes, func(c Candidate) bool { return c.ID == place.Node })
		switch {
		case place.Shared:
			t.Fatalf("%d: %+v goes to the queue that all share", i, reach)
		case at >= 0 && has(nodes[at]):
			placed++
		case at >= 0 && (task.Waited < GatherWait || some && !bound || !slices.Contains(Gatherers(nodes), at)):
			t.Fatalf("%d: %+v goes to %+v of %+v after %v", i, reach, nodes[at], nodes, task.Waited)
		case at >= 0:
			gathered++
		case some && !bound:
			t.Fatalf("%d: %+v waits, while one has room of %+v", i, reach, nodes)
		case task.Waited < GatherWait && place.Still <= 0:
			t.Fatalf("%d: %+v waits for ever: %+v", i, reach, place)
		case task.Waited >= GatherWait && !bound && len(Gatherers(nodes)) > 0:
			t.Fatalf("%d: %+v waits, while one may keep slots of %+v", i, reach, nodes)
		}
	}
	if placed < 500 || gathered < 500 {
		t.Errorf("%d are placed and %d wait at a node: too few to say anything", placed, gathered)
	}
}

// Half of the nodes, and no more, may keep slots at once. One that lately did so in vain may not.
func TestGatherers_AreHalfOfTheNodes(t *testing.T) {
	t.Parallel()
	keeps, idle := Candidate{Slots: 2, Running: 1, Waiting: 2}, Candidate{Slots: 2, Running: 1}
	failed, shut := Candidate{Slots: 2, Failed: true}, Candidate{Slots: 2, Shut: true}
	for _, c := range []struct {
		nodes []Candidate
		want  []int
	}{
		{[]Candidate{idle}, []int{0}},
		{[]Candidate{keeps}, nil},
		{[]Candidate{keeps, idle}, nil},
		{[]Candidate{keeps, idle, failed}, []int{1}},
		{[]Candidate{keeps, keeps, idle}, nil},
		{[]Candidate{failed, shut}, nil},
		{nil, nil},
	} {
		if got := Gatherers(c.nodes); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v may keep slots, want %v", c.nodes, got, c.want)
		}
	}
}

func TestSlotsOf_ReadsTheWord(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]int{
		"": 1, ";;;4": 4, "zone=eu;;round;2": 2, "^a^b^;;;3": 3, "^a^b^": 1, "zone=eu;;": 1,
		";;;x": 1, ";;;101": 1, ";;;1": 1,
	} {
		if got := SlotsOf(word); got != want {
			t.Errorf("%q: %d slots, want %d", word, got, want)
		}
	}
	for _, word := range []string{";;;", ";;;1", ";;;101", ";;;x", ";;;2;"} {
		if r, err := ParseReach(word); err == nil {
			t.Errorf("%q is read as %+v", word, r)
		}
	}
}
