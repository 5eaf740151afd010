package worker

import (
	"errors"
	"fmt"
	"testing"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/telemetry"
	"github.com/dts-sched/dts/internal/testkit"
)

// The lease of an attempt runs from its begin on, and only the answer has the worker extend it.
func TestWorker_BeginsAttemptsWhileAnotherServerIsSilent(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.NoFailover())
	s, err := store.Open(t.Context(), store.Options{DB: redistest.Open(t, c.URL())})
	testkit.Must(t, err)
	w := New(Options{Store: s, Node: node, Metrics: telemetry.New()})
	serverOf := func(ref task.Ref) *redistest.Server { return c.Primary(string(s.KeysOf(ref).States())) }
	refs := []task.Ref{{Namespace: "default", ID: "silent"}}
	for i := 0; len(refs) < 2; i++ {
		if ref := (task.Ref{Namespace: "default", ID: fmt.Sprint(i)}); serverOf(ref) != serverOf(refs[0]) {
			refs = append(refs, ref)
		}
	}
	begin := func(ref task.Ref) error {
		begun, err := w.begins.Do(t.Context(), tasks.Start{Ref: ref, Attempt: 1, Run: node + "#1"})
		return errors.Join(err, begun.Err)
	}
	for _, ref := range refs {
		if err := begin(ref); !errors.Is(err, tasks.ErrLeftover) {
			t.Fatalf("a task that does not exist begins: %v", err)
		}
	}

	serverOf(refs[0]).WhileSilent(func() { _ = begin(refs[0]) }, func() {
		for range 20 {
			if err := begin(refs[1]); !errors.Is(err, tasks.ErrLeftover) {
				t.Errorf("what another server has begins: %v", err)
			}
		}
	})
}
