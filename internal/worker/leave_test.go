package worker

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor"
	"github.com/dts-sched/dts/lua"
)

func TestWorker_StopsItsWorkWithoutGraceWhenCutOff(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	ref, ended := w.runUntilStopped()
	w.reports.Cut()
	if cause := testkit.Receive(t, ended, "the executor's end"); !errors.Is(cause, executor.ErrNoGrace) || !errors.Is(cause, errUnleased) {
		t.Errorf("the executor was stopped because of %v, want no grace and the reason", cause)
	}
	w.reports.Mend()
	got := w.reaches(ref, task.Scheduled)
	if a := w.last(ref, task.OutcomeLost); !got.DueAt.Equal(a.FinishedAt) {
		t.Errorf("it is due at %s, want at once: %s", got.DueAt, a.FinishedAt)
	}
}

// The run outlasts its lease. Who was not given another attempt meanwhile goes on, and whose attempt is over stops at once.
func TestWorker_GoesOnThroughAnOutageThatItTolerates(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	ref, ended := w.runUntilStopped(func(o *Options) { o.OutageTolerance = time.Hour })
	held := func() time.Time {
		ms := w.db.ZScore(t.Context(), string(w.store.KeysOf(ref).Held()), ref.String()).Val()
		return time.UnixMilli(int64(ms))
	}
	over := func() bool {
		now, err := w.store.Now(t.Context(), 0)
		testkit.Must(t, err)
		return now.After(held().Add(w.store.Tasks.RunLease() / 2))
	}
	w.reports.Cut()
	testkit.Eventually(t, "the lease has been over for a while", over)
	w.reports.Mend()
	testkit.Eventually(t, "the lease is extended again", func() bool { return !over() })
	if len(ended) != 0 {
		t.Fatalf("the run was stopped: %v", <-ended)
	}
	w.reports.Cut()
	w.reap(ref)
	if len(ended) != 0 {
		t.Fatalf("the run was stopped: %v", <-ended)
	}
	w.reports.Mend()
	if cause := testkit.Receive(t, ended, "the end of the reaped run"); !errors.Is(cause, executor.ErrNoGrace) || !errors.Is(cause, tasks.ErrStale) {
		t.Errorf("it was stopped because of %v, want no grace and that it is stale", cause)
	}
}

// The run goes on for two and a half seconds without an extension, wherever in its rhythm the worker is.
func TestWorker_GoesOnThroughAShortOutage(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	ref, ended := w.runUntilStopped()
	w.reports.Cut()
	outage := time.NewTimer(w.store.Tasks.RunLease() / 2)
	<-outage.C
	w.reports.Mend()
	held := func() float64 {
		return w.db.ZScore(t.Context(), string(w.store.KeysOf(ref).Held()), ref.String()).Val()
	}
	before := held()
	testkit.Eventually(t, "the lease is extended again", func() bool { return held() > before })
	if len(ended) != 0 {
		t.Errorf("the run was stopped: %v", <-ended)
	}
}

func TestWorker_KeepsTheLeasesOfItsRunsAndStopsTheOthers(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	do, begun, ended := untilStopped()
	w.start(do)
	kept, lost := w.submit(task.Definition{}), w.submit(task.Definition{})
	testkit.Receive(t, begun, "an attempt")
	testkit.Receive(t, begun, "the other attempt")
	lease := func() float64 {
		return w.db.ZScore(t.Context(), string(w.store.KeysOf(kept).Held()), kept.String()).Val()
	}
	first := lease()
	testkit.Eventually(t, "the lease is extended", func() bool { return lease() > first })
	w.reap(lost)
	if cause := testkit.Receive(t, ended, "the end of the reaped run"); !errors.Is(cause, executor.ErrNoGrace) || !errors.Is(cause, tasks.ErrStale) {
		t.Errorf("it was stopped because of %v, want no grace and that it is stale", cause)
	}
	if got := w.get(kept).State; got != task.Running {
		t.Errorf("the other task is %s, want running", got)
	}
}

