package control

import (
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/handover"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/why"
)

// placed submits tasks of the queue default that are due at once, and hands each over to a node, in that order.
func (w *world) placed(node string, ids ...string) {
	w.t.Helper()
	const reach = ";;first"
	lane := handover.Lane{Queue: task.DefaultQueue, Type: "http", Reach: reach}
	grant := handover.Grant{Default: 1000, Lanes: handover.Quotas{lane: {Number: 1, Nodes: []string{node}}}}
	for _, id := range ids {
		d := task.Definition{Ref: task.Ref{Namespace: "default", ID: id}, Type: "http", Reach: reach}
		testkit.Must(w.t, w.submit([]task.Definition{d})[0].Err)
		leader := w.store.Partitions.At(w.store.PartitionOf(d.Ref)).Lead(fence)
		var deliveries []task.Delivery
		for range 2 { // the first claim puts it into its lane
			claimed, err := leader.Claim(w.ctx, 100, grant, time.Second)
			testkit.Must(w.t, err)
			deliveries = append(deliveries, claimed.Deliveries...)
		}
		if len(deliveries) != 1 || deliveries[0].Node != node {
			w.t.Fatalf("%s: %+v are claimed, want one for %s", id, deliveries, node)
		}
		testkit.Must(w.t, w.queues.HandOver(w.ctx, deliveries, nil).Failure())
	}
}

func TestWhyTask_TellsAtWhichNodeItWaits(t *testing.T) {
	t.Parallel()
	w := newKnowing(t)
	node := worker("n1", 0, nil, "default")
	w.nodes = fleet{node}
	w.claim(w.due("shared", "")) // another queue: it is not ahead
	w.placed("n1", "a", "b", "c")
	r := w.expectTask("c", why.Delivery)
	const want = "It waits on the node n1, in the queue default@n1, where 2 tasks are ahead of it. That node lives."
	if !strings.Contains(r.Detail, want) || r.Ahead == nil || *r.Ahead != 2 {
		t.Errorf("%+v, want that 2 are ahead", r)
	}
	node.State = "dead"
	w.nodes = fleet{node, worker("n2", 0, nil, "default")}
	if r := w.expectTask("a", why.Delivery); !strings.Contains(r.Detail, "That node is dead") {
		t.Errorf("%+v, want that the node is dead", r)
	}
}

// What waits at nodes waits in the queue: in the list, in its stats and in what it waits for.
func TestQueues_CountWhatWaitsAtNodes(t *testing.T) {
	t.Parallel()
	w := newKnowing(t)
	w.nodes = fleet{worker("n1", 0, nil, "default"), worker("n2", 0, nil, "default")}
	w.placed("n1", "a", "b")
	w.placed("n2", "c")
	q, known, err := w.GetQueue(w.ctx, me, task.DefaultQueue)
	if err != nil || !known || q.Pending != 3 || w.pending(task.DefaultQueue) != 3 {
		t.Errorf("the queue is %+v, %v", q, err)
	}
	waiting, err := w.Control.waiting(w.ctx)
	if got := waiting[task.DefaultQueue]; err != nil || len(waiting) != 1 || got.number != 3 || got.oldest.IsZero() {
		t.Errorf("%+v wait, %v", waiting, err)
	}
	waits, err := w.readWaits(w.ctx, []string{"default@n1", "default", "default@n2"})
	testkit.Must(t, err)
	if got := w.queuesOf(waits, bars{}); len(got) != 1 || got[0].Name != task.DefaultQueue || got[0].Waiting != 3 {
		t.Errorf("status says %+v", got)
	}
	answer, err := w.WhyQueue(w.ctx, me, task.DefaultQueue)
	testkit.Must(t, err)
	if all, first := codes(answer); len(all) != 1 || first.Code != why.Delivery || *first.Tasks != 3 {
		t.Errorf("they wait for %+v", answer.Reasons)
	}
	testkit.Must(t, w.db.Set(w.ctx, "asynq:{default@n2}:paused", 1, 0).Err())
	answer, err = w.WhyQueue(w.ctx, me, task.DefaultQueue)
	testkit.Must(t, err)
	if all, first := codes(answer); len(all) != 1 || first.Code != why.QueuePaused ||
		!strings.Contains(first.Detail, "default@n2") {
		t.Errorf("with a node whose queue is paused, they wait for %+v", answer.Reasons)
	}
}
