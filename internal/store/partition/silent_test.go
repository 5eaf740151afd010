package partition_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// The metrics of a node show the depths of the partitions that it leads, and wait for them for two seconds.
func TestDepths_CountsWhatOtherServersHaveWhileOneIsSilent(t *testing.T) {
	t.Parallel()
	w := storetest.InCluster(t)
	silent := task.Ref{Namespace: "default", ID: "silent"}
	paused := w.ServerOf(silent)
	ref := w.Elsewhere(paused, 1)[0]
	w.Create(task.Definition{Ref: ref})
	p, gone := w.PartitionOf(ref), w.PartitionOf(silent)

	paused.Pause()
	t.Cleanup(paused.Continue)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	depths, err := w.Partitions.Depths(ctx, []int{gone, p})
	if _, counted := depths[gone]; counted || err == nil || depths[p].Scheduled != 1 || depths[p].Overdue != 1 {
		t.Errorf("%+v, %v, want one task in partition %d, and that partition %d cannot be counted", depths, err, p, gone)
	}
}

// The servers of a cluster have each a clock of their own. The one that holds partition 0, and not partition 1, is an hour ahead.
func TestDepths_JudgesWhatIsOverdueByTheClockOfItsServer(t *testing.T) {
	t.Parallel()
	movable, started := redistest.MovableClock(t), 0
	cluster := redistest.StartCluster(t, func(s *redistest.Server) {
		if started++; started == 3 {
			movable(s)
			s.MoveClock(time.Hour)
		}
	})
	w := storetest.On(t, redistest.Open(t, cluster.URL()))
	soon := float64(time.Now().Add(30 * time.Minute).UnixMilli())
	for p := range w.Partitions.Count() {
		k := w.Keys.Partition(p)
		testkit.Must(t, w.DB.ZAdd(w.Ctx, string(k.Wheel()), redis.Z{Score: soon, Member: "default:soon"}).Err())
		testkit.Must(t, w.DB.ZAdd(w.Ctx, string(k.Ticks()), redis.Z{Score: soon, Member: "default:soon"}).Err())
	}
	for _, numbers := range [][]int{{0, 1}, {1, 0}} {
		depths, err := w.Partitions.Depths(w.Ctx, numbers)
		testkit.Must(t, err)
		for p, want := range []int64{1, 0} {
			if got := depths[p]; got.Overdue != want || got.OverdueSchedules != want || got.Scheduled != 1 {
				t.Errorf("%v: partition %d has %+v, want %d overdue", numbers, p, got, want)
			}
		}
	}
}
