package control

import (
	"context"

	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
)

// checkMemory comes before whatever creates work of a task or a schedule. Error: CodeUnavailable while the Redis that holds it is nearly full.
func (c *Control) checkMemory(ctx context.Context, who Caller, ref task.Ref) error {
	return c.checkMemoryEach(ctx, who, []task.Ref{ref})[0]
}

// checkMemoryEach is checkMemory for several tasks, in order.
func (c *Control) checkMemoryEach(ctx context.Context, _ Caller, refs []task.Ref) []error {
	partitions, failures := make([]int, len(refs)), make([]error, len(refs))
	for i, ref := range refs {
		partitions[i] = c.store.PartitionOf(ref)
	}
	for i, inUse := range c.store.MemoryInUseEach(ctx, partitions) {
		if inUse > layout.NearlyFull {
			failures[i] = task.Errorf(task.CodeUnavailable,
				"Redis uses more than %.0f %% of its maxmemory: new work is refused until memory is free", layout.NearlyFull*100)
		}
	}
	return failures
}
