package control

import (
	"context"
	"time"

	"github.com/dts-sched/dts/internal/calls"
	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/task"
)

// Chores does what one node does for all, until ctx ends: the node that leads partition 0. For a moment, two nodes may
// do it, which must do no harm. asked is signalled when somebody reads the status, and bulk when there is a new bulk
// action. changed has schedules that may need somebody, or no longer do.
func (c *Control) Chores(ctx context.Context, asked, bulk <-chan struct{}, changed <-chan task.Ref) {
	calls.Do(
		c.going(ctx, "counting minutes", func() { c.keepMinutes(ctx) }),
		c.going(ctx, "looking for schedules that need somebody", func() { c.keepTroubled(ctx) }),
		c.going(ctx, "looking at schedules that have changed", func() { c.keepChanged(ctx, changed) }),
		c.going(ctx, "keeping the status", func() { c.keepStatus(ctx, asked) }),
		c.going(ctx, "keeping bulk actions", func() { c.KeepBulks(ctx, bulk) }),
	)
}

// chorePause is after what time a chore that has panicked begins again.
const chorePause = 10 * time.Second

// going is a chore that begins again after a panic, until ctx ends: the others do not end with it, and nobody waits for
// it who would answer for the panic.
func (c *Control) going(ctx context.Context, name string, chore func()) func() {
	return func() {
		for err := calls.Recover(chore); err != nil && ctx.Err() == nil; err = calls.Recover(chore) {
			c.log.ErrorContext(ctx, "a chore of the leader has panicked; it begins again", "chore", name, "error", err)
			_ = clock.Sleep(ctx, chorePause)
		}
	}
}
