package partition_test

import (
	"slices"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// byWrongClocks runs a test on a Redis whose clock is an hour ahead of this process's, and on one an hour behind.
func byWrongClocks(t *testing.T, test func(t *testing.T, w *storetest.World, ahead time.Duration)) {
	t.Helper()
	for _, ahead := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(ahead.String(), func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t, redistest.MovableClock(t))
			srv.MoveClock(ahead)
			test(t, storetest.On(t, srv.DB(t)), ahead)
		})
	}
}

func TestClaim_ComparesDueTimesWithTheClockOfRedis(t *testing.T) {
	t.Parallel()
	byWrongClocks(t, func(t *testing.T, w *storetest.World, ahead time.Duration) {
		t.Helper()
		at := w.Create(task.Definition{
			Ref: task.Ref{Namespace: "default", ID: "at"}, RunAt: time.Now().Add(ahead / 2), // passed by one clock only
		}).Ref
		if isDue := len(w.Claim(at)) == 1; isDue != (ahead > 0) {
			t.Errorf("a task at a time that only one clock has passed: claimed is %v", isDue)
		}
		later := w.Create(task.Definition{Ref: task.Ref{Namespace: "default", ID: "later"}, Delay: time.Minute}).Ref
		claimed, err := w.Leader(later).Claim(w.Ctx, 10, storetest.Quotas, time.Second)
		testkit.Must(t, err)
		if wait := w.Get(later).DueAt.Sub(claimed.Now); wait <= 0 || wait > time.Minute || len(claimed.Deliveries) > 0 {
			t.Errorf("a task with a delay of a minute is due in %s, claimed are %v", wait, claimed.Deliveries)
		}
	})
}

func TestFire_ComparesTicksWithTheClockOfRedis(t *testing.T) {
	t.Parallel()
	byWrongClocks(t, func(t *testing.T, w *storetest.World, _ time.Duration) {
		t.Helper()
		w.Put(storetest.Daily(func(d *schedule.Definition) { d.Rules[0].Every = 30 * time.Minute }))
		for _, c := range []struct {
			passed time.Duration
			want   []schedule.Outcome
		}{{time.Minute, nil}, {30 * time.Minute, []schedule.Outcome{schedule.Fired}}} {
			w.Rewind(nightly, c.passed)
			fired := w.FireOnce(storetest.Fence, w.Agenda(nightly))
			testkit.Must(t, fired.Err)
			if got := storetest.Outcomes(fired.Ticked); !slices.Equal(got, c.want) {
				t.Errorf("%s later, the next ticks are %v, want %v", c.passed, got, c.want)
			}
		}
	})
}
