package route

import (
	"fmt"
	"testing"
	"time"
)

// benchedNodes are 20 nodes of which two thirds have free slots.
func benchedNodes() []Candidate {
	nodes := make([]Candidate, 20)
	for i := range nodes {
		nodes[i] = Candidate{
			ID: fmt.Sprintf("worker-%02d-7f3k2m9q", i), Name: fmt.Sprintf("worker-%02d.example", i),
			Slots: 10, Running: 10 - i%3, CPU: float64(i) / 20, Memory: 0.5, Response: time.Duration(i+1) * time.Millisecond,
			LastUsed: start.Add(time.Duration(i) * time.Second), Used: float64(i), Weight: 1 + i%4,
		}
	}
	return nodes
}

// A place is what is chosen for one task.
func BenchmarkPlace(b *testing.B) {
	nodes := benchedNodes()
	for _, by := range Strategies {
		route := Route{By: by}
		if by == Failover {
			route.Order = []string{"gone-1", "gone-2", nodes[0].Name, nodes[1].Name}
		}
		b.Run(string(by), func(b *testing.B) {
			var turns Turns
			b.ReportAllocs()
			for i := uint64(0); b.Loop(); i++ {
				_, turns = route.Place(Task{Key: "customer-7", Seed: i}, nodes, turns)
			}
		})
	}
}

// A match is what a selector of five terms and two preferences say of one node.
func BenchmarkMatch(b *testing.B) {
	s := parsed(b, "zone in (eu, us), gpu, !spot, mem>=16, disk=ssd")
	prefer := Preferences{{parsed(b, "zone=eu"), 10}, {parsed(b, "cpus>8"), 1}}
	labels := labeled("zone=eu gpu=a100 mem=64 disk=ssd cpus=16")
	b.ReportAllocs()
	for b.Loop() {
		if !s.Matches(labels) || prefer.Sum(labels) != 11 {
			b.Fatal("the node must match")
		}
	}
}
