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

// keeper is an executor that waits for the record of its successes.
type keeper struct {
	work
	recorded chan executor.Attempt
}

func (k keeper) Recorded(a executor.Attempt) { k.recorded <- a }

func TestKeeper_IsToldOfASuccessOnceItIsRecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	begun := make(chan time.Time, 2)
	k := keeper{recorded: make(chan executor.Attempt, 2), work: func(_ context.Context, a executor.Attempt) (string, error) {
		begun <- a.Task.FirstDueAt
		if a.Number == 1 {
			return "", errors.New("boom")
		}
		return "sent", nil
	}}
	w.start(nil, func(o *Options) { o.Executors["echo"] = k })
	ref := w.submit(task.Definition{Retry: task.Retry{Delays: []time.Duration{time.Millisecond}}})
	testkit.Eventually(t, "the second attempt has begun", func() bool { w.dispatch(); return len(begun) == 2 })
	a := testkit.Receive(t, k.recorded, "the record")
	if got := w.get(ref); a.Ref != ref || a.Number != 2 || got.State != task.Succeeded {
		t.Errorf("it was told of attempt %d of %s, and the task is %s", a.Number, a.Ref, got.State)
	}
	first, second := <-begun, <-begun
	if first.IsZero() || !first.Equal(second) || !first.Equal(a.Task.FirstDueAt) {
		t.Errorf("the first attempt was due at %s, %s and %s", first, second, a.Task.FirstDueAt)
	}
	if len(k.recorded) > 0 {
		t.Error("it was told of the failure, too")
	}
}
