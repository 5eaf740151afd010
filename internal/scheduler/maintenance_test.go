package scheduler

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

func storeNow() control.TaskChange { return control.TaskChange{Delay: new(time.Duration)} }

// eager makes maintenance and watch look often.
func eager(n *node) {
	n.pace = pace{
		maintenance: 50 * time.Millisecond, tend: 50 * time.Millisecond,
		lookFirst: 100 * time.Millisecond, lookAgain: 100 * time.Millisecond,
		ask: never, names: never, pack: never, lossy: never, peek: never, limits: never,
	}
}

// begin has a node run the task's attempt.
func (w *world) begin(ref task.Ref, node string) *tasks.Run {
	w.t.Helper()
	run, err := w.store.Tasks.Begin(w.t.Context(), ref, w.get(ref).Attempt, node+"#1")
	testkit.Must(w.t, err)
	return run
}

func TestWatch_EndsRunsThatNobodyHolds(t *testing.T) {
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

// An outage that outlasts the leases of runs is nobody's fault. Their workers have a lease's time to extend them.
func TestWatch_TakesNoRunForLostRightAfterAnOutage(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	for name, stop := range map[string]func(*world, *node) (goOn func()){
		"the leader is cut off":    func(_ *world, a *node) func() { a.proxy.Cut(); return a.proxy.Mend },
		"Redis refuses all writes": func(w *world, _ *node) func() { w.srv.RefuseWrites(); return w.srv.TakeWrites },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			takesNoRunForLostRightAfterAnOutage(t, stop)
		})
	}
}

func takesNoRunForLostRightAfterAnOutage(t *testing.T, stop func(*world, *node) (goOn func())) {
	w := newWorldWith(t, 4*time.Second)
	a := w.start("a", never, func(n *node) {
		n.contact = n.newContact(w.lease)
	})
	w.leads(map[*node]int{a: 16})
	lives, died := w.create(task.Definition{}), w.create(task.Definition{Retry: task.Retry{MaxAttempts: 1}})
	for _, ref := range []task.Ref{lives, died} {
		w.dispatched(ref, 1)
	}
	run := w.begin(lives, "healthy")
	w.begin(died, "frail")
	goOn := stop(w, a)
	over := w.now().Add(w.lease)
	testkit.Eventually(t, "the leases are over", func() bool { return w.now().After(over) })
	goOn()
	tries := w.now().Add(time.Second) // the leader tries again within half a second
	testkit.Eventually(t, "the leader has been back for a while", func() bool { return w.now().After(tries) && a.contact.missing(0) < w.lease/2 })
	testkit.Eventually(t, "the run that nobody extends is lost", func() bool {
		testkit.Must(t, w.store.Tasks.ExtendEach(t.Context(), []*tasks.Run{run})[0].Err)
		return w.get(died).State == task.Failed
	})
	if got := w.get(lives); got.State != task.Running || got.Attempt != 1 {
		t.Errorf("the task whose worker lives is %s, attempt %d", got.State, got.Attempt)
	}
}

func TestWatch_EndsRunsThatTheirWorkerDoesNotExtend(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", never)
	w.leads(map[*node]int{a: 16})
	again := w.create(task.Definition{Retry: task.Retry{MaxAttempts: 2}})
	once := w.create(task.Definition{Retry: task.Retry{MaxAttempts: 1}})
	held := w.create(task.Definition{})
	for _, ref := range []task.Ref{again, once, held} {
		w.dispatched(ref, 1)
	}
	w.begin(again, "frail")
	w.begin(once, "frail")
	run := w.begin(held, "healthy")
	extend := time.NewTicker(runLease / 6)
	defer extend.Stop()
	testkit.Eventually(t, "the runs of the frail worker are over", func() bool {
		select {
		case <-extend.C:
			testkit.Must(t, w.store.Tasks.ExtendEach(t.Context(), []*tasks.Run{run})[0].Err)
		default:
		}
		return w.get(once).State == task.Failed && w.get(again).Attempt == 2
	})
	if got := w.get(held); got.State != task.Running || got.Attempt != 1 {
		t.Errorf("the task of the healthy worker is %s, attempt %d, want running its first", got.State, got.Attempt)
	}
}

