package scheduler

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/handover"
	"github.com/dts-sched/dts/internal/lease/leasetest"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

// How late it may be is asserted by the voyages, on whose clock the load of the machine takes no time.
func TestDispatch_HappensWhenATaskIsDueAndNotBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", never)
	w.leads(map[*node]int{a: 16})
	a.asleep()
	ref := w.create(task.Definition{Delay: 700 * time.Millisecond})
	w.dispatched(ref, 1)
	got := w.get(ref)
	late := got.QueuedAt.Sub(got.DueAt)
	if late < 0 {
		t.Errorf("it was claimed %s before it was due", -late)
	}
	t.Logf("claimed %s after it was due", late)
}

func TestDispatch_IsWokenByATaskDueBeforeAllOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", never)
	w.leads(map[*node]int{a: 16})
	ids := w.siblings(2)
	later := w.create(task.Definition{Ref: ids[0], Delay: time.Hour})
	a.asleep()
	ref := w.create(task.Definition{Ref: ids[1]})
	w.dispatched(ref, 1)
	if got := w.get(later); got.State != task.Scheduled {
		t.Errorf("the later one is %s, want scheduled", got.State)
	}
}

func TestDispatch_IsWokenByATaskMovedForward(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", never)
	w.leads(map[*node]int{a: 16})
	ref := w.create(task.Definition{Delay: time.Hour})
	a.asleep()
	_, err := useCases(w.store).ChangeTask(t.Context(), caller, ref.ID, storeNow())
	testkit.Must(t, err)
	w.dispatched(ref, 1)
}

// With maintenance out of the way, a leader that waits does not look at its wheel at all.
func TestDispatch_DoesNotPollTheWheel(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", 4*time.Second)
	w.leads(map[*node]int{a: 16})
	for i := range 50 {
		w.create(task.Definition{Ref: task.Ref{ID: fmt.Sprint(i)}, Delay: time.Hour})
	}
	a.asleep()
	claims, renewals := a.runs("claim"), a.runs("renew_lease")
	testkit.Eventually(t, "each lease was renewed", func() bool { return a.runs("renew_lease") >= renewals+16 })
	if n := a.runs("claim") - claims; n != 0 {
		t.Errorf("the wheels were looked at %d times while nothing was due", n)
	}
}

func TestDispatch_TakesAWholeBacklog(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	const n = 3*handover.ClaimLimit + 17
	w := newWorld(t)
	refs := w.siblings(n)
	for _, ref := range refs {
		w.create(task.Definition{Ref: ref})
	}
	w.start("a", never)
	testkit.Eventually(t, "all are in asynq", func() bool {
		return w.db.LLen(t.Context(), "asynq:{default}:pending").Val() == n
	})
	w.dispatched(refs[n-1], 1)
}

// claimAsDeadLeader does what the leader of a task's partition did before it died.
func (w *world) claimAsDeadLeader(ref task.Ref) {
	w.t.Helper()
	p := w.store.PartitionOf(ref)
	key := w.store.Partitions.LeaseKey(p)
	leasetest.Grant(w.t, w.db, key, "1:dead", 0)
	quotas := handover.Grant{Lanes: handover.Quotas{{Queue: "default"}: {Number: 1000}, {Queue: "foreign"}: {Number: 1}}} // those that wait, too
	_, err := w.store.Partitions.At(p).Lead("1:dead").Claim(w.t.Context(), handover.ClaimLimit, quotas, time.Second)
	testkit.Must(w.t, err)
	leasetest.End(w.t, w.db, key)
}

// A claim that is not followed by its hand-over waits until somebody looks after it.
func TestDispatch_HandsOverWhatWasClaimedBeforeItsTermEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", never)
	ref := task.Ref{Namespace: task.DefaultNamespace, ID: "claimed"}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	d := task.Delivery{Ref: ref, Attempt: 1, Type: "echo", Queue: "default", ClaimedAt: w.now()}
	testkit.Must(t, a.plan.handOver(ended, []task.Delivery{d}).Failure())
	w.dispatched(ref, 1)
}

func TestWatch_EnqueuesWhatADeadLeaderClaimed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ref := w.create(task.Definition{})
	w.claimAsDeadLeader(ref)
	if got := w.get(ref); got.State != task.Queued || w.waits(ref, 1) {
		t.Fatalf("the task is %s, want queued and not in asynq", got.State)
	}
	w.start("a", never)
	w.dispatched(ref, 1)
	if got := w.get(ref); got.Attempt != 1 {
		t.Errorf("the attempt is %d, want still the first", got.Attempt)
	}
}

// As after a crash of the leader of a partition between its claims and hand-overs, or the loss of asynq's keys.
func TestWatch_EnqueuesAllThatWasLostWithinSomeLooks(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	const n = 4 * handover.ClaimLimit
	w := newWorld(t)
	refs := w.siblings(n)
	for _, ref := range refs {
		w.create(task.Definition{Ref: ref})
	}
	for range 2 * n / handover.ClaimLimit { // a claim takes fewer if some are overdue by then, as newer ones wait apart
		w.claimAsDeadLeader(refs[0])
	}
	if queued := w.db.ZCard(t.Context(), string(w.store.KeysOf(refs[0]).Queued())).Val(); queued != n {
		t.Fatalf("%d tasks are queued, want %d", queued, n)
	}
	a := w.start("a", never)
	testkit.Eventually(t, "all are in asynq", func() bool { return w.pending("default") == n })
	if looks := a.runs("look_after"); looks > 100 {
		t.Errorf("it took %d looks", looks)
	}
}

