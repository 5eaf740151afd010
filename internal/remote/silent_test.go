package remote

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// The worker hears of none of the attempts before there is an answer for all. Those that have begun must not be lost meanwhile.
func TestTake_ARepeatKeepsWhatHasBegunWhileAnotherServerIsSilent(t *testing.T) {
	t.Parallel()
	c := storetest.InCluster(t)
	w := join(t, c.World)
	first := c.Elsewhere(c.Cluster.Primary("asynq:{default}:pending"), 1)[0]
	silent, worker := c.ServerOf(first), "w1"
	refs := []task.Ref{w.hand(first.ID), w.hand(c.Elsewhere(silent, 1)[0].ID)}
	for i := 2; c.Cluster.Primary(string(w.Keys.Taken(worker))) == silent; i++ {
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

// Those that live can call, as the other servers answer.
func TestWorkers_ASilentWorkerIsGoneWhileAServerIsSilent(t *testing.T) {
	t.Parallel()
	c := storetest.InCluster(t)
	w := join(t, c.World)
	away := c.Elsewhere(c.Cluster.Primary("asynq:{default}:pending"), 1)[0]
	silent := c.ServerOf(away)
	here := c.Elsewhere(silent, 1)[0]
	s, err := w.session("w1", "", offer())
	testkit.Must(t, err)
	hangUp := s.call()
	silent.Pause()
	t.Cleanup(silent.Continue)
	testkit.Eventually(t, "the outage is noticed", func() bool { _, _ = w.Tasks.Get(w.Ctx, away); return !w.DB.Link().Up() })
	hangUp()
	testkit.Eventually(t, "the worker is gone", func() bool { _, _ = w.Tasks.Get(w.Ctx, here); return len(w.Guests()) == 0 })
	if w.DB.Link().Up() {
		t.Error("the outage was over")
	}
}
