package scheduler

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

// join registers a worker of the queue default that runs these types in so many slots. It takes nothing by itself. leave ends it.
func (w *world) join(slots int, types ...string) (leave func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	r := cluster.New(cluster.Options{
		DB: redistest.Open(w.t, w.srv.URL()), Key: w.store.Keys.Nodes(), Channel: w.store.Keys.Members(),
		ID: "runs-" + strings.Join(types, "-"), Beat: beat,
		Self: func() cluster.Node {
			return cluster.Node{Roles: []string{config.RoleWorker}, Queues: map[string]int{"default": 1}, Capacity: slots, Types: types}
		},
	})
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	testkit.Receive(w.t, r.Ready(), "the first beat of the worker")
	leave = func() {
		cancel()
		testkit.Must(w.t, testkit.Receive(w.t, ended, "the end of the registry"))
		ended <- nil // for whoever asks again
	}
	w.t.Cleanup(leave)
	return leave
}

// takeOf takes deliveries from the queue default as a worker does that runs these types.
func (w *world) takeOf(n int, types ...string) []string {
	w.t.Helper()
	k := lua.AsynqQueue(task.DefaultQueue)
	reply, err := redisx.Run(w.t.Context(), w.db, lua.Take{
		Pending: k.Pending(), Paused: k.Paused(), Active: k.Active(), Deadline: k.Deadline(), Awaited: k.Awaited(), Called: k.Called(),
		Skipped: k.Skipped(), Limit: n, Lease: time.Minute, Queue: task.DefaultQueue, Types: lua.TypesText(types),
		Leaders: w.store.Keys.Leaders(), Arrivals: w.store.Keys.Arrivals(task.DefaultQueue),
	})
	testkit.Must(w.t, err)
	var ids []string
	for _, d := range reply.Taken {
		ids = append(ids, d.ID)
	}
	return ids
}

// overdue creates tasks of a type in all partitions, which were due an hour ago.
func (w *world) overdue(n int, taskType string) []task.Ref {
	w.t.Helper()
	return w.overdueAs(n, taskType, task.Definition{Type: taskType})
}

// overdueAs is overdue for tasks that are alike, with ids that begin with a name.
func (w *world) overdueAs(n int, name string, d task.Definition) []task.Ref {
	w.t.Helper()
	refs := make([]task.Ref, n)
	for i := range refs {
		d.Ref, d.Delay = task.Ref{Namespace: task.DefaultNamespace, ID: fmt.Sprint(name, i)}, time.Hour
		refs[i] = w.create(d)
		entry := redis.Z{Score: float64(time.Now().Add(-time.Hour).UnixMilli()), Member: refs[i].String()}
		testkit.Must(w.t, w.db.ZAddXX(w.t.Context(), string(w.store.KeysOf(refs[i]).Wheel()), entry).Err())
	}
	return refs
}

func TestDispatch_ATypeThatNobodyRunsHoldsUpNoOther(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	w.types = []string{"echo"}
	parked := w.overdue(1000, "shell")
	last := w.create(task.Definition{})
	a := w.start("a", never, func(n *node) { n.pace.ask = 20 * time.Millisecond })
	w.leads(map[*node]int{a: 16})
	w.dispatched(last, 1)
	testkit.Eventually(t, "the others wait in DTS", func() bool { return w.backlog()["default"] == 1000 && w.pending("default") == 1 })
	if got := w.get(parked[999]); got.State != task.Scheduled || got.Attempt != 0 {
		t.Errorf("one of them is %s, attempt %d", got.State, got.Attempt)
	}
	a.quiet("claim") // though the leader looks for room 50 times a second
	a.quiet("take_back")
	a.quiet("count_types")
	w.dispatched(w.create(task.Definition{}), 1)
	w.create(task.Definition{Type: "shell"})
	testkit.Eventually(t, "another one waits with them", func() bool { return w.backlog()["default"] == 1001 })
	w.join(1000, "shell")
	testkit.Eventually(t, "a worker comes and gets them", func() bool { return w.pending("default") == 1003 })
	if n := w.backlog()["default"]; n != 0 {
		t.Errorf("%d tasks wait still", n)
	}
}

// What waits for the few workers of a type is bounded by their slots, and takes no room of what others run.
func TestDispatch_ATypeThatFewRunTakesNoRoomOfTheOthers(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	w.slots, w.types = 4, []string{"echo"}
	w.join(1, "shell")
	w.overdue(150, "shell")
	for range 40 {
		w.create(task.Definition{})
	}
	a := w.start("a", never, func(n *node) { n.pace.ask = 100 * time.Millisecond })
	w.leads(map[*node]int{a: 16})
	taken := map[string]bool{}
	testkit.Eventually(t, "all tasks of the other type are taken", func() bool {
		for _, id := range w.takeOf(8, "echo") {
			taken[id] = true
		}
		return len(taken) >= 40
	})
	for id := range taken {
		if strings.Contains(id, ":shell") {
			t.Fatalf("%s was taken by a worker that does not run it", id)
		}
	}
	shell := 0
	testkit.Eventually(t, "all tasks of the type are taken by the worker that runs it", func() bool {
		shell += len(w.takeOf(1, "shell"))
		return shell == 150
	})
}

func TestWatch_TakesBackWhatNobodyRunsAnyMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.types = []string{"echo"}
	leave := w.join(10, "shell")
	a := w.start("a", never, func(n *node) { n.pace.lookFirst, n.pace.lookAgain = 50*time.Millisecond, 50*time.Millisecond })
	w.leads(map[*node]int{a: 16})
	taken := w.create(task.Definition{Type: "shell"})
	w.dispatched(taken, 1)
	if n := len(w.takeOf(1, "shell")); n != 1 {
		t.Fatalf("%d deliveries were taken, want 1", n)
	}
	waits := w.create(task.Definition{Type: "shell"})
	w.dispatched(waits, 1)
	leave()
	w.reaches(waits, task.Scheduled)
	testkit.Eventually(t, "its delivery is gone", func() bool { return w.pending("default") == 0 && !w.waits(waits, 1) })
	if got := w.get(waits); got.Attempt != 0 {
		t.Errorf("it has used %d attempts", got.Attempt)
	}
	if got := w.get(taken); got.State != task.Queued || !w.waits(taken, 1) {
		t.Errorf("the one that was taken before is %s", got.State)
	}
	w.join(10, "shell", "other")
	w.dispatched(waits, 1)
}

// Tasks wait of which the leader does not know: somebody has repaired the backlog, or Redis has lost writes. Nothing
// else happens in their partition.
func TestDispatch_FindsALaneThatItHasForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", never, func(n *node) { n.pace.names = 100 * time.Millisecond })
	w.leads(map[*node]int{a: 16})
	ref := w.create(task.Definition{Delay: time.Hour})
	k, entry := w.store.KeysOf(ref), redis.Z{Score: float64(time.Now().UnixMilli()), Member: ref.String()}
	_, err := w.db.TxPipelined(t.Context(), func(tx redis.Pipeliner) error {
		tx.ZRem(t.Context(), string(k.Wheel()), ref.String())
		tx.ZAdd(t.Context(), string(k.Ready(task.DefaultQueue)), entry)
		tx.SAdd(t.Context(), string(k.Backlog()), task.DefaultQueue)
		return nil
	})
	testkit.Must(t, err)
	w.dispatched(ref, 1)
	if n := defaultPace.names; n > time.Minute {
		t.Errorf("outside of tests, that takes up to %s", n)
	}
}
