package partition_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/handover"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

// calls is how often Redis ran each command while do ran, those of scripts included.
func calls(t *testing.T, w *storetest.World, do func()) map[string]int {
	t.Helper()
	testkit.Must(t, w.DB.ConfigResetStat(w.Ctx).Err())
	do()
	stats, err := w.DB.Info(w.Ctx, "commandstats").Result()
	testkit.Must(t, err)
	counts := make(map[string]int)
	for line := range strings.Lines(stats) {
		name, figures, _ := strings.Cut(line, ":calls=")
		var n int
		if _, err := fmt.Sscanf(figures, "%d,", &n); err == nil {
			counts[strings.TrimPrefix(name, "cmdstat_")] = n
		}
	}
	return counts
}

// Each tick of each schedule pays for what fire asks Redis.
func TestFire_CountsLiveTasksOnce(t *testing.T) {
	t.Parallel()
	for _, overlap := range []schedule.Overlap{schedule.OverlapSkip, schedule.OverlapAllow} {
		w := storetest.New(t)
		w.Put(storetest.Daily(func(d *schedule.Definition) {
			d.Ref, d.Rules, d.Overlap = nightly, []schedule.Rule{{Every: time.Hour}}, overlap
		}))
		w.Rewind(nightly, time.Hour)
		due := w.Agenda(nightly)
		counts := calls(t, w, func() {
			if fired := w.FireOnce(storetest.Fence, due); fired.Err != nil || len(fired.Ticked) != 1 {
				t.Errorf("%s: %+v, want one tick", overlap, fired)
			}
		})
		if counts["zcard"] != 3 {
			t.Errorf("%s: ZCARD was called %d times, want 3: two are for the ledger, which is new", overlap, counts["zcard"])
		}
	}
}

// EXISTS is also called for the term of the leader, and for those who follow events.
func TestClaim_LooksOnceAtEachSet(t *testing.T) {
	t.Parallel()
	served := handover.Grant{Lanes: handover.Quotas{{Queue: "a"}: {Number: 1}, {Queue: "b"}: {Number: 1}}, Known: true}
	for name, quotas := range map[string]handover.Grant{
		"some wait":     served,
		"nobody serves": {Default: 10, Known: true, Served: lua.ServedText(nil)},
	} {
		w := storetest.New(t)
		for _, queue := range []string{"a", "b"} {
			w.Create(task.Definition{Ref: task.Ref{Namespace: "default", ID: nightly.ID + "@" + queue}, Queue: queue})
		}
		l := w.Leader(nightly)
		if name == "some wait" {
			_, err := l.Claim(w.Ctx, 10, handover.Grant{}, time.Second)
			testkit.Must(t, err)
		}
		counts := calls(t, w, func() {
			_, err := l.Claim(w.Ctx, 10, quotas, time.Second)
			testkit.Must(t, err)
		})
		types := 2
		if name == "some wait" {
			types = 0 // what is read needs no look at its type
		}
		if counts["type"] != types || counts["exists"] != 2 {
			const text = "%s: TYPE was called %d times and EXISTS %d times, want %d and 2"
			t.Errorf(text, name, counts["type"], counts["exists"], types)
		}
		if waiting := w.DB.SCard(w.Ctx, string(w.KeysOf(nightly).Backlog())).Val(); (waiting == 2) != (name != "some wait") {
			t.Errorf("%s: %d queues have a backlog", name, waiting)
		}
	}
}
