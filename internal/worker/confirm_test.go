package worker

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor"
)

// unconfirmed is a world whose Redis has lost its replica, and a worker that waits for one before it starts what must run at most once.
type unconfirmed struct {
	*world
	pair   *redistest.Pair
	store  *store.Store // of the worker
	worker *running
	runs   chan struct{} // of its executor
}

func awaitingReplicas(t *testing.T) *unconfirmed {
	t.Helper()
	pair := redistest.StartPair(t)
	u := &unconfirmed{world: worldOn(t, pair.Primary), pair: pair, runs: make(chan struct{}, 5)}
	u.lease = 2 * time.Second
	durable, err := store.Open(t.Context(), store.Options{
		DB: redistest.Open(t, u.reports.URL()), Partitions: 2, RunLease: u.lease,
		Durability: config.Durability{Replicas: 1, Timeout: u.lease * 3 / 4},
	})
	testkit.Must(t, err)
	u.store = durable
	u.worker = u.start(func(context.Context, executor.Attempt) (string, error) { u.runs <- struct{}{}; return "", nil }, func(o *Options) { o.Store = durable })
	pair.Detach()
	return u
}

// begin has the worker begin the only attempt of a task.
func (u *unconfirmed) begin() task.Ref {
	u.t.Helper()
	ref := u.submit(task.Definition{Retry: task.Retry{MaxAttempts: 1}})
	u.reaches(ref, task.Running)
	return ref
}

// lead does what a leader does with runs whose leases are over, until so much time has passed.
func (u *unconfirmed) lead(ref task.Ref, d time.Duration) {
	u.t.Helper()
	begin, leader := time.Now(), u.store.Partitions.At(u.store.PartitionOf(ref)).Lead(fence)
	testkit.Eventually(u.t, "time passes", func() bool {
		watched, err := leader.LookAfter(u.t.Context(), partition.Look{Again: time.Second, Limit: 10})
		testkit.Must(u.t, err)
		for _, lapsed := range watched.Lapsed {
			err := leader.Reap(u.t.Context(), lapsed, watched.Now, watched.Until, partition.Loss{Reason: "the lease is over"})
			if err != nil && !errors.Is(err, tasks.ErrStale) {
				u.t.Fatal(err)
			}
		}
		return time.Since(begin) > d
	})
}

// expect checks how the task ended, and how often its work ran.
func (u *unconfirmed) expect(ref task.Ref, want task.State, runs int) {
	u.t.Helper()
	if got := u.reaches(ref, want); got.Attempt != 1 || len(u.runs) != runs {
		u.t.Errorf("it is in attempt %d and ran %d times, want 1 and %d", got.Attempt, len(u.runs), runs)
	}
}

// The wait for one call, which others share, and then for the next one takes longer than a lease.
func TestBegin_KeepsTheLeaseOfAnAttemptThatWaitsForReplicas(t *testing.T) {
	t.Parallel()
	u := awaitingReplicas(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		for ctx.Err() == nil {
			u.store.Tasks.Create(ctx, []task.Definition{{Type: "echo", Delay: time.Hour, Ref: task.Ref{Namespace: "default", ID: "steady"}}})
		}
	}()
	ref := u.begin()
	u.lead(ref, u.lease*5/2)
	u.pair.AddReplica()
	u.expect(ref, task.Succeeded, 1)
}

// Nothing runs yet, so nothing has to stop when the lease cannot be extended.
func TestBegin_GoesOnAfterAnOutageWhileItWaitsForReplicas(t *testing.T) {
	t.Parallel()
	u := awaitingReplicas(t)
	ref := u.begin()
	testkit.Eventually(t, "the worker knows it, too", func() bool { return len(u.worker.begun()) > 0 })
	u.reports.Cut()
	testkit.Eventually(t, "it cannot extend the lease", func() bool { return u.said.contain("cannot extend") })
	cut := time.Now()
	testkit.Eventually(t, "the lease is over", func() bool { return time.Since(cut) > u.lease })
	u.reports.Mend()
	u.pair.AddReplica()
	u.expect(ref, task.Succeeded, 1)
}

func TestBegin_RunsNothingIfTheTaskIsCancelledWhileItWaitsForReplicas(t *testing.T) {
	t.Parallel()
	u := awaitingReplicas(t)
	ref := u.begin()
	_, err := u.world.store.Tasks.Cancel(t.Context(), ref, "")
	testkit.Must(t, err)
	u.expect(ref, task.Cancelled, 0)
}

func TestBegin_RunsNothingIfTheAttemptIsLostWhileItWaitsForReplicas(t *testing.T) {
	t.Parallel()
	u := awaitingReplicas(t)
	ref := u.begin()
	u.reap(ref)
	testkit.Eventually(t, "the delivery is dropped", func() bool { return count(t, u.metrics.Leftovers) == 1 })
	u.pair.AddReplica()
	u.expect(ref, task.Failed, 0)
}

func TestDrain_EndsAnAttemptThatWaitsForReplicasWithoutRunningIt(t *testing.T) {
	t.Parallel()
	u := awaitingReplicas(t)
	ref := u.begin()
	u.worker.end()
	u.expect(ref, task.Failed, 0)
	u.last(ref, task.OutcomeInterrupted)
}
