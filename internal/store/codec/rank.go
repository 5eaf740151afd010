package codec

import (
	"math"
	"time"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua/contract"
)

// Rank returns the score of a task in a set of ready tasks, as lua/include/turn.lua writes it: when it was due in ms,
// or for a priority a time before, and a part of a ms that tells the priority.
func Rank(due time.Time, priority int) float64 {
	ahead := priority * int(task.PriorityStep.Milliseconds())
	return float64(due.UnixMilli()-int64(ahead)) + float64(priority)/contract.PriorityMarks
}

// DueOfRank returns when a task with that rank was due.
func DueOfRank(rank float64) time.Time {
	ms, mark := math.Modf(rank)
	return time.UnixMilli(int64(ms)).Add(time.Duration(mark*contract.PriorityMarks) * task.PriorityStep).UTC()
}
