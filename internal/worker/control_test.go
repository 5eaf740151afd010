package worker

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor"
)

func (w *world) cancel(ref task.Ref) {
	w.t.Helper()
	_, err := w.store.Tasks.Cancel(w.t.Context(), ref, "")
	testkit.Must(w.t, err)
}

func TestCancel_StopsARunningTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ref, ended := w.runUntilStopped()
	w.cancel(ref)
	if cause := testkit.Receive(t, ended, "the executor's end"); !errors.Is(cause, errStopped) || errors.Is(cause, executor.ErrNoGrace) {
		t.Errorf("the executor was stopped because of %v, want that it was cancelled, with grace", cause)
	}
	w.reaches(ref, task.Cancelled)
	w.last(ref, task.OutcomeCancelled)
}

// An executor that fails at the very moment, before it hears that it should stop.
func TestCancel_CountsThoughTheTaskFailsByItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	begun, fail := make(chan struct{}), make(chan struct{})
	w.start(func(context.Context, executor.Attempt) (string, error) {
		close(begun)
		<-fail
		return "", errors.New("boom")
	})
	ref := w.submit(task.Definition{})
	testkit.Receive(t, begun, "the attempt")
	w.reports.Hold() // the report does not pass before the cancel
	close(fail)
	testkit.Eventually(t, "the report is on its way", func() bool { return len(w.reports.Held()) > 0 })
	w.cancel(ref)
	w.reports.Release()
	w.reaches(ref, task.Cancelled)
	w.last(ref, task.OutcomeCancelled)
}

func TestCancel_IsObeyedAfterALostConnection(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ref, ended := w.runUntilStopped()
	w.reports.Cut()
	w.cancel(ref)
	w.reports.Mend()
	if cause := testkit.Receive(t, ended, "the executor's end"); !errors.Is(cause, errStopped) {
		t.Errorf("the executor was stopped because of %v, want that it was cancelled", cause)
	}
	w.reaches(ref, task.Cancelled)
}

// The attempt counts as running from the moment Redis let it begin, so it can be cancelled before the worker knows.
func TestCancel_IsObeyedBeforeTheWorkerKnowsThatItBegan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	do, begun, _ := untilStopped()
	r := w.start(do)
	ref := w.create(task.Definition{})
	deliveries := w.claim()
	_, err := w.store.Tasks.Begin(t.Context(), ref, 1, r.nextToken()) // and the reply is lost
	testkit.Must(t, err)
	w.cancel(ref)
	testkit.Must(t, w.queues.HandOver(t.Context(), []task.Delivery{deliveries[0]}, nil).Failure())
	w.reaches(ref, task.Cancelled)
	if len(begun) != 0 {
		t.Error("the executor was called for a cancelled task")
	}
}

// nextToken is the token that the next try to begin will have.
func (r *running) nextToken() string {
	defer r.started.Add(-1)
	return r.token()
}

func TestBegin_RunsAnAttemptWhoseAnswerWasLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	runs := make(chan struct{}, 5)
	r := w.start(func(context.Context, executor.Attempt) (string, error) { runs <- struct{}{}; return "", nil })
	ref := w.create(task.Definition{})
	deliveries := w.claim()
	_, err := w.store.Tasks.Begin(t.Context(), ref, 1, r.nextToken()) // and the reply is lost
	testkit.Must(t, err)
	testkit.Must(t, w.queues.HandOver(t.Context(), []task.Delivery{deliveries[0]}, nil).Failure())
	w.reaches(ref, task.Succeeded)
	if len(runs) != 1 {
		t.Errorf("it ran %d times, want once", len(runs))
	}
}

