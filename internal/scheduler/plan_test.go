package scheduler

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/handover"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

// pending counts the deliveries that wait in a queue.
func (w *world) pending(queue string) int {
	return int(w.db.LLen(w.t.Context(), string(lua.AsynqQueue(queue).Pending())).Val())
}

func (w *world) backlog() map[string]int {
	w.t.Helper()
	counts, err := w.store.Backlog(w.t.Context())
	testkit.Must(w.t, err)
	return counts
}

// take takes deliveries from the queue default as a worker does.
func (w *world) take(n int) []string {
	w.t.Helper()
	return w.takeFor(time.Minute, n)
}

// takeFor takes deliveries with a lease of that length.
func (w *world) takeFor(lease time.Duration, n int) []string {
	w.t.Helper()
	k := lua.AsynqQueue(task.DefaultQueue)
	reply, err := redisx.Run(w.t.Context(), w.db, lua.Take{
		Pending: k.Pending(), Paused: k.Paused(), Active: k.Active(), Deadline: k.Deadline(), Awaited: k.Awaited(),
		Limit: n, Lease: lease, Queue: task.DefaultQueue, Leaders: w.store.Keys.Leaders(),
	})
	testkit.Must(w.t, err)
	var ids []string
	for _, d := range reply.Taken {
		ids = append(ids, d.ID)
	}
	return ids
}

func TestDispatch_HandsOverWhatTheWorkersTakeSoonAndKeepsTheRest(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	w.slots = 1 // so that handover.LeastAhead deliveries may wait
	refs := w.siblings(300)
	w.createOverdue(refs, time.Millisecond)
	a := w.start("a", never)
	w.leads(map[*node]int{a: 16})
	atMost := handover.LeastAhead + handover.LeastAhead // as all tasks are in one partition
	testkit.Eventually(t, "the queue is full", func() bool { return w.pending("default") >= handover.LeastAhead })
	testkit.Eventually(t, "the rest waits", func() bool { return w.backlog()["default"]+w.pending("default") == 300 })
	if n := w.pending("default"); n > atMost {
		t.Errorf("%d deliveries wait, want %d at most", n, atMost)
	}
	var order []string
	for len(order) < 300 {
		took := w.take(100)
		order = append(order, took...)
		if len(took) == 0 {
			testkit.Eventually(t, "more is handed over", func() bool { return w.pending("default") > 0 })
		}
		if n := w.pending("default"); n > atMost {
			t.Fatalf("%d deliveries wait, want %d at most", n, atMost)
		}
	}
	w.inOrder(order, refs)
	if n := w.backlog()["default"]; n != 0 {
		t.Errorf("%d tasks wait still", n)
	}
}

// inOrder fails unless the deliveries are those of the first attempts of the tasks, in their order.
func (w *world) inOrder(deliveries []string, refs []task.Ref) {
	w.t.Helper()
	for i, ref := range refs {
		if want := (task.Delivery{Ref: ref, Attempt: 1}).String(); deliveries[i] != want {
			w.t.Fatalf("number %d was %s, want %s: they were due in this order", i, deliveries[i], want)
		}
	}
}

// asynqServer runs one of asynq's own servers on the queue foreign until the test ends, or stop is called.
func (w *world) asynqServer(concurrency int, h asynq.HandlerFunc) (stop func()) {
	w.t.Helper()
	return w.asynqServerOn(w.db, "foreign", concurrency, h)
}

func (w *world) asynqServerOn(db *redisx.DB, queue string, concurrency int, h asynq.HandlerFunc) (stop func()) {
	w.t.Helper()
	server := asynq.NewServerFromRedisClient(db.UniversalClient, asynq.Config{
		Concurrency: concurrency, Queues: map[string]int{queue: 1}, LogLevel: asynq.FatalLevel,
		TaskCheckInterval: 10 * time.Millisecond, DelayedTaskCheckInterval: 10 * time.Millisecond,
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return 0 },
	})
	testkit.Must(w.t, server.Start(h))
	stop = sync.OnceFunc(server.Shutdown)
	w.t.Cleanup(stop)
	return stop
}

