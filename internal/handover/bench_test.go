package handover

import (
	"fmt"
	"testing"
	"time"
)

const benchedPartitions = 16

// benchedFleet is 20 nodes of 50 queues, of which each runs half of 19 types.
func benchedFleet() Fleet {
	f := Fleet{Leaders: 1}
	for i := range 20 {
		n := Node{ID: fmt.Sprint("node-", i), Queues: make(map[string]int), Capacity: 10}
		for q := range 50 {
			n.Queues[fmt.Sprint("queue-", q)] = 1
		}
		for k := i % 2; k < 19; k += 2 {
			n.Types = append(n.Types, fmt.Sprint("type-", k))
		}
		f.Workers = append(f.Workers, n)
	}
	return f
}

// benchedLanes are the 1,000 lanes that these have, with tasks in all partitions.
func benchedLanes() (Backlog, map[string]time.Time) {
	backlog, named := make(Backlog), make(map[string]time.Time)
	for q := range 50 {
		for k := range 20 {
			lane := Lane{Queue: fmt.Sprint("queue-", q)}
			if k > 0 {
				lane.Type = fmt.Sprint("type-", k-1)
			}
			backlog[lane], named[nameOf(lane)] = start, start
		}
	}
	return backlog, named
}

// A plan is what a term decides for one claim: what waits, what to ask, what to grant, what came of it, when to go on.
func BenchmarkPlan(b *testing.B) {
	backlog, named := benchedLanes()
	looks := make(map[string]Look)
	for lane := range backlog {
		looks[lane.Queue] = Look{Waiting: 10}
	}
	b.Run("now", func(b *testing.B) {
		p := New(Options{HandOver: 4, Partitions: benchedPartitions, Look: never, Ask: never})
		p.SetFleet(benchedFleet())
		for i := range benchedPartitions {
			p.setBacklog(i, backlog)
		}
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			partition := i % benchedPartitions
			if len(p.Waiting(partition)) == 0 {
				b.Fatal("nothing waits")
			}
			if asked, _ := p.Asks(partition, start); len(asked) > 0 {
				p.Looked(asked, looks, start)
			}
			g, ok := p.Grant(partition, false, start)
			if !ok {
				b.Fatal("nothing is granted")
			}
			p.Claimed(partition, g, Outcome{Found: Found{Backlog: backlog}}, start)
			p.Pause(partition, start)
			p.Wakes()
		}
	})
	b.Run("before", func(b *testing.B) {
		q := oldNewQuotas(4, benchedPartitions, never)
		q.at, q.slots.view, q.slots.viewed = start, benchedFleet(), 1
		for i := range benchedPartitions {
			q.setBacklog(i, named)
		}
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			partition := i % benchedPartitions
			names := q.backlogOf(partition)
			if asked, _ := q.levels(partition, names); len(asked) > 0 {
				q.looked(asked, looks)
			}
			reserved, ok := q.reserve(partition, false)
			if !ok {
				b.Fatal("nothing is granted")
			}
			q.release(partition, reserved, oldOutcome{backlog: named})
			q.pause(partition)
			clear(q.wakes)
		}
	})
}
