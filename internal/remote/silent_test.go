package remote

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// The worker hears of none of the attempts before there is an answer for all. Those that have begun must not be lost meanwhile.
func TestTake_ARepeatKeepsWhatHasBegunWhileAnotherServerIsSilent(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.NoFailover())
	w := join(t, storetest.On(t, redistest.Open(t, c.URL())))
	serverOf := func(ref task.Ref) *redistest.Server { return c.Primary(string(w.KeysOf(ref).States())) }
	queue := c.Primary("asynq:{default}:pending")
	var refs []task.Ref // the first one is on the silent server
	for i := 0; len(refs) < 2; i++ {
		ref := task.Ref{Namespace: "default", ID: fmt.Sprint(i)}
		if server := serverOf(ref); len(refs) == 0 && server != queue || len(refs) == 1 && server != serverOf(refs[0]) {
			refs = append(refs, w.hand(ref.ID))
		}
	}
	silent, worker := serverOf(refs[0]), "w1"
	for i := 2; c.Primary(string(w.Keys.Taken(worker))) == silent; i++ {
		worker = fmt.Sprint("w", i)
	}
	starts := []tasks.Start{{Ref: refs[0], Attempt: 1, Run: worker + "#A", Queue: "default"}, {Ref: refs[1], Attempt: 1, Run: worker + "#B", Queue: "default"}}
	testkit.Must(t, w.Tasks.NoteTaken(w.Ctx, worker, "1", starts, time.Minute))
	o := offer()
	o.Lease = 5 * time.Second

	silent.Pause()
	t.Cleanup(silent.Continue)
	begin := time.Now()
	for time.Since(begin) < 2*o.Lease {
		if runs, err := w.Take(w.Ctx, worker, o, requested("1")); err == nil {
			t.Fatalf("took %v while a server was silent", names(runs))
		}
		until := w.DB.ZScore(w.Ctx, string(w.KeysOf(refs[1]).Held()), refs[1].String()).Val()
		if left := time.Until(time.UnixMilli(int64(until))); left <= 0 {
			t.Fatalf("the lease of what has begun has been over for %s", -left)
		}
	}
	silent.Continue()
	var runs []*tasks.Run
	testkit.Eventually(t, "the attempts are taken", func() (taken bool) {
		var err error
		runs, err = w.Take(w.Ctx, worker, o, requested("1"))
		return err == nil
	})
	if got := names(runs); !slices.Equal(got, []string{worker + "#A", worker + "#B"}) {
		t.Errorf("took %v", got)
	}
}
