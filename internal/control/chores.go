package control

import (
	"context"

	"github.com/dts-sched/dts/internal/calls"
)

// Chores does what one node does for all, until ctx ends: the node that leads partition 0. For a moment, two nodes may
// do it, which must do no harm. asked is signalled when somebody reads the status, and bulk when there is a new bulk
// action.
func (c *Control) Chores(ctx context.Context, asked, bulk <-chan struct{}) {
	calls.Do(
		func() { c.keepMinutes(ctx) },
		func() { c.keepTroubled(ctx) },
		func() { c.keepStatus(ctx, asked) },
		func() { c.KeepBulks(ctx, bulk) },
	)
}
