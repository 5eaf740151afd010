package handover

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

func aWorker(id string, capacity, running int, queues ...string) Node {
	n := Node{ID: id, Capacity: capacity, Running: running, Queues: map[string]int{}}
	for _, q := range queues {
		n.Queues[q] = 1
	}
	return n
}

func fleetOf(workers ...Node) *Planner {
	p := New(Options{HandOver: 4, Partitions: 16})
	p.SetFleet(Fleet{Workers: workers, Leaders: 1})
	return p
}

func TestChoose_PicksAsManyNodesAsTheDeliveriesNeed(t *testing.T) {
	t.Parallel()
	s := fleetOf(
		aWorker("a", 10, 9, "q"), aWorker("b", 10, 0, "q", "other"), aWorker("full", 10, 10, "q"),
		aWorker("else", 10, 0, "other"),
	)
	picked := map[string]int{}
	for range 1100 {
		chosen := s.Choose("q", map[string]int{"http": 1}, rand.IntN)
		if len(chosen) != 1 {
			t.Fatalf("chose %v for one delivery, want one node", chosen)
		}
		picked[chosen[0]]++
	}
	if picked["a"]+picked["b"] != 1100 || picked["a"] < 50 || picked["a"] > 150 {
		t.Errorf("chose %v, want only a and b, in the proportion of their free slots, 1 and 10", picked)
	}
	both := s.Choose("q", map[string]int{"http": 5, "shell": 6}, rand.IntN)
	if slices.Sort(both); !slices.Equal(both, []string{"a", "b"}) {
		t.Errorf("chose %v for 11 deliveries, want a and b", both)
	}
	for what, chosen := range map[string][]string{
		"more deliveries than free slots": s.Choose("q", map[string]int{"http": 12}, rand.IntN),
		"a queue that nobody serves":      s.Choose("none", map[string]int{"http": 1}, rand.IntN),
	} {
		if chosen != nil {
			t.Errorf("%s: chose %v, want to wake all", what, chosen)
		}
	}
}

func TestChoose_WakesAllRatherThanManyOneByOne(t *testing.T) {
	t.Parallel()
	var many []Node
	for range 100 {
		many = append(many, aWorker(fmt.Sprint(len(many)), 1, 0, "q"))
	}
	s := fleetOf(many...)
	if chosen := s.Choose("q", map[string]int{"http": wakeLimit}, rand.IntN); len(chosen) != wakeLimit {
		t.Errorf("chose %d nodes, want %d", len(chosen), wakeLimit)
	}
	if chosen := s.Choose("q", map[string]int{"http": wakeLimit + 1}, rand.IntN); chosen != nil {
		t.Errorf("chose %d nodes, want to wake all", len(chosen))
	}
}

func TestChoose_PicksOnlyNodesThatRunTheType(t *testing.T) {
	t.Parallel()
	shell, http, older := aWorker("shell", 10, 0, "q"), aWorker("http", 10, 0, "q"), aWorker("older", 1, 0, "q")
	shell.Types, http.Types = []string{"http", "shell"}, []string{"http"}
	s := fleetOf(http, shell)
	for range 100 {
		if chosen := s.Choose("q", map[string]int{"shell": 3}, rand.IntN); !slices.Equal(chosen, []string{"shell"}) {
			t.Fatalf("chose %v, want the node that runs the type", chosen)
		}
	}
	chosen := s.Choose("q", map[string]int{"http": 10, "shell": 10}, rand.IntN)
	if !slices.Contains(chosen, "shell") || len(chosen) > 2 {
		t.Errorf("chose %v, want the node that runs both, and the other if need be", chosen)
	}
	if chosen := s.Choose("q", map[string]int{"email": 1}, rand.IntN); chosen != nil {
		t.Errorf("chose %v for a type that no node runs, want to wake all", chosen)
	}
	s = fleetOf(http, older)
	if chosen := s.Choose("q", map[string]int{"email": 1}, rand.IntN); !slices.Equal(chosen, []string{"older"}) {
		t.Errorf("chose %v, want the node that does not say which types it runs", chosen)
	}
}
