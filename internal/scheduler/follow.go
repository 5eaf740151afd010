package scheduler

import (
	"context"
	"errors"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/store/partition"
)

// followAtOnce is how many entries of an outbox one call deals with.
const followAtOnce = 64

// follow deals with what is due in the outbox, until ctx ends. While there is nothing, it asks Redis once a term.
func (t *term) follow(ctx context.Context) error {
	for ctx.Err() == nil {
		got := clock.Now()
		followed, err := t.leader.Follow(ctx, followAtOnce)
		for _, entry := range followed.Waiting {
			if t.damage.Due(entry) {
				t.s.o.Log.Warn("the outbox has an end that cannot be followed up; it waits",
					"partition", t.partition, "entry", entry)
			}
		}
		switch {
		case errors.Is(err, partition.ErrFenced):
			return err
		case err != nil:
			t.failed(ctx, "cannot deal with what the outbox has; trying again", err)
		default:
			t.sleep(ctx, followed.Next, followed.Now, got, t.s.followWakes)
		}
	}
	return nil
}
