package scheduler

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// The leader creates what follows an end as soon as that is told, and what was left by the leader before.
func TestFollow_CreatesWhatFollows(t *testing.T) {
	t.Parallel()
	w := newAdvanced(t)
	next := &task.FollowUp{When: task.WhenEnded, Task: task.Definition{Type: "echo", Delay: time.Hour}}
	left := w.create(task.Definition{Delay: time.Hour, OnEnd: next})
	w.cancelled(left) // while nobody leads
	a := w.start("a", never)
	w.leads(map[*node]int{a: 16})
	w.isThere(left.FollowUp(0))
	told := w.create(task.Definition{Delay: time.Hour, OnEnd: next})
	w.cancelled(told)
	w.isThere(told.FollowUp(0))
	a.counts("follow-ups", a.metrics.FollowUps, 2)
	if n := w.get(told.FollowUp(0)).Parent; n == nil || n.ID != told.ID || n.State != task.Cancelled {
		t.Errorf("it follows %+v", n)
	}
}

// The leader looks at the time by which a worker must begin a task, and not only once a minute.
func TestFollow_EndsATaskAtItsTime(t *testing.T) {
	t.Parallel()
	w := newAdvanced(t)
	a := w.start("a", never)
	w.leads(map[*node]int{a: 16})
	var refs []task.Ref
	for i := range 20 {
		bound := time.Duration(50+i) * time.Millisecond
		refs = append(refs, w.create(task.Definition{Queue: "unserved", StartBy: bound}))
	}
	for _, ref := range refs {
		w.reaches(ref, task.Cancelled)
	}
	a.counts("expired tasks", a.metrics.Expired, 20)
}

// A task that nobody began in time leaves its queue, which no worker may take anything from: it is no backlog.
func TestFollow_TakesALateTaskOutOfItsQueue(t *testing.T) {
	t.Parallel()
	w := newAdvanced(t)
	a := w.start("a", never)
	w.leads(map[*node]int{a: 16})
	ref := w.create(task.Definition{StartBy: 300 * time.Millisecond})
	w.dispatched(ref, 1)
	w.reaches(ref, task.Cancelled)
	testkit.Eventually(t, "its delivery is gone", func() bool { return w.pending("default") == 0 })
}

// counts waits until a counter has a value: it counts a moment after what it counts.
func (n *node) counts(what string, c prometheus.Counter, want float64) {
	n.t.Helper()
	testkit.Eventually(n.t, what, func() bool {
		var m dto.Metric
		testkit.Must(n.t, c.Write(&m))
		return m.GetCounter().GetValue() == want
	})
}

// Of an end whose task somebody has deleted, the log says which command removes it.
func TestFollow_SaysHowToRemoveALeftEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	gone := task.Ref{Namespace: "default", ID: "gone"}
	entry := redis.Z{Score: 1, Member: "end default:gone 1 failed"}
	testkit.Must(t, w.db.ZAdd(t.Context(), string(w.store.KeysOf(gone).Outbox()), entry).Err())
	var log testkit.Log
	w.start("a", never, logged(&log))
	testkit.Eventually(t, "the leader warns", func() bool {
		return log.Has("dtsctl doctor --check task-leftovers --repair")
	})
}

func (w *world) cancelled(ref task.Ref) {
	w.t.Helper()
	_, err := w.store.Tasks.Cancel(w.t.Context(), ref, "")
	testkit.Must(w.t, err)
}

func (w *world) isThere(ref task.Ref) {
	w.t.Helper()
	testkit.Eventually(w.t, "there is a task "+ref.ID, func() bool {
		_, err := w.store.Tasks.Get(w.t.Context(), ref)
		return err == nil
	})
}