func TestWatch_KeepsTheOrderOfWhatADeadLeaderClaimed(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	refs := w.siblings(200) // whose names are not in order
	w.createOverdue(refs, time.Millisecond)
	w.claimAsDeadLeader(refs[0])
	w.start("a", never)
	testkit.Eventually(t, "all are in asynq", func() bool { return w.pending("default") == len(refs) })
	var order []string
	for len(order) < len(refs) {
		order = append(order, w.take(100)...)
	}
	w.inOrder(order, refs)
}

// The client repeats a claim whose connection broke, and the repetition succeeds: it finds nothing more to claim.
func TestDispatch_RepeatsAClaimWhoseAnswerWasLost(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", never)
	w.leads(map[*node]int{a: 16})
	a.asleep()
	a.proxy.Hold()
	ref := w.create(task.Definition{})
	testkit.Eventually(t, "a claims", func() bool { return a.holds("claim") })
	w.srv.Pause()
	a.proxy.Release() // Redis will carry it out,
	a.proxy.Cut()     // and not be able to answer
	w.srv.Continue()
	w.reaches(ref, task.Queued)
	a.proxy.Mend()
	w.dispatched(ref, 1)
}

func TestDispatch_LooksAgainAfterALostConnection(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", never)
	w.leads(map[*node]int{a: 16})
	a.asleep()
	a.proxy.Cut()
	ref := w.create(task.Definition{})
	a.proxy.Mend()
	w.dispatched(ref, 1)
}

// unwatched is a run whose leader looks after its claim, and then only if it is told to.
type unwatched struct {
	*world
	leader          *node
	run             *tasks.Run
	keys            lua.Partition
	queued, running string // the states of its task before and after it began
	looks           uint64 // of the leader before the claim
}

func newUnwatched(t *testing.T) *unwatched {
	t.Helper()
	w := newWorld(t)
	a := w.start("a", never)
	w.leads(map[*node]int{a: 16})
	a.asleep()
	a.quiet("look_after")
	looks := a.runs("look_after")
	ref := w.create(task.Definition{Retry: task.Retry{MaxAttempts: 1}})
	w.dispatched(ref, 1)
	u := &unwatched{world: w, leader: a, keys: w.store.KeysOf(ref), looks: looks}
	state := func() string { return w.db.HGet(t.Context(), string(u.keys.States()), ref.String()).Val() }
	u.queued = state()
	run, err := w.store.Tasks.Begin(t.Context(), ref, 1, "worker#1")
	testkit.Must(t, err)
	u.run, u.running = run, state()
	return u
}

// settle waits until the leader has looked after its claim, and looks no more.
func (u *unwatched) settle(t *testing.T) {
	t.Helper()
	testkit.Eventually(t, "a has looked after its claim", func() bool { return u.leader.runs("look_after") > u.looks })
	u.leader.quiet("look_after")
}

// A failover of Redis to a replica that was behind can lose that an attempt has ended. No claim of this leader tells it to look.
func TestWatch_FindsRunsThatCameBackWithRedis(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	u := newUnwatched(t)
	ref, k := u.run.Task.Ref, u.keys
	testkit.Must(t, u.run.Finish(t.Context(), task.Succeeded, task.OutcomeSucceeded, "", ""))
	u.settle(t)
	u.leader.proxy.Cut()
	_, err := u.db.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
		p.HSet(t.Context(), string(k.States()), ref.String(), u.running)
		p.ZRem(t.Context(), string(k.Expiry()), ref.String())
		p.ZRem(t.Context(), string(k.Index(task.DefaultNamespace, task.Succeeded)), ref.String())
		p.ZAdd(t.Context(), string(k.Running()), redis.Z{Score: 1, Member: ref.String()})
		p.ZAdd(t.Context(), string(k.Held()), redis.Z{Score: 1, Member: ref.String()})
		return nil
	})
	testkit.Must(t, err)
	u.leader.proxy.Mend()
	u.reaches(ref, task.Failed)
}

// A worker can tell late that it runs an attempt whose begin Redis has lost. No claim of this leader tells it to look.
func TestWatch_FindsRunsThatAreToldLate(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	u := newUnwatched(t)
	ref, k := u.run.Task.Ref, u.keys
	_, err := u.db.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
		p.HSet(t.Context(), string(k.States()), ref.String(), u.queued)
		p.ZRem(t.Context(), string(k.Running()), ref.String())
		p.ZRem(t.Context(), string(k.Held()), ref.String())
		return nil
	})
	testkit.Must(t, err)
	u.settle(t)
	u.run.Limit = u.run.Task.StartedAt
	if err := u.store.Tasks.ExtendEach(t.Context(), []*tasks.Run{u.run})[0].Err; !errors.Is(err, tasks.ErrOver) {
		t.Fatalf("%v, want ErrOver", err)
	}
	u.reaches(ref, task.Failed)
}

func TestDispatch_GoesOnAfterARestartOfRedis(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t, redistest.AOF())
	a := w.start("a", 2*time.Second)
	w.leads(map[*node]int{a: 16})
	before := w.create(task.Definition{Ref: task.Ref{ID: "before"}, Delay: 300 * time.Millisecond})
	w.srv.Kill()
	w.srv.Restart()
	after := w.create(task.Definition{Ref: task.Ref{ID: "after"}})
	w.dispatched(before, 1)
	w.dispatched(after, 1)
	w.leads(map[*node]int{a: 16})
}
