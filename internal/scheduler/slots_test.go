package scheduler

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/dts-sched/dts/internal/cluster"
)

// nodes are Members that do not change.
type nodes []cluster.Node

func (n nodes) View() cluster.View { return cluster.View{Nodes: n} }

func (n nodes) Watch() (<-chan struct{}, func()) { return nil, func() {} }

func (n nodes) Nodes(context.Context) ([]cluster.Node, error) { return n, nil }

func aWorker(id string, capacity, running int, queues ...string) cluster.Node {
	n := cluster.Node{ID: id, State: cluster.StateAlive, Roles: []string{"worker"}, Capacity: capacity, Running: running, Queues: map[string]int{}}
	for _, q := range queues {
		n.Queues[q] = 1
	}
	return n
}

func TestChoose_PicksAsManyNodesAsTheDeliveriesNeed(t *testing.T) {
	t.Parallel()
	dead, draining, scheduler := aWorker("dead", 9, 0, "q"), aWorker("draining", 9, 0, "q"), aWorker("scheduler", 9, 0, "q")
	dead.State, draining.State, scheduler.Roles = cluster.StateDead, cluster.StateDraining, []string{"scheduler"}
	s := slots{members: nodes{
		aWorker("a", 10, 9, "q"), aWorker("b", 10, 0, "q", "other"), aWorker("full", 10, 10, "q"), aWorker("else", 10, 0, "other"), dead, draining, scheduler,
	}}
	picked := map[string]int{}
	for range 1100 {
		chosen := s.choose("q", map[string]int{"http": 1})
		if len(chosen) != 1 {
			t.Fatalf("chose %v for one delivery, want one node", chosen)
		}
		picked[chosen[0]]++
	}
	if picked["a"]+picked["b"] != 1100 || picked["a"] < 50 || picked["a"] > 150 {
		t.Errorf("chose %v, want only a and b, in the proportion of their free slots, 1 and 10", picked)
	}
	both := s.choose("q", map[string]int{"http": 5, "shell": 6})
	if slices.Sort(both); !slices.Equal(both, []string{"a", "b"}) {
		t.Errorf("chose %v for 11 deliveries, want a and b", both)
	}
	for what, chosen := range map[string][]string{
		"more deliveries than free slots": s.choose("q", map[string]int{"http": 12}), "a queue that nobody serves": s.choose("none", map[string]int{"http": 1}),
	} {
		if chosen != nil {
			t.Errorf("%s: chose %v, want to wake all", what, chosen)
		}
	}
}

func TestChoose_WakesAllRatherThanManyOneByOne(t *testing.T) {
	t.Parallel()
	var many nodes
	for range 100 {
		many = append(many, aWorker(fmt.Sprint(len(many)), 1, 0, "q"))
	}
	s := slots{members: many}
	if chosen := s.choose("q", map[string]int{"http": wakeLimit}); len(chosen) != wakeLimit {
		t.Errorf("chose %d nodes, want %d", len(chosen), wakeLimit)
	}
	if chosen := s.choose("q", map[string]int{"http": wakeLimit + 1}); chosen != nil {
		t.Errorf("chose %d nodes, want to wake all", len(chosen))
	}
}

func TestChoose_PicksOnlyNodesThatRunTheType(t *testing.T) {
	t.Parallel()
	shell, http, older := aWorker("shell", 10, 0, "q"), aWorker("http", 10, 0, "q"), aWorker("older", 1, 0, "q")
	shell.Types, http.Types = []string{"http", "shell"}, []string{"http"}
	s := slots{members: nodes{http, shell}}
	for range 100 {
		if chosen := s.choose("q", map[string]int{"shell": 3}); !slices.Equal(chosen, []string{"shell"}) {
			t.Fatalf("chose %v, want the node that runs the type", chosen)
		}
	}
	if chosen := s.choose("q", map[string]int{"http": 10, "shell": 10}); !slices.Contains(chosen, "shell") || len(chosen) > 2 {
		t.Errorf("chose %v, want the node that runs both, and the other if need be", chosen)
	}
	if chosen := s.choose("q", map[string]int{"email": 1}); chosen != nil {
		t.Errorf("chose %v for a type that no node runs, want to wake all", chosen)
	}
	s = slots{members: nodes{http, older}}
	if chosen := s.choose("q", map[string]int{"email": 1}); !slices.Equal(chosen, []string{"older"}) {
		t.Errorf("chose %v, want the node that does not say which types it runs", chosen)
	}
}
