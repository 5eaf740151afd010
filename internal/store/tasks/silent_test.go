package tasks_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// Submissions share calls. One for a server of a cluster that is silent must not hold up those for the others.
func TestCreate_GoesOnWhileAnotherServerIsSilent(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.NoFailover())
	s, err := store.Open(t.Context(), store.Options{DB: redistest.Open(t, c.URL())})
	testkit.Must(t, err)
	serverOf := func(id string) *redistest.Server {
		return c.Primary(string(s.KeysOf(task.Ref{Namespace: "default", ID: id}).States()))
	}
	create := func(id string) tasks.Created {
		return s.Tasks.Create(t.Context(), []task.Definition{{Ref: task.Ref{Namespace: "default", ID: id}, Type: "noop"}})[0]
	}
	silent := serverOf("silent")
	var others []string
	for i := 0; len(others) < 20; i++ {
		if id := fmt.Sprint("other", i); serverOf(id) != silent {
			others = append(others, id)
		}
	}

	silent.WhileSilent(func() { create("silent") }, func() {
		for _, id := range others {
			testkit.Must(t, create(id).Err)
		}
	})
}

// What Redis has lost is reported in an order. A silent server must not keep another from hearing what comes second.
func TestReportAgain_TellsAServerAllWhileAnotherIsSilent(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.NoFailover())
	w := storetest.On(t, redistest.Open(t, c.URL()))
	s, err := store.Open(t.Context(), store.Options{DB: w.DB, MayHaveLost: func() bool { return true }})
	testkit.Must(t, err)
	w.Store = s
	serverOf := func(ref task.Ref) *redistest.Server { return c.Primary(string(w.KeysOf(ref).States())) }
	silent := w.Bring("silent", task.Succeeded)
	ref := task.Ref{Namespace: "default", ID: "0"}
	for i := 1; serverOf(ref) == serverOf(silent); i++ {
		ref.ID = fmt.Sprint(i)
	}
	w.Create(task.Definition{Ref: ref, Retry: task.Retry{MaxAttempts: 2}})
	testkit.Must(t, w.Begin(ref).Reattempt(w.Ctx, 0, task.OutcomeFailed, "boom"))
	testkit.Must(t, w.Begin(ref).Finish(w.Ctx, task.Succeeded, task.OutcomeSucceeded, "done", ""))
	lose(t, w, ref)

	since, paused := time.Now(), serverOf(silent)
	paused.Pause()
	t.Cleanup(paused.Continue)
	ctx, cancel := context.WithTimeout(t.Context(), 2*s.Tasks.RunLease())
	defer cancel()
	if n, err := s.Tasks.ReportAgain(ctx, since); n != 2 || err == nil || ctx.Err() != nil {
		t.Errorf("%d ends were lost, %v, want the two of a server that answers, and that the other one does not", n, err)
	}
	if got := w.Get(ref); got.State != task.Succeeded || got.Attempt != 2 {
		t.Errorf("it is %+v", got)
	}
	lose(t, w, ref)
	if n, _ := s.Tasks.ReportAgain(ctx, since); n != 0 {
		t.Errorf("%d ends were lost, want 0: what was reported again is not reported once more", n)
	}
	paused.Continue()
	found := 0
	testkit.Eventually(t, "both servers are told", func() bool {
		n, err := s.Tasks.ReportAgain(t.Context(), time.Now())
		found += n
		return err == nil
	})
	if found != 2 {
		t.Errorf("%d ends were lost, want 2", found)
	}
}
