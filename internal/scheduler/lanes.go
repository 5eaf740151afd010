package scheduler

import (
	"context"
	"errors"
	"slices"

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

// splitServed separates deliveries by who can take them. If no node can take some, it asks asynq for its own servers, unless that was done
// a moment ago. Error: as of readForeign.
func (q *quotas) splitServed(ctx context.Context, deliveries []task.Delivery) (split, error) {
	s, strange := q.split(deliveries)
	if len(strange) == 0 {
		return s, nil
	}
	q.asking.Lock()
	defer q.asking.Unlock()
	err := q.readForeign(ctx, strange)
	s, _ = q.split(deliveries)
	return s, err
}

// split is splitServed by what is known. strange are the lanes of those that no node can take.
func (q *quotas) split(deliveries []task.Delivery) (s split, strange []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, d := range deliveries {
		if lane := lua.LaneName(d.Queue, d.Type); q.slots.ofNodes(lane) == 0 && !slices.Contains(strange, lane) {
			strange = append(strange, lane)
		}
		switch {
		case q.slots.ofType(d.Queue, d.Type) > 0:
			s.served = append(s.served, d)
		case q.slots.of(d.Queue) > 0:
			s.apart = append(s.apart, d)
		default:
			s.unserved = append(s.unserved, d)
		}
	}
	return s, strange
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

// parkUnrunnable takes back those of the tasks whose deliveries wait for a worker, when there is none any more for their queue or of their
// type: they would take the room of others, and a look each from time to time, and could not be counted. A delivery that somebody has taken
// stays as it is.
func (t *term) parkUnrunnable(ctx context.Context, w *partition.Watched) error {
	s, err := t.s.quotas.splitServed(ctx, w.Waiting)
	if err != nil { // somebody may serve them
		return err
	}
	var failures []error
	for _, some := range []struct {
		deliveries []task.Delivery
		apart      bool
	}{{s.unserved, false}, {s.apart, true}} {
		reachable := t.s.quotas.reachable(some.deliveries)
		if len(reachable) == 0 {
			continue
		}
		recalled, err := t.s.o.Queues.Recall(ctx, reachable)
		failures = append(failures, err)
		if len(recalled) > 0 {
			forget(w, recalled)
			failures = append(failures, t.leader.TakeBack(ctx, recalled, some.apart))
			t.s.quotas.tookBack(t.partition)
			t.s.wake(t.partition) // so that a claim sees what waits
		}
	}
	return errors.Join(failures...)
}

// forget removes deliveries from those that wait.
func forget(w *partition.Watched, deliveries []task.Delivery) {
	gone := make(map[string]bool, len(deliveries))
	for _, d := range deliveries {
		gone[d.String()] = true
	}
	waiting, queued := w.Waiting, w.Queued
	w.Waiting, w.Queued = nil, nil
	for i, d := range waiting {
		if !gone[d.String()] {
			w.Waiting, w.Queued = append(w.Waiting, d), append(w.Queued, queued[i])
		}
	}
}
