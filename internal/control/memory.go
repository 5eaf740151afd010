package control

import (
	"context"

	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
)

// newWork comes before whatever creates work of a task or a schedule: what limits new work belongs here. Error: CodeUnavailable while
// the Redis that holds it is nearly full.
func (c *Control) newWork(ctx context.Context, who Caller, ref task.Ref) error {
	return c.newWorkEach(ctx, who, []task.Ref{ref})[0]
}

// newWorkEach is newWork for several tasks, in order.
func (c *Control) newWorkEach(ctx context.Context, _ Caller, refs []task.Ref) []error {
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
