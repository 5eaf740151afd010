package worker

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor"
)

func TestWorker_StopsItsWorkWithoutGraceWhenCutOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	do, begun, ended := untilStopped()
	w.start(do)
	ref := w.submit(task.Definition{})
	testkit.Receive(t, begun, "the attempt")
	w.members.cut()
	if cause := testkit.Receive(t, ended, "the executor's end"); !errors.Is(cause, executor.ErrNoGrace) || !errors.Is(cause, errCut) {
		t.Errorf("the executor was stopped because of %v, want no grace and the reason", cause)
	}
	got := w.reaches(ref, task.Scheduled)
	if a := w.last(ref, task.OutcomeLost); !got.DueAt.Equal(a.FinishedAt) {
		t.Errorf("it is due at %s, want at once: %s", got.DueAt, a.FinishedAt)
	}
}

// Otherwise a task with one attempt would fail without ever having run.
func TestWorker_BeginsNothingWhileCutOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	runs := make(chan struct{}, 5)
	r := w.start(func(ctx context.Context, _ executor.Attempt) (string, error) {
		runs <- struct{}{}
		return "", context.Cause(ctx)
	})
	w.members.cut()
	ref := w.submit(task.Definition{Retry: task.Retry{MaxAttempts: 1}})
	testkit.Eventually(t, "the node has the delivery", func() bool { return r.Running() == 1 })
	testkit.Eventually(t, "it waits", func() bool { return w.said.contain("cannot begin") })
	if got := w.get(ref); got.State != task.Queued {
		t.Errorf("the task is %s (%s), want queued", got.State, got.Error)
	}
	w.members.join()
	w.reaches(ref, task.Succeeded)
	if len(runs) != 1 {
		t.Errorf("it ran %d times, want once", len(runs))
	}
}

func TestDrain_LetsWorkFinishAndHandsTheRestBackAtOnce(t *testing.T) {
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
	if a := w.last(slow, task.OutcomeLost); got.State != task.Scheduled || !got.DueAt.Equal(a.FinishedAt) {
		t.Errorf("what did not finish is %+v, want due again at once", got)
	}
	if got := w.get(once); got.State != task.Failed {
		t.Errorf("what may not be tried again is %s, want failed", got.State)
	}
	w.last(once, task.OutcomeLost)
	if state := w.delivery(once, 1); state != "archived" {
		t.Errorf("its delivery is %q, want archived", state)
	}
}

// While it drains, others may have room for what waits here.
func TestDrain_ReturnsAtOnceWhatHasNotBegun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	begun, end := make(chan struct{}, 5), make(chan struct{})
	r := w.start(func(context.Context, executor.Attempt) (string, error) { begun <- struct{}{}; <-end; return "", nil },
		func(o *Options) { o.Capacity, o.DrainTimeout = 1, time.Minute })
	first := w.submit(task.Definition{})
	testkit.Receive(t, begun, "the first attempt")
	second := w.submit(task.Definition{})
	testkit.Eventually(t, "the second one waits for a place", func() bool { return w.delivery(second, 1) == "active" })
	r.stop()
	testkit.Eventually(t, "asynq has the second one back", func() bool { return w.delivery(second, 1) == "retry" })
	if got := w.get(first); got.State != task.Running {
		t.Errorf("the first one is %s, want running", got.State)
	}
	close(end)
	r.end()
	w.reaches(first, task.Succeeded)
	if got := w.get(second); got.State != task.Queued || got.Attempt != 1 {
		t.Errorf("the second one is %+v, want queued for its first attempt", got)
	}
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
	testkit.Eventually(t, "the second one waits for a place", func() bool { return w.delivery(second, 1) == "active" })
	r.stop()
	close(end)
	r.end()
	w.start(do, func(o *Options) { o.Node = "node-b" })
	w.reaches(first, task.Succeeded)
	if got := w.reaches(second, task.Succeeded); got.Node != "node-b" || got.Attempt != 1 {
		t.Errorf("the second one is %+v, want its first attempt on node-b", got)
	}
}

func TestWorker_EndsWhileRedisIsUnreachable(t *testing.T) {
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
