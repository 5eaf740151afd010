package control

import (
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestCancelTask_RemovesTheDeliveryOfAQueuedTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.submit([]task.Definition{{Ref: task.Ref{ID: "a"}, Type: "http"}})
	w.claim(me.Ref("a"))
	if got := w.pending(task.DefaultQueue); got != 1 {
		t.Fatalf("%d deliveries are in asynq", got)
	}
	for range 2 { // a cancelled task may be cancelled again
		if got, err := w.CancelTask(w.ctx, me, "a", ""); err != nil || got.State != task.Cancelled {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	if got := w.pending(task.DefaultQueue); got != 0 {
		t.Errorf("%d deliveries are left in asynq", got)
	}
}

func TestCancelTask_LeavesARunningTaskItsDelivery(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.submit([]task.Definition{{Ref: task.Ref{ID: "a"}, Type: "http"}})
	w.begun(me.Ref("a"))
	if got, err := w.CancelTask(w.ctx, me, "a", ""); err != nil || got.State != task.Running || got.CancelRequested.IsZero() {
		t.Fatalf("%+v, %v", got, err)
	}
	if got := w.pending(task.DefaultQueue); got != 1 {
		t.Errorf("%d deliveries are in asynq, want the one that its worker has", got)
	}
}

func TestRetryTask_RemovesTheDeliveryOfTheLastAttempt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.submit([]task.Definition{{Ref: task.Ref{ID: "a"}, Type: "http"}})
	testkit.Must(t, w.begun(me.Ref("a")).Finish(w.ctx, task.Failed, task.OutcomeFailed, "", "boom"))
	if got, err := w.RetryTask(w.ctx, me, "a", time.Time{}); err != nil || got.State != task.Scheduled || got.Attempt != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	if got := w.pending(task.DefaultQueue); got != 0 {
		t.Errorf("%d deliveries are left in asynq", got)
	}
	if _, err := w.RetryTask(w.ctx, me, "a", time.Time{}); task.CodeOf(err) != task.CodeNotFinished {
		t.Errorf("of a task that waits: %v", err)
	}
}
