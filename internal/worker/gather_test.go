package worker

import (
	"context"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/handover"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor"
)

// gathering is a world with a worker of four slots that runs four tasks, and to which a task of three slots goes.
type gathering struct {
	*world
	worker *running
	begun  chan task.Ref
	goOn   chan struct{} // ends one of the tasks that run
	large  task.Ref
}

func newGathering(t *testing.T) *gathering {
	t.Helper()
	g := &gathering{world: newestWorld(t), begun: make(chan task.Ref, 20), goOn: make(chan struct{})}
	g.worker = g.start(func(ctx context.Context, a executor.Attempt) (string, error) {
		g.begun <- a.Task.Ref
		select {
		case <-g.goOn:
			return "", nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	})
	for range 4 {
		g.submit(task.Definition{})
		testkit.Receive(t, g.begun, "a task of one slot")
	}
	g.large = g.submit(task.Definition{Reach: ";;;3"}) // into its lane
	g.place(g.large, node)
	g.end(1)
	testkit.Eventually(t, "it is taken", func() bool { return g.placedIs("active") })
	return g
}

// place hands a task of the reach ";;;3" over to a node.
func (g *gathering) place(ref task.Ref, to string) {
	g.t.Helper()
	lane := handover.Lane{Queue: task.DefaultQueue, Type: "echo", Reach: g.get(ref).Reach}
	grant := handover.Grant{Lanes: handover.Quotas{lane: {Number: 1, Nodes: []string{to}}}}
	c, err := g.store.Partitions.At(g.store.PartitionOf(ref)).Lead(fence).Claim(g.t.Context(), 100, grant, time.Second)
	testkit.Must(g.t, err)
	testkit.Must(g.t, g.queues.HandOver(g.t.Context(), c.Deliveries, nil).Failure())
}

// placedIs reports whether the delivery of the task of three slots is in a state of asynq; "" for none.
func (g *gathering) placedIs(state string) bool {
	id := task.Delivery{Ref: g.large, Attempt: 1}.String()
	is, _ := g.db.HGet(g.t.Context(), "asynq:{default@"+node+"}:t:"+id, "state").Result()
	return is == state
}

// end ends tasks that run.
func (g *gathering) end(n int) {
	g.t.Helper()
	for range n {
		select {
		case g.goOn <- struct{}{}:
		case <-time.After(testkit.Limit):
			g.t.Fatal("no task ends")
		}
	}
}

// What becomes free on a node is kept for a task of several slots that the node has taken. Tasks of one slot that come
// meanwhile, however many, begin after it.
func TestGather_KeepsWhatBecomesFree(t *testing.T) {
	t.Parallel()
	g := newGathering(t)
	if placed := g.worker.Placed(); placed["default"] != 0 {
		t.Errorf("while it waits, it counts among what runs: %v", placed)
	}
	for range 6 {
		g.submit(task.Definition{})
	}
	g.end(1)
	testkit.Eventually(t, "two run", func() bool { return g.worker.Running() == 2 })
	g.end(1)
	if first := testkit.Receive(t, g.begun, "the next task"); first != g.large {
		t.Errorf("%s begins, want the task of three slots", first)
	}
	if n, placed := g.worker.Running(), g.worker.Placed(); n != 4 || placed["default"] != 3 {
		t.Errorf("%d slots are taken, %v of them by what was placed there; want 4 and 3", n, placed)
	}
	g.end(8)
	g.reaches(g.large, task.Succeeded)
	testkit.Eventually(t, "all slots are free", func() bool {
		return g.worker.Running() == 0 && len(g.worker.slots) == 0 && len(g.worker.gathers) == 0
	})
}

// If somebody cancels the task meanwhile, the node goes on with others.
func TestGather_EndsWithTheTask(t *testing.T) {
	t.Parallel()
	g := newGathering(t)
	_, err := g.store.Tasks.Cancel(t.Context(), g.large, "")
	testkit.Must(t, err)
	other := g.submit(task.Definition{})
	if next := testkit.Receive(t, g.begun, "another task"); next != other {
		t.Errorf("%s begins, want %s", next, other)
	}
	testkit.Eventually(t, "the delivery has gone", func() bool { return g.placedIs("") })
	g.end(4)
}

// A node that is cordoned, or that ends, gives the task back at once.
func TestGather_EndsWithTheWorker(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(*running){
		"a cordon": func(r *running) { r.SetCordoned(true) },
		"its end":  func(r *running) { r.end() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGathering(t)
			stop(g.worker)
			testkit.Eventually(t, "it waits for its node again", func() bool { return g.placedIs("pending") })
			if len(g.worker.gathers) != 0 {
				t.Error("slots are still kept")
			}
		})
	}
}

