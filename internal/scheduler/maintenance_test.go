package scheduler

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

func storeNow() control.TaskChange { return control.TaskChange{Delay: new(time.Duration)} }

// eager makes maintenance look often.
func eager(n *node) {
	n.pace = pace{maintenance: 50 * time.Millisecond, restore: 100 * time.Millisecond}
}

// begin has a node run the task's attempt.
func (w *world) begin(ref task.Ref, node string) *tasks.Run {
	w.t.Helper()
	run, err := w.store.Tasks.Begin(w.t.Context(), ref, w.get(ref).Attempt, node, node+"#1")
	testkit.Must(w.t, err)
	return run
}

// worker is a node that only beats, until the test ends or cut is called.
func (w *world) worker(id string) (cut func()) {
	w.t.Helper()
	proxy := redistest.NewProxy(w.t, w.srv.Addr())
	r := w.member(id, config.RoleWorker, redistest.Open(w.t, proxy.URL()))
	ctx, stop := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	w.t.Cleanup(func() { stop(); testkit.Must(w.t, testkit.Receive(w.t, ended, "the worker's end")) })
	testkit.Receive(w.t, r.Ready(), "the worker's first beat")
	return proxy.Cut
}

// looked waits until maintenance has read the nodes some times more.
func (n *node) looked(times uint64) {
	n.t.Helper()
	before := n.runs("read_nodes")
	testkit.Eventually(n.t, "maintenance looked", func() bool { return n.runs("read_nodes") >= before+times })
}

func TestMaintenance_EndsAttemptsOfUnknownNodes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ref := w.create(task.Definition{})
	w.claimAsDeadLeader(ref)
	w.begin(ref, "ghost")
	w.start("a", never)
	w.dispatched(ref, 2)
	attempts, err := w.store.Tasks.Attempts(t.Context(), ref)
	testkit.Must(t, err)
	if a := attempts[0]; a.Outcome != task.OutcomeLost || a.Node != "ghost" {
		t.Errorf("the first attempt is %+v, want lost, on ghost", a)
	}
}

func TestMaintenance_EndsAttemptsOfANodeWhenItDies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", never)
	w.leads(map[*node]int{a: 16})
	cut := w.worker("frail")
	ref := w.create(task.Definition{Retry: task.Retry{MaxAttempts: 2}})
	once := w.create(task.Definition{Retry: task.Retry{MaxAttempts: 1}})
	w.dispatched(ref, 1)
	w.dispatched(once, 1)
	w.begin(ref, "frail")
	w.begin(once, "frail")
	cut()
	w.dispatched(ref, 2)
	w.reaches(once, task.Failed)
}

func TestMaintenance_LeavesAttemptsOfLivingNodesAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", never, eager)
	w.leads(map[*node]int{a: 16})
	ref := w.create(task.Definition{})
	w.dispatched(ref, 1)
	w.worker("new") // a moment ago
	w.begin(ref, "new")
	a.looked(5)
	if got := w.get(ref); got.State != task.Running || got.Attempt != 1 {
		t.Errorf("the task is %s, attempt %d, want running its first", got.State, got.Attempt)
	}
}

// Else a Redis that hiccups just when a node dies would cost half a minute.
func TestMaintenance_IsRepeatedSoonAfterAFailure(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ref := w.create(task.Definition{})
	w.claimAsDeadLeader(ref)
	w.begin(ref, "ghost")
	w.start("a", never, func(n *node) { n.members.failures.Store(2) })
	w.dispatched(ref, 2)
}

func TestMaintenance_DeletesExcessTasksTheFirstToExpireFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	refs := w.siblings(5)
	for i, ref := range refs {
		w.create(task.Definition{Ref: ref, Delay: time.Hour, Retention: time.Duration(i+1) * time.Hour})
		_, err := w.store.Tasks.Cancel(t.Context(), ref)
		testkit.Must(t, err)
	}
	w.start("a", never, func(n *node) { n.o.Keep = 2 * 16 })
	testkit.Eventually(t, "two are left", func() bool { return w.there(refs) == 2 })
	if w.there(refs[3:]) != 2 {
		t.Error("those went whose time was last")
	}
}

