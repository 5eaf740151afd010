package layout

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/task"
)

func TestPartitionOf_IsEvenAndFollowsTheRootOfTheID(t *testing.T) {
	l := &Layout{partitions: 16}
	counts := make([]int, 16)
	for i := range 16000 {
		counts[l.PartitionOf(task.Ref{Namespace: "default", ID: fmt.Sprintf("task-%d", i)})]++
	}
	if slices.Min(counts) < 800 || slices.Max(counts) > 1200 {
		t.Errorf("uneven: %v", counts)
	}
	if l.PartitionOf(task.Ref{Namespace: "n", ID: "s"}) != l.PartitionOf(task.Ref{Namespace: "n", ID: "s@20260102T150405Z"}) {
		t.Error("a tick is not where its schedule is")
	}
}

// The data of an installation lies where the first release put it.
func TestPartitionOf_IsTheFNVHashOfTheRoot(t *testing.T) {
	l := &Layout{partitions: 1000}
	for _, id := range []string{"", "a", "01JD9YV2K6M4Q8T0ABCDEFGHJK", "nightly@20260102T150405Z"} {
		root, _, _ := strings.Cut(id, "@")
		h := fnv.New32a()
		_, _ = h.Write([]byte("shop:" + root))
		want := int(h.Sum32() % 1000)
		if got := l.PartitionOf(task.Ref{Namespace: "shop", ID: id}); got != want {
			t.Errorf("%q is in partition %d, want %d", id, got, want)
		}
	}
}
