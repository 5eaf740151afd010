package codec_test

import (
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/task"
)

// TestRank_TellsWhenATaskIsDue for each priority, and is less for a greater one.
func TestRank_TellsWhenATaskIsDue(t *testing.T) {
	due := time.UnixMilli(1_764_325_123_457).UTC()
	for priority := range task.PriorityLimit + 1 {
		rank := codec.Rank(due, priority)
		if got := codec.DueOfRank(rank); !got.Equal(due) {
			t.Errorf("priority %d: due at %s, want %s", priority, got, due)
		}
		ahead := float64(due.UnixMilli()) - rank
		if steps := ahead / float64(task.PriorityStep.Milliseconds()); int(steps+0.5) != priority {
			t.Errorf("priority %d: the rank is %.2f steps ahead", priority, steps)
		}
	}
}
