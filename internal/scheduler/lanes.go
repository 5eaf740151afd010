package scheduler

import (
	"context"
	"errors"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// split is deliveries by who can take them.
type split struct {
	served   []task.Delivery
	unserved []task.Delivery // nobody serves their queue
	apart    []task.Delivery // their queue is served, but nobody runs their type: they belong into lanes
}

// splitServed separates deliveries by who can take them.
func (q *quotas) splitServed(deliveries []task.Delivery) split {
	q.mu.Lock()
	defer q.mu.Unlock()
	var s split
	for _, d := range deliveries {
		switch {
		case q.slots.ofType(d.Queue, d.Type) > 0:
			s.served = append(s.served, d)
		case q.slots.of(d.Queue) > 0:
			s.apart = append(s.apart, d)
		default:
			s.unserved = append(s.unserved, d)
		}
	}
	return s
}

// countByQuota adds deliveries to the numbers of those that were claimed, by the quota under which claim.lua has claimed them.
func countByQuota(claimed map[string]int, reserved partition.Quotas, deliveries []task.Delivery) {
	lanes := false
	for name := range reserved.Queues {
		_, taskType := lua.SplitLane(name)
		lanes = lanes || taskType != ""
	}
	for _, d := range deliveries {
		name := d.Queue
		if lanes {
			lane := lua.LaneName(d.Queue, d.Type)
			if _, known := reserved.Queues[lane]; known {
				name = lane
			}
		}
		claimed[name]++
	}
}

// closeLanes returns how many of the deliveries that wait in a queue have types that only some of its workers run, or none. A type of
// which as many wait as those workers take soon gets a lane without room, where further tasks of it wait; the lane is asked for by
// itself then. The caller holds the mutex.
func (q *quotas) closeLanes(name string, types map[string]int) (apart int) {
	for taskType, n := range types {
		if taskType == "" || q.slots.ofType(name, taskType) == q.slots.of(name) {
			continue
		}
		apart += n
		if lane := lua.LaneName(name, taskType); n >= q.bound(lane, nil) {
			q.flow(lane).used = clock.Now()
		}
	}
	return apart
}

// parkUnrunnable takes back those of the tasks whose deliveries wait for a worker of their type, when there is none any more: they would
// take the room of others, and a look each from time to time. A delivery that somebody has taken stays as it is.
func (t *term) parkUnrunnable(ctx context.Context, w *partition.Watched) error {
	apart := t.s.quotas.splitServed(w.Waiting).apart
	if len(apart) == 0 {
		return nil
	}
	recalled, err := t.s.o.Queues.Recall(ctx, apart)
	if len(recalled) == 0 {
		return err
	}
	gone := make(map[string]bool, len(recalled))
	for _, d := range recalled {
		gone[d.String()] = true
	}
	waiting, queued := w.Waiting, w.Queued
	w.Waiting, w.Queued = nil, nil
	for i, d := range waiting {
		if !gone[d.String()] {
			w.Waiting, w.Queued = append(w.Waiting, d), append(w.Queued, queued[i])
		}
	}
	err = errors.Join(err, t.leader.TakeBack(ctx, recalled, true))
	t.s.wake(t.partition) // so that a claim sees the lanes
	return err
}
