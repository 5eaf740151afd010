package control

import (
	"fmt"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// A worker by HTTP has no other way to keep its leases. One silent server must not cost it those on the others.
func TestExtendAttempts_GoesOnWhileAServerIsSilent(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.NoFailover())
	w := storetest.On(t, redistest.Open(t, c.URL()))
	serverOf := func(ref task.Ref) *redistest.Server { return c.Primary(string(w.KeysOf(ref).States())) }
	refs := []task.Ref{{Namespace: "default", ID: "silent"}}
	for i := 0; len(refs) < 3; i++ {
		if ref := (task.Ref{Namespace: "default", ID: fmt.Sprint(i)}); serverOf(ref) != serverOf(refs[0]) {
			refs = append(refs, ref)
		}
	}
	held := make([]Held, len(refs))
	for i, ref := range refs {
		w.Create(task.Definition{Ref: ref, Retry: task.Retry{MaxAttempts: 2}})
		run := w.Begin(ref)
		held[i] = Held{ID: ref, Attempt: 1, Token: run.Token()}
	}
	_, err := w.Tasks.Cancel(w.Ctx, refs[1])
	testkit.Must(t, err)
	until := func(ref task.Ref) float64 {
		return w.DB.ZScore(w.Ctx, string(w.KeysOf(ref).Held()), ref.String()).Val()
	}
	control := New(Options{Store: w.Store})

	before := until(refs[2])
	paused := serverOf(refs[0])
	paused.Pause()
	t.Cleanup(paused.Continue)
	verdicts, err := control.ExtendAttempts(w.Ctx, me, "w1", held, 3*time.Second)
	if err != nil || fmt.Sprint(verdicts) != fmt.Sprint([]Verdict{VerdictUnknown, VerdictCancelled, VerdictRunning}) {
		t.Errorf("%v, %v", verdicts, err)
	}
	if until(refs[2]) <= before {
		t.Errorf("the lease is not extended")
	}
}
