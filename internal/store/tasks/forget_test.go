package tasks

import (
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// The other servers of a cluster take writes, which say nothing of the one that is away.
func TestRecent_ForgetsOnlyEndsWhoseServerTakesWrites(t *testing.T) {
	t.Parallel()
	var r recent
	for i, id := range []string{"away", "there"} {
		r.add(End{Run: &Run{Task: task.Task{Definition: task.Definition{Ref: task.Ref{ID: id}}}}, Reason: "ten bytes."}, i, time.Now())
	}
	limit := time.Now().Add(time.Millisecond)
	r.forget(map[int]bool{0: false, 1: true}, limit)
	if got := r.partitionsBefore(limit); len(got) != 1 || got[0] != 0 || r.bytes != 10 {
		t.Errorf("ends of the partitions %v are left, %d bytes; want those of partition 0, 10 bytes", got, r.bytes)
	}
}
