package layout

import (
	"fmt"
	"slices"
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
