package scheduler

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/store/tasks"
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
	a := w.start("a", never)
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
	if n := m.GetCounter().GetValue(); n != 1 || len(a.losses.take()["frail"].tasks.list) != 1 {
		t.Errorf("%v attempts are counted, want 1", n)
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
	look, err := led.leader.LookAfter(t.Context(), partition.Look{Again: time.Hour, Limit: 10})
	testkit.Must(t, err)
	if err := led.recoverLost(t.Context(), look); err == nil {
		t.Error("want the error of the queue")
	}
	if got := w.get(ref); got.State != task.Succeeded {
		t.Errorf("the task is %s", got.State)
	}
}

// justBack is the contact of a node that reaches Redis again after an outage, long enough for deliveries, and not for runs.
func justBack() *contact {
	c := unbroken()
	c.known[0].settled = clock.Now().Add(never)
	return c
}

// What no worker has begun has no worker that an outage could keep from extending anything.
func TestWatch_EnqueuesALostDeliveryWhileRunsAreSparedAfterAnOutage(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", never, eager, func(n *node) { n.contact = justBack() })
	w.leads(map[*node]int{a: 16})
	runs, lost := w.create(task.Definition{}), w.create(task.Definition{})
	for _, ref := range []task.Ref{runs, lost} {
		w.dispatched(ref, 1)
	}
	w.begin(runs, "cut off")
	lapsed := redis.Z{Score: 1, Member: runs.String()}
	testkit.Must(t, w.db.ZAddXX(t.Context(), string(w.store.KeysOf(runs).Held()), lapsed).Err())

	k := lua.AsynqQueue("default")
	testkit.Must(t, w.db.Del(t.Context(), string(k.Pending()), string(k.Delivery(task.Delivery{Ref: lost, Attempt: 1}.String()))).Err())
	w.dispatched(lost, 1)
	if got := w.get(runs); got.State != task.Running || got.Attempt != 1 {
		t.Errorf("the task whose worker may live is %s, attempt %d", got.State, got.Attempt)
	}
	testkit.Eventually(t, "the run is lost when it is spared no more", func() bool {
		a.contact.mu.Lock()
		a.contact.known[0].settled = clock.Now()
		a.contact.mu.Unlock()
		signal(a.lookWakes[w.store.PartitionOf(runs)])
		return w.get(runs).State != task.Running
	})
}

// A worker has taken the delivery and does not know it, as Redis hung before it answered.
func TestWatch_EnqueuesADeliverySoonAfterRedisHung(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorldWith(t, tasks.DefaultRunLease)
	a := w.start("a", never, func(n *node) { n.contact, n.pace.lookAgain = n.newContact(w.lease), defaultPace.lookAgain })
	w.leads(map[*node]int{a: 16})
	ref := w.create(task.Definition{})
	w.dispatched(ref, 1)
	testkit.Eventually(t, "Redis takes writes", func() bool { return a.contact.missing(0) < w.lease })
	w.takeFor(20*time.Second, 1) // a worker that begins what it has taken has 30 s

	w.srv.Pause()
	testkit.Must(t, clock.Sleep(t.Context(), 4*time.Second))
	w.srv.Continue()
	back := clock.Now()
	testkit.Within(t, 5*time.Second, "the delivery waits again", func() bool { return w.pending("default") == 1 })
	t.Logf("the delivery waited again after %s", clock.Since(back))
}

// A server of a cluster that has only the queue may be away for as long as a task has waited, and then comes the time until the next look.
func TestWatch_EnqueuesALostDeliverySoonAfterItsQueueIsBack(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", never, eager)
	w.leads(map[*node]int{a: 16})
	ref := w.create(task.Definition{})
	w.dispatched(ref, 1)
	k := lua.AsynqQueue("default")
	testkit.Must(t, errors.Join(
		w.db.Del(t.Context(), string(k.Pending()), string(k.Delivery(task.Delivery{Ref: ref, Attempt: 1}.String()))).Err(),
		w.db.Set(t.Context(), string(k.Pending()), "no list", 0).Err(),
		w.waitedSince(ref, w.now().Add(-time.Hour)),
	))
	tries := a.runs("enqueue")
	testkit.Eventually(t, "it cannot be enqueued", func() bool { return a.runs("enqueue") > tries+1 })
	testkit.Must(t, w.db.Del(t.Context(), string(k.Pending())).Err())
	testkit.Within(t, 5*time.Second, "it is enqueued again", func() bool { return w.waits(ref, 1) })
}

// waitedSince changes since when a queued task has waited for a worker, and has it looked after now.
func (w *world) waitedSince(ref task.Ref, at time.Time) error {
	w.t.Helper()
	k := w.store.KeysOf(ref)
	state := w.db.HGet(w.t.Context(), string(k.States()), ref.String()).Val()
	fields := strings.Fields(state)
	fields[5] = strconv.FormatInt(at.UnixMilli(), 10)
	return errors.Join(
		w.db.HSet(w.t.Context(), string(k.States()), ref.String(), strings.Join(fields, " ")).Err(),
		w.db.ZAddXX(w.t.Context(), string(k.Queued()), redis.Z{Score: 1, Member: ref.String()}).Err(),
	)
}
