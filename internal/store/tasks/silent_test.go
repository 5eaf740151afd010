package tasks_test

import (
	"context"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// Submissions share calls. One for a server of a cluster that is silent must not hold up those for the others.
func TestCreate_GoesOnWhileAnotherServerIsSilent(t *testing.T) {
	t.Parallel()
	w := storetest.InCluster(t)
	create := func(ref task.Ref) tasks.Created {
		return w.Tasks.Create(t.Context(), []task.Definition{{Ref: ref, Type: "noop"}})[0]
	}
	ref := task.Ref{Namespace: "default", ID: "silent"}
	silent := w.ServerOf(ref)
	others := w.Elsewhere(silent, 20)

	silent.WhileSilent(func() { create(ref) }, func() {
		for _, other := range others {
			testkit.Must(t, create(other).Err)
		}
	})
}

// What Redis has lost is reported in an order. A silent server must not keep another from hearing what comes second.
func TestReportAgain_TellsAServerAllWhileAnotherIsSilent(t *testing.T) {
	t.Parallel()
	w := storetest.InCluster(t)
	s, err := store.Open(t.Context(), store.Options{DB: w.DB, MayHaveLost: func() bool { return true }})
	testkit.Must(t, err)
	w.Store = s
	paused := w.ServerOf(w.Bring("silent", task.Succeeded))
	ref := w.Elsewhere(paused, 1)[0]
	w.Create(task.Definition{Ref: ref, Retry: task.Retry{MaxAttempts: 2}})
	testkit.Must(t, w.Begin(ref).Reattempt(w.Ctx, 0, task.OutcomeFailed, "boom"))
	testkit.Must(t, w.Begin(ref).Finish(w.Ctx, task.Succeeded, task.OutcomeSucceeded, "done", ""))
	lose(t, w.World, ref)

	since := time.Now()
	paused.Pause()
	t.Cleanup(paused.Continue)
	ctx, cancel := context.WithTimeout(t.Context(), 2*s.Tasks.RunLease())
	defer cancel()
	if n, failed := s.Tasks.ReportAgain(ctx, since); n != 2 || len(failed) == 0 || ctx.Err() != nil {
		t.Errorf("%d ends were lost, %v, want the two of a server that answers, and that the other one does not", n, failed)
	}
	if got := w.Get(ref); got.State != task.Succeeded || got.Attempt != 2 {
		t.Errorf("it is %+v", got)
	}
	lose(t, w.World, ref)
	if n, _ := s.Tasks.ReportAgain(ctx, since); n != 0 {
		t.Errorf("%d ends were lost, want 0: what was reported again is not reported once more", n)
	}
	paused.Continue()
	found := 0
	testkit.Eventually(t, "both servers are told", func() bool {
		n, failed := s.Tasks.ReportAgain(t.Context(), time.Now())
		found += n
		return len(failed) == 0
	})
	if found != 2 {
		t.Errorf("%d ends were lost, want 2", found)
	}
}
