package control

import (
	"context"

	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
)

// checkMemory returns for each task or schedule, in order, an error with CodeUnavailable while the Redis that holds it is
// nearly full.
func (c *Control) checkMemory(ctx context.Context, refs []task.Ref) []error {
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
