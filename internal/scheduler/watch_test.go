package scheduler

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

// termOf is a term of the partition of a task that the node leads, with the fence of the node unless another one is given.
func (n *node) termOf(ref task.Ref, fence lua.Fence) *term {
	n.t.Helper()
	p := n.o.Store.PartitionOf(ref)
	t := &term{s: n.Scheduler, partition: p, claimed: make(chan struct{}, 1)}
	n.mu.Lock()
	defer n.mu.Unlock()
	if t.leader = n.led[p]; fence != "" {
		t.leader = n.o.Store.Partitions.At(p).Lead(fence)
	}
	return t
}

// Between the look and the end of a run, its worker may extend it, or another one may begin the task again.
func TestWatch_CountsTheAttemptsThatItHasEnded(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, time.Hour)
	var log logText
	a := w.start("a", never, func(n *node) { n.o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	w.leads(map[*node]int{a: 16})
	refs := w.siblings(3)
	lost, extended, begun := refs[0], refs[1], refs[2]
	look := partition.Watched{Now: w.now()}
	for _, ref := range refs {
		w.create(task.Definition{Ref: ref})
		w.dispatched(ref, 1)
		w.begin(ref, "frail")
		look.Lapsed = append(look.Lapsed, w.get(ref))
	}
	look.Lapsed[2].Run = "another#1"
	held := string(w.store.KeysOf(lost).Held())
	until, err := w.db.ZScore(t.Context(), held, lost.String()).Result()
	testkit.Must(t, err)
	look.Until = time.UnixMilli(int64(until))
	testkit.Must(t, w.db.ZIncrBy(t.Context(), held, 1e6, extended.String()).Err())

	if err := a.termOf(lost, "0:old").recoverLost(t.Context(), look); !errors.Is(err, partition.ErrFenced) {
		t.Errorf("who leads no more: %v, want ErrFenced", err)
	}
	testkit.Must(t, a.termOf(lost, "").recoverLost(t.Context(), look))
	attempts, err := w.store.Tasks.Attempts(t.Context(), lost)
	testkit.Must(t, err)
	if got := attempts[0].Outcome; got != task.OutcomeLost || w.get(extended).State != task.Running || w.get(begun).State != task.Running {
		t.Errorf("the outcome of the first is %s, want lost; the others are %s and %s, want running", got, w.get(extended).State, w.get(begun).State)
	}
	var m dto.Metric
	testkit.Must(t, a.metrics.Reaped.Write(&m))
	if n := m.GetCounter().GetValue(); n != 1 || log.count("recovered lost attempts") != 1 || log.count("count=1\n") != 1 {
		t.Errorf("%v attempts are counted, want 1; logged %s", n, log.text.String())
	}
}

func TestWatch_EndsAnAttemptWhoseQueueRefusesToForgetIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", never, func(n *node) { n.pace.lookFirst = never })
	w.leads(map[*node]int{a: 16})
	ref := w.create(task.Definition{})
	w.dispatched(ref, 1)
	k := lua.AsynqQueue("default")
	testkit.Must(t, errors.Join(
		w.db.HSet(t.Context(), string(k.Delivery(task.Delivery{Ref: ref, Attempt: 1}.String())), "state", "completed").Err(),
		w.db.Set(t.Context(), string(k.Completed()), "not a sorted set", 0).Err(),
		w.db.ZAddXX(t.Context(), string(w.store.KeysOf(ref).Queued()), redis.Z{Score: 1, Member: ref.String()}).Err(),
	))
	led := a.termOf(ref, "")
	look, err := led.leader.LookAfter(t.Context(), time.Hour, 10, false)
	testkit.Must(t, err)
	if err := led.recoverLost(t.Context(), look); err == nil {
		t.Error("want the error of the queue")
	}
	if got := w.get(ref); got.State != task.Succeeded {
		t.Errorf("the task is %s", got.State)
	}
}
