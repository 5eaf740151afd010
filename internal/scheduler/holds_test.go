package scheduler

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/limits"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// age makes a schedule that much older, with nobody having looked at it since.
func (w *world) age(s schedule.Schedule, by time.Duration) {
	w.t.Helper()
	k := w.store.KeysOf(s.Ref)
	testkit.Must(w.t, w.db.HSet(w.t.Context(), string(k.Schedule(s.Ref)), "created", s.CreatedAt.Add(-by).UnixMilli(),
		"from", s.UpdatedAt.Add(-by).UnixMilli(), "cursor", s.Cursor.Add(-by).UnixMilli()).Err())
	testkit.Must(w.t, w.db.ZAdd(w.t.Context(), string(k.Ticks()), redis.Z{Member: s.Ref.String()}).Err())
}

// Nobody takes the delivery that waits in the queue. When there is room, the misfire policy decides: by default, one tick runs for all that were missed.
func TestFire_HoldsTicksBackWhileTheirQueueIsFull(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	queues := queue.New(queue.Options{DB: w.db})
	testkit.Must(t, limits.New(w.store.Layout, queues).Set(t.Context(), task.DefaultQueue, 1))
	waits := []task.Delivery{{Ref: task.Ref{Namespace: "default", ID: "waits"}, Attempt: 1, Type: "echo", Queue: task.DefaultQueue, Timeout: time.Minute}}
	testkit.Must(t, queues.HandOver(t.Context(), waits, nil).Failure())
	s := w.put("held", each(time.Hour), schedule.OverlapAllow)
	w.age(s, 20*time.Hour+30*time.Minute)
	a := w.start("a", never)
	testkit.Eventually(t, "it is held back again and again", func() bool { return a.runs("postpone_schedule") > 2 })
	if all := w.ledger(s); len(all) != 0 {
		t.Errorf("meanwhile the ledger has %+v", all)
	}
	taken, err := queues.Recall(t.Context(), waits)
	if err != nil || len(taken) != 1 {
		t.Fatalf("%v, %v", taken, err)
	}
	testkit.Eventually(t, "its ticks are decided", func() bool { return len(w.ledger(s)) > 1 })
	missed, fired := 0, 0
	for _, e := range w.ledger(s) {
		switch {
		case !strings.Contains(e.Reason, "held back while the queue default was full"):
			t.Errorf("%s %s: %s", e.Name, e.Outcome, e.Reason)
		case e.Outcome == schedule.Missed:
			missed++
		case e.Outcome == schedule.Fired:
			fired++
		}
	}
	if missed != 19 || fired != 1 {
		t.Errorf("%d were missed and %d fired", missed, fired)
	}
}
