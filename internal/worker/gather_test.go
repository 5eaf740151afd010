package worker

import (
	"context"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/clock"
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

func newGathering(t *testing.T, set ...func(*Options)) *gathering {
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
	}, set...)
	for range 4 {
		g.submit(task.Definition{})
		testkit.Receive(t, g.begun, "a task of one slot")
	}
	g.large = g.submit(task.Definition{Reach: ";;;3"}) // into its lane
	g.place(g.large)
	g.end(1)
	testkit.Eventually(t, "it is taken", func() bool { return g.placedIs("active") })
	return g
}

// place hands a task of the reach ";;;3" over to the node.
func (g *gathering) place(ref task.Ref) {
	g.t.Helper()
	lane := handover.Lane{Queue: task.DefaultQueue, Type: "echo", Reach: g.get(ref).Reach}
	grant := handover.Grant{Lanes: handover.Quotas{lane: {Number: 1, Nodes: []string{node}}}}
	c, err := g.store.Partitions.At(g.store.PartitionOf(ref)).Lead(fence).Claim(g.t.Context(), 100, grant, time.Second)
	testkit.Must(g.t, err)
	testkit.Must(g.t, g.queues.HandOver(g.t.Context(), c.Deliveries, nil).Failure())
}

// placedIs reports whether the delivery of the task of three slots is in a state of asynq; "" for none.
func (g *gathering) placedIs(state string) bool { return g.placedState("default", g.large) == state }

// placedState is the state in asynq of what was handed over to the node; "" for none.
func (w *world) placedState(queue string, ref task.Ref) string {
	id := task.Delivery{Ref: ref, Attempt: 1}.String()
	state, _ := w.db.HGet(w.t.Context(), "asynq:{"+queue+"@"+node+"}:t:"+id, "state").Result()
	return state
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
	testkit.Eventually(t, "the free slot is kept", func() bool { return g.worker.Running() == 4 })
	testkit.Eventually(t, "three tasks are left", func() bool { return g.worker.Tasks() == 3 })
	if placed := g.worker.Placed(); placed["default"] != 1 {
		t.Errorf("while it waits beside three tasks, it has %v slots, want the free one", placed)
	}
	for range 6 {
		g.submit(task.Definition{})
	}
	g.end(1)
	testkit.Eventually(t, "two slots are kept", func() bool { return g.worker.Placed()["default"] == 2 })
	g.end(1)
	if first := testkit.Receive(t, g.begun, "the next task"); first != g.large {
		t.Errorf("%s begins, want the task of three slots", first)
	}
	testkit.Eventually(t, "two tasks run", func() bool { return g.worker.Tasks() == 2 })
	if n, placed := g.worker.Running(), g.worker.Placed(); n != 4 || placed["default"] != 3 {
		t.Errorf("two tasks hold %d slots, %v of them by what was placed there; want 4 and 3", n, placed)
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
			none := func() bool { return len(g.worker.gathers) == 0 && g.worker.Running() <= 3 }
			testkit.Eventually(t, "no slot is kept", none)
		})
	}
}

// If a handler does not end, its node keeps slots for a while only. Then the delivery goes, and leaders place the task
// anew.
func TestGather_EndsAfterAWhile(t *testing.T) {
	t.Parallel()
	g := newGathering(t, func(o *Options) { o.GatherLimit = 10 * time.Millisecond })
	testkit.Eventually(t, "the delivery has gone", func() bool { return g.placedIs("") })
	other := g.submit(task.Definition{})
	if next := testkit.Receive(t, g.begun, "another task"); next != other {
		t.Errorf("%s begins, want %s", next, other)
	}
	if placed := g.worker.Placed(); len(placed) != 0 {
		t.Errorf("slots are kept still: %v", placed)
	}
	if got := g.get(g.large); got.State != task.Queued || got.Placed != node {
		t.Errorf("the task is %s, and its node is %q", got.State, got.Placed)
	}
	g.end(4)
}