// A pool that has too few slots leaves the task to others.
func TestGather_LeavesATaskThatIsTooLarge(t *testing.T) {
	t.Parallel()
	w := newestWorld(t)
	begun := make(chan task.Ref, 1)
	w.start(func(_ context.Context, a executor.Attempt) (string, error) {
		begun <- a.Task.Ref
		return "", nil
	}, func(o *Options) { o.Pools[0].Concurrency = 2 })
	g := &gathering{world: w}
	g.large = w.submit(task.Definition{Reach: ";;;3"})
	g.place(g.large, node)
	testkit.Eventually(t, "it is taken", func() bool { return g.placedIs("active") })
	other := w.submit(task.Definition{})
	if next := testkit.Receive(t, begun, "another task"); next != other {
		t.Errorf("%s begins, want %s", next, other)
	}
	testkit.Eventually(t, "it goes back", func() bool { return g.placedIs("pending") })
}

// Two pools, each with a part of the slots that a task of it needs, would wait for ever.
func TestGather_OfTwoPoolsIsOneAfterTheOther(t *testing.T) {
	t.Parallel()
	w := newestWorld(t)
	begun, goOn := make(chan task.Ref, 20), make(chan struct{})
	r := w.start(func(ctx context.Context, a executor.Attempt) (string, error) {
		begun <- a.Task.Ref
		select {
		case <-goOn:
		case <-ctx.Done():
		}
		return "", context.Cause(ctx)
	}, func(o *Options) {
		other := o.Pools[0]
		other.Name, other.Queues, other.DB = "other", map[string]int{"other": 1}, redistest.Open(t, w.asynq.URL())
		o.Pools = append(o.Pools, other)
	})
	for _, q := range []string{"default", "other", "default", "other"} {
		w.submit(task.Definition{Queue: q})
		testkit.Receive(t, begun, "a task of one slot")
	}
	var larges []task.Ref
	for _, q := range []string{"default", "other"} {
		ref := w.submit(task.Definition{Queue: q, Reach: ";;;4"})
		lane := handover.Lane{Queue: q, Type: "echo", Reach: ";;;4"}
		grant := handover.Grant{Lanes: handover.Quotas{lane: {Number: 1, Nodes: []string{node}}}}
		c, err := w.store.Partitions.At(w.store.PartitionOf(ref)).Lead(fence).Claim(t.Context(), 100, grant, time.Second)
		testkit.Must(t, err)
		testkit.Must(t, w.queues.HandOver(t.Context(), c.Deliveries, nil).Failure())
		larges = append(larges, ref)
	}
	close(goOn)
	for _, ref := range larges {
		w.reaches(ref, task.Succeeded)
	}
	testkit.Eventually(t, "all slots are free", func() bool { return r.Running() == 0 && len(r.slots) == 0 })
}

// What comes behind a task of several slots does not take them.
func TestSplit_LeavesSlotsToATaskOfSeveral(t *testing.T) {
	t.Parallel()
	taken := []*queue.Taken{{Slots: 2}, {Slots: 1}, {Slots: 3}, {Slots: 1}, {Slots: 2}}
	slots := 5
	now, later, many := split(taken, &slots)
	if len(now) != 2 || len(later) != 1 || len(many) != 2 || slots != 2 {
		const text = "%d begin now, %d wait for a slot, and %d for several; %d slots are left"
		t.Errorf(text, len(now), len(later), len(many), slots)
	}
}