func TestDrain_LetsWorkFinishAndHandsTheRestBackAtOnce(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	begun, finish := make(chan struct{}, 5), make(chan struct{})
	r := w.start(func(ctx context.Context, a executor.Attempt) (string, error) {
		begun <- struct{}{}
		if a.ID != "quick" {
			<-ctx.Done()
			return "", context.Cause(ctx)
		}
		select {
		case <-finish:
			return "done", nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}, func(o *Options) { o.DrainTimeout = 2 * time.Second })
	quick := w.submit(task.Definition{Ref: task.Ref{ID: "quick"}})
	slow := w.submit(task.Definition{Ref: task.Ref{ID: "slow"}})
	once := w.submit(task.Definition{Ref: task.Ref{ID: "once"}, Retry: task.Retry{MaxAttempts: 1}})
	for range 3 {
		testkit.Receive(t, begun, "the attempt")
	}
	r.stop()
	testkit.Eventually(t, "it drains", func() bool { return w.said.contain("draining") })
	close(finish)
	w.reaches(quick, task.Succeeded)
	r.end()

	got := w.get(slow)
	a := w.last(slow, task.OutcomeInterrupted)
	if got.State != task.Scheduled || !got.DueAt.Equal(a.FinishedAt) || got.MaxAttempts != task.DefaultMaxAttempts+1 {
		t.Errorf("what did not finish is %+v, want due again at once, and the attempt not counted", got)
	}
	if got := w.get(once); got.State != task.Failed {
		t.Errorf("what may not be tried again is %s, want failed", got.State)
	}
	w.last(once, task.OutcomeInterrupted)
	if state := w.delivery(once, 1); state != "archived" {
		t.Errorf("its delivery is %q, want archived", state)
	}
}

// While it drains, others may have a slot for what it took at that moment.
func TestDrain_ReturnsAtOnceWhatHasNotBegun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	begun, end := make(chan struct{}, 5), make(chan struct{})
	r := w.start(func(context.Context, executor.Attempt) (string, error) { begun <- struct{}{}; <-end; return "", nil },
		func(o *Options) { o.DrainTimeout = time.Minute })
	first := w.submit(task.Definition{})
	testkit.Receive(t, begun, "the first attempt")
	second := w.create(task.Definition{})
	w.asynq.Hold()
	w.dispatch()
	w.forgetPending(second)
	hash := sha1.Sum([]byte(lua.ByName("take").Source))
	testkit.Eventually(t, "the worker takes the second one", func() bool {
		return bytes.Contains(w.asynq.Held(), []byte(hex.EncodeToString(hash[:])))
	})
	r.stop()
	testkit.Eventually(t, "it begins no more", func() bool { r.mu.Lock(); defer r.mu.Unlock(); return r.closed })
	w.asynq.Release()
	testkit.Eventually(t, "the second one was taken and given back", func() bool {
		return w.delivery(second, 1) == "pending" && w.pendingSince(second) != ""
	})
	if got := w.get(first); got.State != task.Running {
		t.Errorf("the first one is %s, want running", got.State)
	}
	close(end)
	r.end()
	w.reaches(first, task.Succeeded)
	if got := w.get(second); got.State != task.Queued || got.Attempt != 1 || w.delivery(second, 1) != "pending" {
		t.Errorf("the second one is %+v, want queued for its first attempt", got)
	}
}

// pendingSince is since when the first attempt of a task waits in asynq.
func (w *world) pendingSince(ref task.Ref) string {
	w.t.Helper()
	values, err := w.db.HMGet(w.t.Context(), firstDelivery(ref), "pending_since").Result()
	testkit.Must(w.t, err)
	since, _ := values[0].(string)
	return since
}

// forgetPending removes what asynq has of since when the first attempt of a task waits.
func (w *world) forgetPending(ref task.Ref) {
	w.t.Helper()
	testkit.Must(w.t, w.db.HDel(w.t.Context(), firstDelivery(ref), "pending_since").Err())
}

// firstDelivery returns asynq's key of the first attempt of a task.
func firstDelivery(ref task.Ref) string {
	return "asynq:{default}:t:" + task.Delivery{Ref: ref, Attempt: 1}.String()
}

func TestDrain_LeavesTheRestToTheNextWorker(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	begun, end := make(chan struct{}, 5), make(chan struct{})
	do := func(context.Context, executor.Attempt) (string, error) { begun <- struct{}{}; <-end; return "", nil }
	r := w.start(do, func(o *Options) { o.Capacity = 1; o.DrainTimeout = time.Minute })
	first := w.submit(task.Definition{})
	testkit.Receive(t, begun, "the first attempt")
	second := w.submit(task.Definition{})
	r.stop()
	close(end)
	r.end()
	w.start(do, func(o *Options) { o.Node = "node-b" })
	w.reaches(first, task.Succeeded)
	if got := w.reaches(second, task.Succeeded); got.Node != "node-b" || got.Attempt != 1 {
		t.Errorf("the second one is %+v, want its first attempt on node-b", got)
	}
}

// Begun attempts that the worker leaves behind are for the leaders to find; their deliveries must not stay in asynq.
func TestDrain_ReturnsDeliveriesOfAttemptsThatDoNotEnd(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	begun, end := make(chan struct{}), make(chan struct{})
	done := make(chan struct{})
	r := w.start(func(context.Context, executor.Attempt) (string, error) {
		defer close(done)
		close(begun)
		<-end
		return "", nil
	}, func(o *Options) { o.Grace = 0 })
	ref := w.submit(task.Definition{})
	testkit.Receive(t, begun, "the attempt")
	r.end()
	if got := w.delivery(ref, 1); got != "pending" {
		t.Errorf("the delivery is %q, want pending", got)
	}
	close(end)
	testkit.Receive(t, done, "the executor's end")
}

func TestWorker_EndsWhileRedisIsUnreachable(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	do, begun, _ := untilStopped()
	r := w.start(do, func(o *Options) { o.Grace = 0 })
	ref := w.submit(task.Definition{})
	testkit.Receive(t, begun, "the attempt")
	w.reports.Cut()
	w.asynq.Cut()
	r.end()
	if got := w.get(ref); got.State != task.Running {
		t.Errorf("the task is %s, want running, for a leader to find", got.State)
	}
}

func TestWorker_EndsThoughAnExecutorDoesNot(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	begun, end := make(chan struct{}), make(chan struct{})
	done := make(chan struct{})
	r := w.start(func(context.Context, executor.Attempt) (string, error) {
		defer close(done)
		close(begun)
		<-end
		return "", nil
	}, func(o *Options) { o.Grace = 0 })
	w.submit(task.Definition{})
	testkit.Receive(t, begun, "the attempt")
	r.end()
	close(end)
	testkit.Receive(t, done, "the executor's end")
}

func TestWorker_EndsInOrderIfStoppedBeforeItHasStarted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start(fails)
	r.end()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := New(r.o).Run(ctx); err != nil {
		t.Errorf("it ended with %v", err)
	}
}
