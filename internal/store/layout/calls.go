package layout

import (
	"github.com/dts-sched/dts/internal/batch"
	"github.com/dts-sched/dts/internal/task"
)

// SharedCalls returns a group for items about tasks, as batch.New does; of is the task of an item. If partitions have servers of their own, each has a
// group of its own: the others go on while a server is silent.
func SharedCalls[T, R any](l *Layout, of func(T) task.Ref, limit int, do func([]T) []R) *batch.Groups[T, R] {
	if !l.DB.Sharded() {
		return batch.NewGroups(1, func(T) int { return 0 }, limit, do)
	}
	return batch.NewGroups(l.partitions, func(item T) int { return l.PartitionOf(of(item)) }, limit, do)
}
