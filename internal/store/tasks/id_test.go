package tasks_test

import (
	"slices"
	"testing"

	"github.com/oklog/ulid/v2"

	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestNewID_KeepsNeighboursTogetherAndSharesThePartitionsEvenly(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	const together = 64
	partitions := w.Partitions.Count()
	made := make([]string, 2*together*partitions)
	counts := make([]int, partitions)
	changes, last := 0, -1
	for i := range made {
		made[i] = w.Tasks.NewID("shop")
		_, err := ulid.ParseStrict(made[i])
		testkit.Must(t, err)
		p := w.PartitionOf(task.Ref{Namespace: "shop", ID: made[i]})
		counts[p]++
		if p != last {
			changes++
		}
		last = p
	}
	for p, n := range counts {
		if n != 2*together {
			t.Errorf("partition %d got %d ids, want %d", p, n, 2*together)
		}
	}
	if most := 2*partitions + 1; changes > most {
		t.Errorf("the partition changed %d times, want at most %d", changes, most)
	}
	if !slices.IsSorted(made) {
		t.Error("the ids are not in order")
	}
	if n := len(slices.Compact(made)); n != 2*together*partitions {
		t.Errorf("%d ids differ, want all", n)
	}
}
