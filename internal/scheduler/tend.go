package scheduler

import (
	"context"

	"github.com/dts-sched/dts/internal/clock"
)

// tendingPartition is the partition whose leader tends asynq's queues for the whole installation.
const tendingPartition = 0

// tend tends asynq's queues, some in each round, at intervals until ctx ends, if this is the leader of tendingPartition. It needs no fence: two
// leaders that tend at the same time do no harm.
func (t *term) tend(ctx context.Context) error {
	if t.partition != tendingPartition {
		<-ctx.Done()
		return nil
	}
	position := 0
	for ctx.Err() == nil {
		tended, err := t.s.o.Queues.Tend(ctx, position)
		if err != nil {
			t.failed(ctx, "cannot tend asynq's queues", err)
			continue
		}
		position = tended.Next
		if tended.Orphans > 0 {
			t.s.o.Log.Info("returned deliveries of workers that died", "count", tended.Orphans)
		}
		_ = clock.Sleep(ctx, t.s.pace.tend)
	}
	return nil
}
