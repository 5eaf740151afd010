package scheduler

import (
	"context"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/queue"
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

// take takes deliveries from a queue as a worker does.
func (w *world) take(queue string, n int) []string {
	w.t.Helper()
	k := lua.AsynqQueue(queue)
	reply, err := redisx.Run(w.t.Context(), w.db, lua.Take{
		Pending: k.Pending(), Paused: k.Paused(), Active: k.Active(), Deadline: k.Deadline(), Awaited: k.Awaited(),
		Limit: n, Lease: time.Minute, Queue: queue, Wake: w.store.Keys.Wake(),
	})
	testkit.Must(w.t, err)
	var ids []string
	for _, d := range reply.Taken {
		ids = append(ids, d.ID)
	}
	return ids
}

func TestDispatch_HandsOverWhatTheWorkersTakeSoonAndKeepsTheRest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.slots = 1 // so that leastAhead deliveries may wait
	refs := w.siblings(300)
	soon := w.db.Time(t.Context()).Val().Add(time.Second)
	for i, ref := range refs {
		w.create(task.Definition{Ref: ref, RunAt: soon.Add(time.Duration(i) * time.Millisecond)})
	}
	a := w.start("a", never)
	w.leads(map[*node]int{a: 16})
	atMost := leastAhead + firstRoom // as all tasks are in one partition
	testkit.Eventually(t, "the queue is full", func() bool { return w.pending("default") >= leastAhead })
	testkit.Eventually(t, "the rest waits", func() bool { return w.backlog()["default"]+w.pending("default") == 300 })
	if n := w.pending("default"); n > atMost {
		t.Errorf("%d deliveries wait, want %d at most", n, atMost)
	}
	var order []string
	for len(order) < 300 {
		took := w.take("default", 100)
		order = append(order, took...)
		if len(took) == 0 {
			testkit.Eventually(t, "more is handed over", func() bool { return w.pending("default") > 0 })
		}
		if n := w.pending("default"); n > atMost {
			t.Fatalf("%d deliveries wait, want %d at most", n, atMost)
		}
	}
	for i, ref := range refs {
		if want := (task.Delivery{Ref: ref, Attempt: 1}).String(); order[i] != want {
			t.Fatalf("number %d was %s, want %s: they were due in this order", i, order[i], want)
		}
	}
	if n := w.backlog()["default"]; n != 0 {
		t.Errorf("%d tasks wait still", n)
	}
}

func TestDispatch_AQueueThatNobodyServesHoldsUpNoOther(t *testing.T) {
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
	testkit.Eventually(t, "the others wait in DTS", func() bool { return w.backlog()["nobody"] == 200 && w.pending("nobody") == 0 })
	if got := w.get(refs[0]); got.State != task.Scheduled || got.Attempt != 0 {
		t.Errorf("one of them is %s, attempt %d", got.State, got.Attempt)
	}
	r := cluster.New(cluster.Options{
		DB: redistest.Open(t, w.srv.URL()), Key: w.store.Keys.Nodes(), Channel: w.store.Keys.Members(), ID: "late", Beat: beat,
		Self: func() cluster.Node {
			return cluster.Node{Roles: []string{config.RoleWorker}, Queues: map[string]int{"nobody": 1}, Capacity: 1000}
		},
	})
	ended := make(chan error, 1)
	go func() { ended <- r.Run(t.Context()) }()
	t.Cleanup(func() { testkit.Must(t, testkit.Receive(t, ended, "the end of the registry")) })
	testkit.Eventually(t, "a worker comes and gets them", func() bool { return w.pending("nobody") == 200 })
	if n := w.backlog()["nobody"]; n != 0 {
		t.Errorf("%d tasks wait still", n)
	}
}

func TestDispatch_HearsThatAQueueHasRoom(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.slots = 1
	for _, ref := range w.siblings(300) {
		w.create(task.Definition{Ref: ref})
	}
	a := w.start("a", never)
	w.leads(map[*node]int{a: 16})
	testkit.Eventually(t, "the queue is full", func() bool { return w.pending("default") >= leastAhead && w.backlog()["default"] > 0 })
	testkit.Eventually(t, "the leader awaits room", func() bool {
		return w.db.Exists(t.Context(), string(lua.AsynqQueue("default").Awaited())).Val() == 1
	})
	before := w.backlog()["default"]
	w.take("default", 100)
	testkit.Eventually(t, "more is handed over", func() bool { return w.backlog()["default"] < before })
}

// asynq's own server knows nothing of DTS, and is no member of it.
func TestDispatch_HandsOverToAsynqsOwnServers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	handled := make(chan string, 1)
	server := asynq.NewServerFromRedisClient(w.db.UniversalClient, asynq.Config{
		Concurrency: 1, Queues: map[string]int{"foreign": 1}, TaskCheckInterval: 10 * time.Millisecond, LogLevel: asynq.FatalLevel,
	})
	testkit.Must(t, server.Start(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		id, _ := asynq.GetTaskID(ctx)
		handled <- id
		return nil
	})))
	t.Cleanup(server.Shutdown)
	ref := w.create(task.Definition{Ref: w.siblings(1)[0], Queue: "foreign"})
	a := w.start("a", never)
	w.leads(map[*node]int{a: 16})
	if id := testkit.Receive(t, handled, "the delivery"); id != (task.Delivery{Ref: ref, Attempt: 1}).String() {
		t.Errorf("asynq's server handled %s", id)
	}
}

// The workers of a queue end more in a moment than may wait for their slots: the bound follows them.
func TestRooms_TheBoundFollowsFastWorkers(t *testing.T) {
	t.Parallel()
	q := &room{}
	q.measure(queue.Look{Ended: 1000})
	q.measured = q.measured.Add(-time.Second / 2)
	q.measure(queue.Look{Ended: 6000})
	if q.rate < 9000 || q.rate > 10_000 {
		t.Errorf("the rate is %.0f a second, want about 10,000", q.rate)
	}
	w := newWorld(t)
	w.slots = 10
	a := w.start("a", never)
	if idle, busy := a.rooms.bound("default", 0), a.rooms.bound("default", q.rate); idle != 40 || busy < 2250 || busy > 2500 {
		t.Errorf("%d and %d deliveries may wait, want 40 and about 2,500", idle, busy)
	}
	if n := a.rooms.bound("other", q.rate); n != 0 {
		t.Errorf("%d deliveries may wait in a queue that nobody serves", n)
	}
}