// A node that has just kept slots in vain keeps none for a while, whichever leader hands it a task.
func TestGather_RestsAfterAFailure(t *testing.T) {
	t.Parallel()
	g := newGathering(t)
	g.worker.mu.Lock()
	g.worker.failed = clock.Now()
	g.worker.mu.Unlock()
	second := g.submit(task.Definition{Reach: ";;;3"})
	g.place(second)
	_, err := g.store.Tasks.Cancel(t.Context(), g.large, "")
	testkit.Must(t, err)
	testkit.Eventually(t, "the delivery has gone", func() bool { return g.placedState("default", second) == "" })
	if got := g.get(second); got.State != task.Queued {
		t.Errorf("the task is %s", got.State)
	}
	g.end(3)
}

// Of two tasks that come together, the second one goes back. The worker takes it again when the first one has ended,
// though nobody looks after it.
func TestGather_OfTwoTasksIsOneAfterTheOther(t *testing.T) {
	t.Parallel()
	g := newGathering(t, func(o *Options) { o.Unhurried = true })
	second := g.submit(task.Definition{Reach: ";;;3"})
	g.place(second)
	g.end(3)
	for _, want := range []task.Ref{g.large, second} {
		if next := testkit.Receive(t, g.begun, "a task of three slots"); next != want {
			t.Errorf("%s begins, want %s", next, want)
		}
		g.end(1)
	}
	g.reaches(second, task.Succeeded)
}

// Of the pools that serve a queue, the largest takes what was handed over to the node alone: a smaller one may have too
// few slots for it.
func TestGather_IsInTheLargestPool(t *testing.T) {
	t.Parallel()
	w := newestWorld(t)
	begun := make(chan task.Ref, 1)
	r := w.start(func(_ context.Context, a executor.Attempt) (string, error) {
		begun <- a.Task.Ref
		return "", nil
	}, func(o *Options) {
		small := o.Pools[0]
		small.Name, small.Concurrency, small.DB = "small", 1, redistest.Open(t, w.asynq.URL())
		o.Pools = append([]Pool{small}, o.Pools...)
	})
	if small := r.small(r.o.Pools[0]); !small["default"] || len(r.small(r.o.Pools[1])) != 0 {
		t.Errorf("the small pool leaves %v to others, the other one %v", small, r.small(r.o.Pools[1]))
	}
	g := &gathering{world: w}
	for range 10 {
		ref := w.submit(task.Definition{Reach: ";;;3"})
		g.place(ref)
		if next := testkit.Receive(t, begun, "the task"); next != ref {
			t.Errorf("%s begins, want %s", next, ref)
		}
		w.reaches(ref, task.Succeeded)
	}
}

// A pool that has too few slots leaves the task to its leader.
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
	g.place(g.large)
	testkit.Eventually(t, "the delivery has gone", func() bool { return g.placedIs("") })
	if got := w.get(g.large); got.State != task.Queued {
		t.Errorf("the task is %s", got.State)
	}
	other := w.submit(task.Definition{})
	if next := testkit.Receive(t, begun, "another task"); next != other {
		t.Errorf("%s begins, want %s", next, other)
	}
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
	for _, q := range []string{"default", "other", "default"} {
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
		if q == "other" { // the other task keeps the free slot; this pool gets the second one that becomes free
			waits := func() bool { r.mu.Lock(); defer r.mu.Unlock(); return len(r.taking[1].slots) == 2 }
			testkit.Eventually(t, "the pool waits for a slot", waits)
			goOn <- struct{}{}
			goOn <- struct{}{}
		}
		testkit.Eventually(t, "it is taken", func() bool { return w.placedState(q, ref) == "active" })
	}
	close(goOn)
	for _, ref := range larges {
		w.reaches(ref, task.Succeeded)
	}
	testkit.Eventually(t, "all slots are free", func() bool { return r.Running() == 0 && len(r.slots) == 0 })
}

// What is taken beside a task of several slots does not take them.
func TestSplit_LeavesSlotsToATaskOfSeveral(t *testing.T) {
	t.Parallel()
	taken := []*queue.Taken{{Slots: 1}, {Slots: 2}, {Slots: 1}, {Slots: 4}, {Slots: 1}}
	for slots, want := range map[int][4]int{5: {1, 3, 1, 3}, 6: {2, 3, 0, 0}, 8: {4, 1, 0, 0}, 9: {5, 0, 0, 0}} {
		left := slots
		now, later, many := split(taken, &left)
		if got := [4]int{len(now), len(later), len(many), left}; got != want {
			t.Errorf("of %d slots: begin now, wait for a slot, wait for several, slots left: %v, want %v", slots, got, want)
		}
	}
}