// The server cannot be stopped. What it makes of the delivery must not count for the task as it was changed.
func TestDispatch_RunsATaskAgainThatWasChangedWhileAsynqsServerHandledIt(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	started, release := make(chan struct{}), make(chan struct{})
	handled := make(chan string, 10)
	var once sync.Once
	w.asynqServer(1, func(_ context.Context, received *asynq.Task) error {
		result := "as it was changed"
		once.Do(func() {
			result = "as it was"
			close(started)
			<-release
		})
		handled <- result
		_, err := received.ResultWriter().Write([]byte(result))
		return err
	})
	ref := w.create(task.Definition{Queue: "foreign"})
	// The first look comes as late as it does by default, after the leader has taken back what it claimed before it knew
	// of the server.
	a := w.start("a", never, func(n *node) { n.pace.lookAgain = 50 * time.Millisecond })
	w.leads(map[*node]int{a: 16})
	testkit.Receive(t, started, "the start of the handler")
	changed, err := useCases(w.store).ChangeTask(t.Context(), caller, ref.ID, control.TaskChange{
		Delay: new(200 * time.Millisecond), Payload: []byte(`{"new":true}`),
	})
	if err != nil || changed.State != task.Scheduled {
		t.Fatalf("%+v, %v", changed, err)
	}
	close(release)
	w.reaches(ref, task.Succeeded)
	if got := w.get(ref); got.Result != "as it was changed" {
		t.Errorf("it succeeded with the result %q", got.Result)
	}
	if n := len(handled); n != 2 {
		t.Errorf("it was handled %d times", n)
	}
}

// serve registers a node that serves a queue with so many slots, until the test ends. It takes nothing.
func (w *world) serve(queue string, slots int) {
	w.t.Helper()
	r := cluster.New(cluster.Options{
		DB: redistest.Open(w.t, w.url), Key: w.store.Keys.Nodes(), Channel: w.store.Keys.Members(),
		ID: "serves-" + queue, Beat: beat,
		Self: func() cluster.Node {
			return cluster.Node{Roles: []string{config.RoleWorker}, Queues: map[string]int{queue: 1}, Capacity: slots}
		},
	})
	ended := make(chan error, 1)
	go func() { ended <- r.Run(w.t.Context()) }()
	w.t.Cleanup(func() { testkit.Must(w.t, testkit.Receive(w.t, ended, "the end of the registry")) })
}

func TestDispatch_AQueueThatNobodyServesHoldsUpNoOther(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	refs := w.siblings(201)
	for _, ref := range refs[:200] {
		w.create(task.Definition{Ref: ref, Queue: "nobody"})
	}
	last := w.create(task.Definition{Ref: refs[200]})
	a := w.start("a", never)
	w.leads(map[*node]int{a: 16})
	w.dispatched(last, 1)
	testkit.Eventually(t, "the others wait in DTS", func() bool {
		return w.backlog()["nobody"] == 200 && w.pending("nobody") == 0
	})
	if got := w.get(refs[0]); got.State != task.Scheduled || got.Attempt != 0 {
		t.Errorf("one of them is %s, attempt %d", got.State, got.Attempt)
	}
	w.serve("nobody", 1000)
	testkit.Eventually(t, "a worker comes and gets them", func() bool { return w.pending("nobody") == 200 })
	if n := w.backlog()["nobody"]; n != 0 {
		t.Errorf("%d tasks wait still", n)
	}
}

