package tasks_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/dts-sched/dts/internal/config"

	"github.com/oklog/ulid/v2"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

func openLayout(t *testing.T, partitions int) *layout.Layout {
	t.Helper()
	l, err := layout.Open(t.Context(), layout.Options{DB: redistest.Start(t).DB(t), Partitions: partitions})
	testkit.Must(t, err)
	return l
}

// makeIDs makes n ids, and checks that they are ULIDs, unique and in order.
func makeIDs(t *testing.T, s *tasks.Tasks, n int) []string {
	t.Helper()
	ids := make([]string, n)
	for i := range ids {
		ids[i] = s.NewID("shop")
		if _, err := ulid.ParseStrict(ids[i]); err != nil {
			t.Errorf("%s: %v", ids[i], err)
		}
	}
	if !slices.IsSorted(ids) {
		t.Error("the ids are not in order")
	}
	if got := len(slices.Compact(slices.Sorted(slices.Values(ids)))); got != n {
		t.Errorf("%d ids differ, want all %d", got, n)
	}
	return ids
}

func TestNewID_KeepsNeighboursTogetherAndSharesThePartitionsEvenly(t *testing.T) {
	t.Parallel()
	const together = 64
	for _, partitions := range []int{1, 2, 1024} { // 1,024 is the most that may be set
		t.Run(fmt.Sprint(partitions), func(t *testing.T) {
			t.Parallel()
			l := openLayout(t, partitions)
			counts := make([]int, partitions)
			changes, last := 0, -1
			for _, id := range makeIDs(t, tasks.New(l, 0, config.Durability{}), together*partitions) {
				p := l.PartitionOf(task.Ref{Namespace: "shop", ID: id})
				counts[p]++
				if p != last {
					changes++
				}
				last = p
			}
			if least, most := slices.Min(counts), slices.Max(counts); least != together || most != together {
				t.Errorf("the partitions got %d to %d ids, want %d each", least, most, together)
			}
			if most := partitions + 1; changes > most {
				t.Errorf("the partition changed %d times, want at most %d", changes, most)
			}
		})
	}
}

func TestNewID_IsInOrderForEachOfManyCallers(t *testing.T) {
	t.Parallel()
	s := tasks.New(openLayout(t, 16), 0, config.Durability{})
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() { makeIDs(t, s, 10_000) })
	}
	callers.Wait()
}

// With so many partitions, most ids have no digits that bring them to the one whose turn it is.
func TestNewID_OfAnyPartitionIsAsGoodAnID(t *testing.T) {
	t.Parallel()
	makeIDs(t, tasks.New(openLayout(t, 1<<20), 0, config.Durability{}), 300)
}