func TestMaintenance_DeletesTasksWhoseRetentionIsOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	short := w.create(task.Definition{Retention: time.Second, Delay: time.Hour})
	long := w.create(task.Definition{Retention: time.Hour, Delay: time.Hour})
	waiting := w.create(task.Definition{Retention: time.Second, Delay: time.Hour})
	for _, ref := range []task.Ref{short, long} {
		_, err := w.store.Tasks.Cancel(t.Context(), ref)
		testkit.Must(t, err)
	}
	w.start("a", never, eager)
	testkit.Eventually(t, "the short one is gone", func() bool { return w.there([]task.Ref{short}) == 0 })
	if w.there([]task.Ref{long, waiting}) != 2 {
		t.Error("others went with it")
	}
}

func (w *world) there(refs []task.Ref) int {
	w.t.Helper()
	n := 0
	for _, ref := range refs {
		if _, err := w.store.Tasks.Get(w.t.Context(), ref); err == nil {
			n++
		} else if task.CodeOf(err) != task.CodeTaskNotFound {
			w.t.Fatal(err)
		}
	}
	return n
}

func TestMaintenance_RestoresADeliveryThatVanishedFromAsynq(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", never, eager)
	w.leads(map[*node]int{a: 16})
	ref := w.create(task.Definition{})
	w.dispatched(ref, 1)
	testkit.Must(t, w.db.Del(t.Context(), "asynq:{default}:t:"+ref.String()+":1", "asynq:{default}:pending").Err())
	w.dispatched(ref, 1)
	if got := w.db.LRange(t.Context(), "asynq:{default}:pending", 0, -1).Val(); len(got) != 1 {
		t.Errorf("the queue holds %v, want the delivery once", got)
	}
}

func TestMaintenance_RestoresADeliveryWhoseWorkerDiedBeforeItBegan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", never, eager)
	w.leads(map[*node]int{a: 16})
	ref := w.create(task.Definition{})
	w.dispatched(ref, 1)
	ctx, id := t.Context(), ref.String()+":1"
	testkit.Must(t, w.db.RPopLPush(ctx, "asynq:{default}:pending", "asynq:{default}:active").Err())
	testkit.Must(t, w.db.HSet(ctx, "asynq:{default}:t:"+id, "state", "active").Err())
	testkit.Must(t, w.db.Do(ctx, "ZADD", "asynq:{default}:lease", 1, id).Err())
	testkit.Eventually(t, "it waits again", func() bool { return w.db.LLen(ctx, "asynq:{default}:pending").Val() == 1 })
}

func TestMaintenance_EndsAttemptsThatTheirNodeForgot(t *testing.T) {
	t.Parallel()
	started := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	ran := task.Task{Node: "a", StartedAt: started}
	for _, c := range []struct {
		alive bool
		after time.Duration
		want  string
	}{
		{true, time.Minute + attemptSlack, ""},
		{true, time.Minute + attemptSlack + time.Millisecond, "node a did not end it in time"},
		{false, time.Second, "node a died"},
	} {
		if got := lossOf(ran, time.Minute, c.alive, started.Add(c.after)); got != c.want {
			t.Errorf("alive %v, after %s: %q, want %q", c.alive, c.after, got, c.want)
		}
	}
}

// A wake-up that nobody sent, as after a step of Redis's clock, is made up for by maintenance.
func TestMaintenance_WakesALeaderThatOversleeps(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a", never, eager)
	ref := w.create(task.Definition{Delay: time.Hour})
	n.asleep()
	p := w.store.PartitionOf(ref)
	testkit.Must(t, w.db.ZAdd(t.Context(), fmt.Sprintf("dts:{%d}:wheel", p), redis.Z{Score: 1, Member: ref.String()}).Err())
	w.dispatched(ref, 1)
}
