package tasks_test

import (
	"testing"

	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestRetry_AllowsAllAttemptsAgain(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	ref := w.Bring("a", task.Failed)
	got, err := w.Tasks.Retry(w.Ctx, ref)
	if err != nil || got.State != task.Scheduled || got.Attempt != 1 || got.MaxAttempts != 3 || got.Error != "" {
		t.Fatalf("%+v, %v", got, err)
	}
	w.Begin(ref)
	if got := w.Get(ref); got.Attempt != 2 {
		t.Errorf("attempt %d, want 2: numbers continue", got.Attempt)
	}
}

func TestRetry_OfATickCountsAsNotEnded(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	ticks := w.Hourly(1, nil)
	w.Fire(storetest.Nightly)
	w.EndTick(storetest.Nightly, ticks[0], task.Failed)
	_, err := w.Tasks.Retry(w.Ctx, task.Ref{Namespace: "default", ID: "nightly@" + ticks[0]})
	testkit.Must(t, err)
	if live := w.Schedule(storetest.Nightly).Live; live != 1 {
		t.Errorf("%d live tasks, want 1", live)
	}
}
