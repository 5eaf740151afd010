package tasks_test

import (
	"context"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// replicated returns a World on a Redis with a replica, and the tasks of a node that waits so long for that.
func replicated(t *testing.T, timeout time.Duration) (*redistest.Pair, *storetest.World, *tasks.Tasks) {
	t.Helper()
	pair := redistest.StartPair(t)
	w := storetest.On(t, redistest.Open(t, pair.URL()))
	return pair, w, tasks.New(w.Layout, 0, config.Durability{Replicas: 1, Timeout: timeout})
}

// beginOnce begins the only attempt of a task.
func beginOnce(t *testing.T, w *storetest.World, s *tasks.Tasks) *tasks.Run {
	t.Helper()
	ref := task.Ref{Namespace: "default", ID: "once"}
	w.Create(task.Definition{Ref: ref, Retry: task.Retry{MaxAttempts: 1}})
	w.Claim(ref)
	run, err := s.Begin(w.Ctx, ref, 1, "node-a#1")
	testkit.Must(t, err)
	return run
}

// The begin has happened, whatever has become of the caller's time: to call it unconfirmed would leave an attempt that nobody runs.
func TestConfirmBegin_DoesNotRunUnderTheContextOfItsCaller(t *testing.T) {
	t.Parallel()
	_, w, s := replicated(t, 2*time.Second)
	run := beginOnce(t, w, s)
	ended, cancel := context.WithCancel(w.Ctx)
	cancel()
	if err := s.ConfirmBegin(ended, run); err != nil {
		t.Errorf("the replica has it, and the answer is %v", err)
	}
}

func TestConfirm_FailsUnlessTheReplicaHasIt(t *testing.T) {
	t.Parallel()
	pair, w, s := replicated(t, 50*time.Millisecond)
	run := beginOnce(t, w, s)
	pair.Detach()
	if err := s.ConfirmBegin(w.Ctx, run); task.CodeOf(err) != task.CodeNotReplicated {
		t.Errorf("begin: %v, want CodeNotReplicated", err)
	}
	var defs []task.Definition // of all partitions
	for p := range w.Partitions.Count() {
		defs = append(defs, task.Definition{Ref: inPartition(w.Layout, p), Type: "http"})
	}
	for i, created := range s.Create(w.Ctx, defs) {
		if task.CodeOf(created.Err) != task.CodeNotReplicated {
			t.Errorf("creation in partition %d: %v, want CodeNotReplicated", i, created.Err)
		}
	}
}

// inPartition returns the name of a task in a partition.
func inPartition(l *layout.Layout, p int) task.Ref {
	for id := 'a'; ; id++ {
		if ref := (task.Ref{Namespace: "default", ID: string(id)}); l.PartitionOf(ref) == p {
			return ref
		}
	}
}
