package scheduler

import (
	"context"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/task"
)

// commonPartition is the partition whose leader does what one node does for the whole installation.
const commonPartition = 0

// tend tends asynq's queues, some in each round, at intervals until ctx ends, if this is the leader of commonPartition.
// A queue that cannot be tended holds up no other: the next round goes on behind it. It needs no fence: two leaders
// that tend at the same time do no harm.
func (t *term) tend(ctx context.Context) error {
	if t.partition != commonPartition {
		<-ctx.Done()
		return nil
	}
	position := 0
	for ctx.Err() == nil {
		tended, err := t.s.o.Queues.Tend(ctx, position)
		t.warn(ctx, "cannot tend some of asynq's queues", err)
		if position = tended.Next; position == 0 {
			_, err = t.s.o.Queues.DropNodeQueues(ctx, t.s.o.Members.View().Gone)
			t.warn(ctx, "cannot delete the queues of nodes that have gone", err)
		}
		if tended.Orphans > 0 {
			t.s.o.Log.Info("returned deliveries of workers that died", "count", tended.Orphans)
		}
		_ = clock.Sleep(ctx, t.s.pace.tend)
	}
	return nil
}

// toldLook passes on which schedule may need somebody, or no longer does. If too many wait, the next look at all finds
// it.
func (s *Scheduler) toldLook(schedule task.Ref) {
	select {
	case s.look <- schedule:
	default:
	}
}

// chores runs Options.Chores until ctx ends, if this is the leader of commonPartition.
func (t *term) chores(ctx context.Context) error {
	if t.partition == commonPartition && t.s.o.Chores != nil {
		t.s.o.Chores(ctx, Told{Status: t.s.asked, Bulk: t.s.bulk, Look: t.s.look})
	}
	<-ctx.Done()
	return nil
}