// As its workers take nothing, the rest waits where it can be moved; and it holds up no other queue.
func TestDispatch_HandsOverLittleToAQueueThatIsPausedInAsynq(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	w.slots = 1
	a := w.start("a", never, func(n *node) { n.pace.ask = 50 * time.Millisecond })
	w.leads(map[*node]int{a: 16})
	w.serve("other", 1)
	refs := w.siblings(301)
	last := refs[300]
	w.dispatched(w.create(task.Definition{}), 1)
	testkit.Must(t, asynq.NewInspectorFromRedisClient(w.db.UniversalClient).PauseQueue("default"))
	for _, ref := range refs[:300] {
		w.create(task.Definition{Ref: ref})
	}
	testkit.Eventually(t, "all have left the wheel", func() bool {
		return w.backlog()["default"]+w.pending("default") == 301
	})
	w.create(task.Definition{Ref: last, Queue: "other"})
	testkit.Eventually(t, "the other queue gets its task", func() bool { return w.pending("other") == 1 })
	if n := w.pending("default"); n > 2*handover.LeastAhead {
		t.Errorf("%d deliveries wait in a paused queue, want %d at most", n, 2*handover.LeastAhead)
	}
	if got := w.get(refs[299]); got.State != task.Scheduled {
		t.Errorf("the last one is %s", got.State)
	}
}

func TestDispatch_HearsThatAQueueHasRoom(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	w.slots = 1
	for _, ref := range w.siblings(300) {
		w.create(task.Definition{Ref: ref})
	}
	a := w.start("a", never)
	w.leads(map[*node]int{a: 16})
	testkit.Eventually(t, "the queue is full", func() bool { return w.pending("default") >= handover.LeastAhead })
	testkit.Eventually(t, "the rest has left the wheel", func() bool {
		return w.backlog()["default"]+w.pending("default") == 300
	})
	testkit.Eventually(t, "the leader awaits room", func() bool {
		return w.db.Exists(t.Context(), string(lua.AsynqQueue("default").Awaited())).Val() == 1
	})
	before := w.backlog()["default"]
	w.take(100)
	testkit.Eventually(t, "more is handed over", func() bool { return w.backlog()["default"] < before })
}

// asynq's own server knows nothing of DTS, and is no member of it. What it does with a delivery ends the attempt.
func TestDispatch_HandsOverToAsynqsOwnServers(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	handled := make(chan string, 1000)
	w.asynqServer(4, func(ctx context.Context, received *asynq.Task) error {
		id, _ := asynq.GetTaskID(ctx)
		handled <- id
		if strings.Contains(id, ":bad") {
			return fmt.Errorf("no such thing: %w", asynq.SkipRetry)
		}
		_, err := received.ResultWriter().Write([]byte("done"))
		return err
	})
	const n = 100
	var want []string
	for i := range n {
		named := task.Ref{Namespace: task.DefaultNamespace, ID: fmt.Sprint("t", i)}
		ref := w.create(task.Definition{Ref: named, Queue: "foreign"})
		want = append(want, ref.String()+":1")
	}
	bad := w.create(task.Definition{
		Ref: task.Ref{Namespace: task.DefaultNamespace, ID: "bad"}, Queue: "foreign",
		Retry: task.Retry{MaxAttempts: 2, Delays: []time.Duration{time.Millisecond}},
	})
	want = append(want, bad.String()+":1", bad.String()+":2")
	// The first look comes as late as it does by default, after the leader has taken back what it claimed before it knew
	// of the server.
	a := w.start("a", never, func(n *node) { n.pace.lookAgain = 50 * time.Millisecond })
	w.leads(map[*node]int{a: 16})
	for i := range n {
		ref := task.Ref{Namespace: task.DefaultNamespace, ID: fmt.Sprint("t", i)}
		testkit.Eventually(t, "a task has succeeded", func() bool { return w.get(ref).State == task.Succeeded })
		if got := w.get(ref); got.Result != "done" || got.Node != "asynq" {
			t.Errorf("%s has the result %q of node %s", ref, got.Result, got.Node)
		}
	}
	testkit.Eventually(t, "the bad one has failed", func() bool { return w.get(bad).State == task.Failed })
	if got := w.get(bad); got.Attempt != 2 || !strings.Contains(got.Error, "no such thing") {
		t.Errorf("the bad one failed in attempt %d with %q", got.Attempt, got.Error)
	}
	var got []string
	for len(handled) > 0 {
		got = append(got, <-handled)
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("asynq's server handled (-want +got):\n%s", diff)
	}
	dead, err := w.db.ZRange(t.Context(), string(lua.AsynqQueue("foreign").Archived()), 0, -1).Result()
	if err != nil || !slices.Equal(dead, []string{bad.String() + ":2"}) {
		t.Errorf("dead letters %v, %v", dead, err)
	}
	if kept := w.db.ZCard(t.Context(), string(lua.AsynqQueue("foreign").Completed())).Val(); kept != 0 {
		t.Errorf("asynq keeps %d deliveries that were handled", kept)
	}
}