// As after a failover of Redis that did not bring over the begin: the work goes on, its log and its progress with it.
func TestBegin_LostByRedisCostsTheRunNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	begun, end := make(chan executor.Attempt), make(chan struct{})
	w.start(func(ctx context.Context, a executor.Attempt) (string, error) {
		begun <- a
		select {
		case <-end:
			return "done", nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	})
	ref := w.create(task.Definition{Retry: task.Retry{MaxAttempts: 1}})
	deliveries := w.claim()
	k := w.store.KeysOf(ref)
	queued := w.db.HGet(t.Context(), string(k.States()), ref.String()).Val()
	testkit.Must(t, w.queues.HandOver(t.Context(), deliveries, nil).Failure())
	a := testkit.Receive(t, begun, "the attempt")
	_, err := w.db.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
		p.HSet(t.Context(), string(k.States()), ref.String(), queued)
		p.ZRem(t.Context(), string(k.Running()), ref.String())
		p.ZRem(t.Context(), string(k.Held()), ref.String())
		p.ZAdd(t.Context(), string(k.Queued()), redis.Z{Score: 1, Member: ref.String()})
		return nil
	})
	testkit.Must(t, err)
	a.Log("stdout", "before Redis knows again")
	w.reaches(ref, task.Running)
	a.Log("stdout", "after that")
	a.Progress(40, "")
	testkit.Eventually(t, "the progress is there", func() bool { return w.get(ref).Progress == 40 })
	close(end)
	if got := w.reaches(ref, task.Succeeded); got.Result != "done" || got.Attempt != 1 {
		t.Errorf("it ended with result %q in attempt %d", got.Result, got.Attempt)
	}
	if got := w.lines(ref); len(got) == 0 || got[len(got)-1].Text != "after that" {
		t.Errorf("the log is %+v", got)
	}
}

func TestBegin_WaitsUntilRedisIsBack(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	runs := make(chan struct{}, 5)
	w.start(func(context.Context, executor.Attempt) (string, error) { runs <- struct{}{}; return "", nil })
	w.reports.Hold()
	ref := w.submit(task.Definition{})
	testkit.Eventually(t, "it tries to begin", func() bool { return len(w.reports.Held()) > 0 })
	w.reports.Cut()
	testkit.Eventually(t, "it says so", func() bool { return w.said.contain("cannot begin") })
	w.reports.Mend()
	w.reports.Release()
	w.reaches(ref, task.Succeeded)
	if len(runs) != 1 {
		t.Errorf("it ran %d times, want once", len(runs))
	}
}

// An answer that comes when the lease of the run is over ends no attempt that has not done anything.
func TestBegin_LeasesTheRunAgainIfTheAnswerCameTooLate(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	w.lease = 2 * time.Second
	runs := make(chan struct{}, 5)
	w.start(func(context.Context, executor.Attempt) (string, error) { runs <- struct{}{}; return "", nil })
	w.reports.Hold()
	ref := w.submit(task.Definition{Retry: task.Retry{MaxAttempts: 1}})
	testkit.Eventually(t, "it tries to begin", func() bool { return len(w.reports.Held()) > 0 })
	held := time.Now()
	testkit.Eventually(t, "its lease is over soon", func() bool { return time.Since(held) > w.lease*11/12 }) // later, it gives up this call
	w.reports.Release()
	if got := w.reaches(ref, task.Succeeded); got.Attempt != 1 || len(runs) != 1 {
		t.Errorf("it ran %d times and is in attempt %d, want once and 1", len(runs), got.Attempt)
	}
}

func TestReport_WaitsUntilRedisIsBack(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	begun, end := make(chan struct{}), make(chan struct{})
	w.start(func(context.Context, executor.Attempt) (string, error) { close(begun); <-end; return "done", nil })
	ref := w.submit(task.Definition{})
	testkit.Receive(t, begun, "the attempt")
	w.reports.Cut()
	close(end)
	testkit.Eventually(t, "it cannot report", func() bool { return w.said.contain("cannot report") })
	w.reports.Mend()
	if got := w.reaches(ref, task.Succeeded); got.Result != "done" {
		t.Errorf("the result is %q", got.Result)
	}
}

func TestBegin_RunsARepeatedDeliveryOnce(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	begun, end := make(chan struct{}, 5), make(chan struct{})
	w.start(func(context.Context, executor.Attempt) (string, error) { begun <- struct{}{}; <-end; return "", nil })
	ref := w.create(task.Definition{})
	delivery := w.claim()[0]
	testkit.Must(t, w.queues.HandOver(t.Context(), []task.Delivery{delivery}, nil).Failure())
	testkit.Receive(t, begun, "the attempt")
	testkit.Must(t, w.db.LPush(t.Context(), "asynq:{default}:pending", delivery.String()).Err())
	testkit.Eventually(t, "the second one is dropped", func() bool { return count(t, w.metrics.Leftovers) == 1 })
	close(end)
	w.reaches(ref, task.Succeeded)
	testkit.Eventually(t, "asynq has forgotten both", func() bool { // it would take a third one for the first
		return w.db.LLen(t.Context(), "asynq:{default}:active").Val() == 0
	})
	testkit.Must(t, w.queues.HandOver(t.Context(), []task.Delivery{delivery}, nil).Failure())
	testkit.Eventually(t, "the third one is dropped", func() bool { return count(t, w.metrics.Leftovers) == 2 })
	if len(begun) != 0 || len(w.attempts(ref)) != 1 {
		t.Errorf("it ran %d times more and has %d attempts, want one run", len(begun), len(w.attempts(ref)))
	}
}

