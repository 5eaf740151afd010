package control

import (
	"context"

	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
)

// newWork comes before whatever creates work of a task or a schedule: what limits new work belongs here. Error: CodeUnavailable while
// the Redis that holds it is nearly full.
func (c *Control) newWork(ctx context.Context, _ Caller, ref task.Ref) error {
	if c.store.MemoryInUse(ctx, c.store.PartitionOf(ref)) > layout.NearlyFull {
		return task.Errorf(task.CodeUnavailable,
			"Redis uses more than %.0f %% of its maxmemory: new work is refused until memory is free", layout.NearlyFull*100)
	}
	return nil
}
