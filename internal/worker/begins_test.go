package worker

import (
	"errors"
	"testing"

	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/telemetry"
)

// The lease of an attempt runs from its begin on, and only the answer has the worker extend it.
func TestWorker_BeginsAttemptsWhileAnotherServerIsSilent(t *testing.T) {
	t.Parallel()
	c := storetest.InCluster(t)
	w := New(Options{Store: c.Store, Node: node, Metrics: telemetry.New()})
	silent := task.Ref{Namespace: "default", ID: "silent"}
	other := c.Elsewhere(c.ServerOf(silent), 1)[0]
	begin := func(ref task.Ref) error {
		begun, err := w.begins.Do(t.Context(), tasks.Start{Ref: ref, Attempt: 1, Run: node + "#1"})
		return errors.Join(err, begun.Err)
	}
	for _, ref := range []task.Ref{silent, other} {
		if err := begin(ref); !errors.Is(err, tasks.ErrLeftover) {
			t.Fatalf("a task that does not exist begins: %v", err)
		}
	}

	c.ServerOf(silent).WhileSilent(func() { _ = begin(silent) }, func() {
		for range 20 {
			if err := begin(other); !errors.Is(err, tasks.ErrLeftover) {
				t.Errorf("what another server has begins: %v", err)
			}
		}
	})
}