func TestReport_OfAStaleWorkerIsRefused(t *testing.T) {
	t.Parallel()
	for name, result := range map[string]error{"success": nil, "failure": errors.New("boom")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			begun, end := make(chan struct{}), make(chan struct{})
			w.start(func(context.Context, executor.Attempt) (string, error) { close(begun); <-end; return "stale", result })
			ref := w.submit(task.Definition{})
			testkit.Receive(t, begun, "the attempt")
			w.reap(ref)
			close(end)
			testkit.Eventually(t, "the report is refused", func() bool { return count(t, w.metrics.Refused) == 1 })
			if got := w.get(ref); got.State != task.Scheduled || got.Result != "" {
				t.Errorf("the task is %+v, want waiting for its next attempt", got)
			}
			w.last(ref, task.OutcomeLost)
		})
	}
}

// A pool without work takes no slots from the others.
func TestWorker_PoolsShareItsCapacity(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	do, begun, _ := untilStopped()
	r := w.start(do, func(o *Options) {
		o.Capacity = 3
		idle, busy := o.Pools[0], o.Pools[0]
		idle.Queues, idle.DB = map[string]int{"idle": 1}, redistest.Open(w.t, w.asynq.URL())
		busy.Concurrency = 2
		o.Pools = []Pool{idle, busy}
	})
	for range 3 {
		w.create(task.Definition{})
	}
	w.create(task.Definition{Queue: "idle"})
	w.dispatch()
	queues := map[string]int{}
	for range 3 {
		queues[w.get(testkit.Receive(t, begun, "an attempt").Ref).Queue]++
	}
	if queues["default"] != 2 || queues["idle"] != 1 || r.Running() != 3 {
		t.Errorf("%v run, %d in all, want two of the pool for two, and one of the other", queues, r.Running())
	}
}

func TestWorker_CapacityIsAHardLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	begun, end := make(chan struct{}, 10), make(chan struct{})
	over := make(chan struct{}, 10)
	r := w.start(func(ctx context.Context, _ executor.Attempt) (string, error) {
		begun <- struct{}{}
		<-ctx.Done()
		over <- struct{}{}
		<-end // it does not care about its timeout
		return "", ctx.Err()
	}, func(o *Options) { o.Capacity = 2 })
	for range 6 {
		w.create(task.Definition{Timeout: 50 * time.Millisecond, Retry: task.Retry{Delays: []time.Duration{time.Hour}}})
	}
	w.dispatch()
	for range 2 {
		testkit.Receive(t, over, "the timeout")
	}
	if waiting := w.db.LLen(t.Context(), "asynq:{default}:pending").Val(); waiting != 4 || len(begun) != 2 || r.Running() != 2 {
		t.Errorf("%d began, %d run and %d wait, want 2, 2 and 4: nothing is taken without a slot", len(begun), r.Running(), waiting)
	}
	close(end)
	for range 4 {
		testkit.Receive(t, over, "the end of those that waited")
	}
}

// A leader chooses by a heartbeat that is up to two seconds old.
func TestWorker_WithoutAFreeSlotWakesTheOthersOfItsQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	do, begun, _ := untilStopped()
	r := w.start(do, func(o *Options) { o.Capacity = 1 })
	choose := func(string, map[string]int) []string { return []string{node} }
	first := w.create(task.Definition{})
	testkit.Must(t, w.queues.HandOver(t.Context(), w.claim(), choose).Failure())
	testkit.Receive(t, begun, "the first attempt")
	arrivals := w.db.Subscribe(t.Context(), "dts:arrivals:default")
	defer func() { testkit.Must(t, arrivals.Close()) }()
	_, err := arrivals.Receive(t.Context())
	testkit.Must(t, err)
	w.create(task.Definition{})
	testkit.Must(t, w.queues.HandOver(t.Context(), w.claim(), choose).Failure())
	testkit.Receive(t, arrivals.Channel(), "a message to the other workers")
	w.cancel(first)
	testkit.Receive(t, begun, "the second attempt, as there are no others")
	r.end()
}
