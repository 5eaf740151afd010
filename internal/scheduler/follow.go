package scheduler

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/task"
)

// followAtOnce is how many entries of an outbox one call deals with.
const followAtOnce = 64

// follow deals with what is due in the outbox, until ctx ends. While there is nothing, it asks Redis once a term.
func (t *term) follow(ctx context.Context) error {
	for ctx.Err() == nil {
		got := clock.Now()
		followed, err := t.leader.Follow(ctx, followAtOnce)
		t.s.o.Metrics.FollowUps.Add(float64(len(followed.Created)))
		t.s.o.Metrics.Expired.Add(float64(len(followed.Expired)))
		t.withdraw(ctx, followed.Expired)
		next := followed.Next
		if claimed := t.claimedRuns(); err == nil && len(followed.Runs)+len(claimed) > 0 {
			var again time.Time
			again, err = t.carryOn(ctx, followed.Now, followed.Runs, claimed)
			next = earlier(next, again)
		}
		t.warnOf("the outbox has an entry that this release cannot read; it waits", followed.Unread)
		t.warnOf("the outbox has the end of a task that does not exist; it waits until the task is there, or until "+
			"'dtsctl doctor --check task-leftovers --repair' removes it", followed.Missing)
		switch {
		case errors.Is(err, partition.ErrFenced):
			return err
		case err != nil:
			t.failed(ctx, "cannot deal with what the outbox has; trying again", err)
		default:
			t.sleep(ctx, next, followed.Now, got, t.s.followWakes)
		}
	}
	return nil
}

// withdraw removes deliveries that nobody needs from their queues. Those that stay are found by workers.
func (t *term) withdraw(ctx context.Context, deliveries []task.Delivery) {
	queued := slices.DeleteFunc(slices.Clone(deliveries), func(d task.Delivery) bool { return d.Attempt == 0 })
	if _, err := t.recall(ctx, &partition.Watched{}, queued); err != nil {
		t.s.o.Log.DebugContext(ctx, "deliveries of tasks that nobody began in time stay in asynq", "error", err)
	}
}

// warnOf warns of entries of the outbox, of each once a minute.
func (t *term) warnOf(text string, entries []string) {
	for _, entry := range entries {
		if t.damage.Due(entry) {
			t.s.o.Log.Warn(text, "partition", t.partition, "entry", entry)
		}
	}
}
