package control

import (
	"context"

	"github.com/dts-sched/dts/internal/calls"
	"github.com/dts-sched/dts/internal/task"
)

// Chores does what one node does for all, until ctx ends: the node that leads partition 0. For a moment, two nodes may
// do it, which must do no harm. asked is signalled when somebody reads the status, and bulk when there is a new bulk
// action. look has schedules that may need somebody, or no longer do.
func (c *Control) Chores(ctx context.Context, asked, bulk <-chan struct{}, look <-chan task.Ref) {
	calls.Do(
		func() { c.keepMinutes(ctx) },
		func() { c.keepTroubled(ctx) },
		func() { c.keepTold(ctx, look) },
		func() { c.keepStatus(ctx, asked) },
		func() { c.KeepBulks(ctx, bulk) },
	)
}