// still is a list of nodes that does not change.
type still struct{ view cluster.View }

func (s still) View() cluster.View { return s.view }

func (still) Watch() (<-chan struct{}, func()) { return nil, func() {} }

func (s still) Nodes(context.Context) ([]cluster.Node, error) { return s.view.Nodes, nil }

// stillScheduler is one that does not run, and knows of one worker of the queue default.
func (w *world) stillScheduler() *Scheduler {
	s := New(Options{
		Store: w.store, Node: "a", HandOver: 4, LeaseTTL: never, Log: slog.New(slog.DiscardHandler),
		Members: still{cluster.View{At: time.Now(), Nodes: []cluster.Node{{
			ID: "a", State: cluster.StateAlive, Roles: []string{config.RoleWorker}, Queues: map[string]int{"default": 1},
			Capacity: w.slots,
		}}}},
	})
	s.pace.ask = never
	s.plan = newPlan(s)
	return s
}

func TestPlan_KnowsHowManyNodesShareWhatIsFree(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", never)
	b := w.start("b", never)
	w.leads(map[*node]int{a: 8, b: 8})
	for _, n := range []*node{a, b} {
		if got := fleetOf(n.members.View()); got.Leaders != 2 || len(got.Workers) != 2 {
			t.Errorf("it knows %d leaders and %d workers, want 2 of each", got.Leaders, len(got.Workers))
		}
	}
}

// Tasks that were due over two seconds wait in all partitions. They start in about that order.
func TestDispatch_StartsABacklogOfAllPartitionsInOrder(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	w.slots = 4 // so that 16 deliveries may wait
	const n = 600
	refs := make([]task.Ref, n)
	for i := range refs {
		refs[i] = task.Ref{Namespace: task.DefaultNamespace, ID: fmt.Sprint("t", i)}
	}
	due := w.createOverdue(refs, 2*time.Second/n)
	a := w.start("a", never)
	w.leads(map[*node]int{a: 16})
	testkit.Eventually(t, "all have left the wheel", func() bool {
		return w.backlog()["default"]+w.pending("default") == n
	})
	for w.pending("default") > 0 { // the first claims of all partitions come as they come
		w.take(100)
	}
	var newest time.Time
	var worst time.Duration
	testkit.Eventually(t, "all have been taken", func() bool {
		for _, id := range w.take(4) {
			worst = max(worst, newest.Sub(due[id]))
			if due[id].After(newest) {
				newest = due[id]
			}
		}
		return w.backlog()["default"]+w.pending("default") == 0
	})
	if worst > handover.OrderSlack+time.Millisecond {
		t.Errorf("a task was overtaken by one that was due %s later", worst)
	}
}

// What waits starts when the workers take what they have got, although Redis cannot grow.
func TestDispatch_ABacklogDrainsWhileRedisIsFull(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	w.slots = 1
	for _, ref := range w.siblings(100) {
		w.create(task.Definition{Ref: ref})
	}
	a := w.start("a", never, func(n *node) { n.pace.ask = 50 * time.Millisecond })
	w.leads(map[*node]int{a: 16})
	testkit.Eventually(t, "some wait", func() bool { return w.backlog()["default"] > 50 && w.pending("default") > 0 })
	testkit.Must(t, w.db.ConfigSet(t.Context(), "maxmemory", "1").Err())
	testkit.Eventually(t, "all were handed over", func() bool {
		w.take(100)
		return w.backlog()["default"] == 0 && w.pending("default") == 0
	})
}