// Each look finds a delivery that cannot be handed over. The runs of its partition are looked after all the same, and its history is deleted.
func TestWatch_ABrokenQueueHoldsUpNoReaping(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	refs := w.siblings(3)
	lost, waits, ended := refs[0], refs[1], refs[2]
	w.create(task.Definition{Ref: lost, Retry: task.Retry{MaxAttempts: 1}})
	w.create(task.Definition{Ref: waits})
	w.claimAsDeadLeader(lost)
	w.create(task.Definition{Ref: ended, Delay: time.Hour, Retention: time.Millisecond})
	testkit.Must(t, w.db.Set(t.Context(), "asynq:{default}:pending", "not a list", 0).Err())
	var log logText
	w.start("a", never, eager, func(n *node) { n.o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	failing := func() int {
		due := redis.Z{Score: 1, Member: waits.String()}
		testkit.Must(t, w.db.ZAddXX(t.Context(), string(w.store.KeysOf(waits).Queued()), due).Err())
		return log.count("cannot look after queued and running tasks")
	}
	testkit.Eventually(t, "it cannot be handed over", func() bool { return failing() > 0 })
	w.begin(lost, "frail")
	_, err := w.store.Tasks.Cancel(t.Context(), ended, "")
	testkit.Must(t, err)
	testkit.Eventually(t, "the run is lost", func() bool { return failing() > 0 && w.get(lost).State == task.Failed })
	testkit.Eventually(t, "the history is deleted", func() bool { return failing() > 0 && w.there([]task.Ref{ended}) == 0 })
	if got := w.get(waits); got.State != task.Queued || got.Attempt != 1 {
		t.Errorf("what cannot be handed over is %s, attempt %d", got.State, got.Attempt)
	}
}

func TestMaintenance_DeletesExcessTasksTheFirstToExpireFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	refs := w.siblings(5)
	for i, ref := range refs {
		w.create(task.Definition{Ref: ref, Delay: time.Hour, Retention: time.Duration(i+1) * time.Hour})
		_, err := w.store.Tasks.Cancel(t.Context(), ref, "")
		testkit.Must(t, err)
	}
	w.start("a", never, func(n *node) { n.o.Keep.Tasks = 2 * 16 })
	testkit.Eventually(t, "two are left", func() bool { return w.there(refs) == 2 })
	if w.there(refs[3:]) != 2 {
		t.Error("those went whose time was last")
	}
}

// Each partition may remember one name.
func TestMaintenance_TellsIfItForgetsIDsTooEarly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	refs := w.siblings(3)
	for _, ref := range refs {
		w.create(task.Definition{Ref: ref, Delay: time.Hour, Retention: time.Millisecond})
		_, err := w.store.Tasks.Cancel(t.Context(), ref, "")
		testkit.Must(t, err)
	}
	var log logText
	a := w.start("a", never, eager, func(n *node) {
		n.o.Keep.Remember, n.o.Keep.Names, n.o.Log = time.Hour, 16, slog.New(slog.NewTextHandler(&log, nil))
	})
	testkit.Eventually(t, "the names beyond the limit are counted", func() bool {
		var m dto.Metric
		testkit.Must(t, a.metrics.ForgottenEarly.Write(&m))
		return m.GetCounter().GetValue() == 2
	})
	testkit.Eventually(t, "the log says it", func() bool { return log.count("--remember-max-ids") == 1 })
	if n := w.db.HLen(t.Context(), string(w.store.KeysOf(refs[0]).Remembered())).Val(); n != 1 {
		t.Errorf("%d names are remembered, want 1", n)
	}
}

// All that is kept of the past goes, and nothing else.
func TestMaintenance_DeletesHistoryWhileRedisIsAlmostFull(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	refs := w.siblings(10)
	for i, ref := range refs {
		w.create(task.Definition{Ref: ref, Delay: time.Hour})
		if i < 5 {
			_, err := w.store.Tasks.Cancel(t.Context(), ref, "")
			testkit.Must(t, err)
		}
	}
	a := w.start("a", never, func(n *node) { n.pace.peek = 50 * time.Millisecond })
	w.leads(map[*node]int{a: 16})
	if n := w.there(refs); n != 10 {
		t.Fatalf("%d tasks are there", n)
	}
	testkit.Must(t, w.db.ConfigSet(t.Context(), "maxmemory", "1").Err())
	testkit.Eventually(t, "the finished ones are gone", func() bool { return w.there(refs[:5]) == 0 })
	if n := w.there(refs[5:]); n != 5 {
		t.Errorf("%d of those that wait are left", n)
	}
	testkit.Eventually(t, "they are counted", func() bool {
		var m dto.Metric
		testkit.Must(t, a.metrics.Evicted.Write(&m))
		return m.GetCounter().GetValue() == 5
	})
}

func TestMaintenance_DeletesTasksWhoseRetentionIsOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	short := w.create(task.Definition{Retention: time.Second, Delay: time.Hour})
	long := w.create(task.Definition{Retention: time.Hour, Delay: time.Hour})
	waiting := w.create(task.Definition{Retention: time.Second, Delay: time.Hour})
	for _, ref := range []task.Ref{short, long} {
		_, err := w.store.Tasks.Cancel(t.Context(), ref, "")
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

func TestWatch_RestoresADeliveryThatVanishedFromAsynq(t *testing.T) {
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

func TestWatch_RestoresADeliveryWhoseWorkerDiedBeforeItBegan(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", never, eager)
	w.leads(map[*node]int{a: 16})
	ref := w.create(task.Definition{})
	w.dispatched(ref, 1)
	ctx, id := t.Context(), ref.String()+":1"
	_, err := w.db.TxPipelined(ctx, func(p redis.Pipeliner) error { // at once, as a worker does: the leader looks meanwhile
		p.RPopLPush(ctx, "asynq:{default}:pending", "asynq:{default}:active")
		p.HSet(ctx, "asynq:{default}:t:"+id, "state", "active")
		p.ZAdd(ctx, "asynq:{default}:lease", redis.Z{Score: 1, Member: id})
		return nil
	})
	testkit.Must(t, err)
	testkit.Eventually(t, "it waits again", func() bool { return w.db.LLen(ctx, "asynq:{default}:pending").Val() == 1 })
}

// A wake-up that nobody sent, as after a step of Redis's clock, is made up for by maintenance.
func TestMaintenance_WakesALeaderThatOversleeps(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	n := w.start("a", never, eager)
	ref := w.create(task.Definition{Delay: time.Hour})
	n.asleep()
	p := w.store.PartitionOf(ref)
	testkit.Must(t, w.db.ZAdd(t.Context(), fmt.Sprintf("dts:{%d}:wheel", p), redis.Z{Score: 1, Member: ref.String()}).Err())
	w.dispatched(ref, 1)
}

// logText is a log that a test reads.
type logText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logText) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}
