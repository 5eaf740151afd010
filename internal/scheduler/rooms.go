package scheduler

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/task"
)

const (
	leastAhead = 16                     // deliveries that may wait in a queue that is served, however few slots its workers have
	soon       = 250 * time.Millisecond // of the work of fast workers may wait as well
	rateWindow = 100 * time.Millisecond // the least time over which the rate of a queue is measured
	// firstRoom is how many tasks a claim may take of a queue of which nothing is known.
	firstRoom = 16
	// roomLifetime is how long a node remembers a queue that it hands nothing to.
	roomLifetime = 10 * time.Second
	// foreignInterval is the time between two looks at asynq's own servers.
	foreignInterval = 5 * time.Second
)

// rooms decides how many deliveries this node hands over to each of asynq's queues: enough to keep its living workers busy,
// and no more. What is beyond waits in its partition, where it can be counted, changed, cancelled and moved.
//
// Most queues are never full. They have no room here, and a claim takes up to firstRoom of their tasks at once. A queue gets
// one when it is found to be more than half full, when much is handed over to it at once, or when tasks wait for it.
type rooms struct {
	s *Scheduler

	mu      sync.Mutex
	rooms   map[string]*room // by queue
	foreign map[string]int   // slots of asynq's own servers, by queue
	checked time.Time        // when these were read

	asking sync.Mutex // is held while Redis is asked, so that one term asks for all
}

// room is what this node knows of a queue.
type room struct {
	left     int       // tasks that may be claimed, without those reserved
	reserved int       // tasks that terms may be claiming at the moment
	asked    time.Time // when left was read and the workers were asked for word; zero: ask again
	used     time.Time // when tasks were claimed last
	ended    int64     // deliveries that had ended in the queue at the time measured
	measured time.Time
	rate     float64 // deliveries that end in a second
}

func newRooms(s *Scheduler) *rooms { return &rooms{s: s, rooms: make(map[string]*room)} }

// bound is how many deliveries may wait in a queue whose deliveries end at that rate: 0 if no living worker serves it.
func (r *rooms) bound(name string, rate float64) int {
	slots := 0
	for _, n := range r.s.o.Members.View().Nodes {
		if _, serves := n.Queues[name]; serves && n.State == cluster.StateAlive && n.Has(config.RoleWorker) {
			slots += n.Capacity
		}
	}
	if slots == 0 {
		slots = r.foreign[name]
	}
	if slots == 0 {
		return 0
	}
	return max(slots*r.s.o.HandOver, leastAhead, int(rate*soon.Seconds()))
}

// share is the part of a queue's room that this node may fill, as other nodes fill it too.
func (r *rooms) share(free int) int {
	nodes := max(len(r.s.o.Members.View().Alive(config.RoleScheduler)), 1)
	return (max(free, 0) + nodes - 1) / nodes
}

// reserve returns what a term may claim at once of the queues that have a room. The caller calls release with the number of
// tasks that it has claimed of each. backlog are the queues for which tasks of the term wait. If it seems that they have no
// room, reserve asks Redis, once in a while. Error: one of Redis.
func (r *rooms) reserve(ctx context.Context, backlog []string, limit int) (partition.Room, error) {
	if err := r.askFor(ctx, backlog); err != nil {
		return partition.Room{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	reserved := partition.Room{Queues: make(map[string]int), Default: min(limit, firstRoom)}
	for name, q := range r.rooms {
		if q.reserved == 0 && clock.Since(q.used) > roomLifetime && !slices.Contains(backlog, name) {
			delete(r.rooms, name)
			continue
		}
		n := min(limit, q.left)
		q.left, q.reserved = q.left-n, q.reserved+n
		reserved.Queues[name] = n
	}
	return reserved, nil
}

// release ends a reservation. What was not claimed others may claim: those are woken that wait for it.
func (r *rooms) release(reserved partition.Room, claimed map[string]int) {
	var freed []string
	r.mu.Lock()
	for name, n := range reserved.Queues {
		q := r.rooms[name]
		if q == nil { // nothing was reserved, and the node has forgotten the queue since
			continue
		}
		q.reserved -= n
		if claimed[name] > 0 {
			q.used = clock.Now()
		}
		if back := n - claimed[name]; back > 0 {
			if q.left == 0 {
				freed = append(freed, name)
			}
			q.left += back
		}
	}
	r.mu.Unlock()
	for _, name := range freed {
		r.s.wakeBacklog(name)
	}
}

// note records how many deliveries wait in queues after some were handed over to them.
func (r *rooms) note(handed map[string]int, lengths map[string]int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, length := range lengths {
		q := r.rooms[name]
		if q == nil {
			free := r.bound(name, 0) - length
			if free > length && handed[name] < firstRoom {
				continue
			}
			q = &room{used: clock.Now(), left: r.share(free)}
			r.rooms[name] = q
		}
		q.used = clock.Now()
		q.left = min(q.left, max(r.bound(name, q.rate)-length-q.reserved, 0))
	}
}

// told is called when the workers of a queue say that it has room again.
func (r *rooms) told(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q := r.rooms[name]; q != nil {
		q.asked = time.Time{}
	}
}

// askFor looks at the queues of a backlog that seem to have no room, unless it did so a moment ago.
func (r *rooms) askFor(ctx context.Context, backlog []string) error {
	if len(backlog) == 0 {
		return nil
	}
	r.asking.Lock()
	defer r.asking.Unlock()
	if err := r.checkForeign(ctx, backlog); err != nil {
		return err
	}
	levels := r.toAsk(backlog)
	if len(levels) == 0 {
		return nil
	}
	looks, err := r.s.o.Queues.AwaitRoom(ctx, levels)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, look := range looks {
		q := r.rooms[name]
		q.measure(look)
		q.left = r.share(r.bound(name, q.rate) - look.Waiting - q.reserved)
	}
	return nil
}

// toAsk returns the queues of a backlog to look at, and the number of waiting deliveries below which their workers are to
// tell.
func (r *rooms) toAsk(backlog []string) map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	levels := make(map[string]int)
	for _, name := range backlog {
		q := r.rooms[name]
		if q == nil {
			q = &room{used: clock.Now()}
			r.rooms[name] = q
		}
		bound := r.bound(name, q.rate)
		if bound == 0 {
			q.left = 0
		} else if q.left == 0 && clock.Since(q.asked) >= r.s.pace.askRoom {
			q.asked = clock.Now()
			levels[name] = bound / 2
		}
	}
	return levels
}

// measure updates the rate of a queue.
func (q *room) measure(look queue.Look) {
	now := clock.Now()
	if passed := now.Sub(q.measured); passed >= rateWindow {
		if !q.measured.IsZero() {
			q.rate = float64(max(look.Ended-q.ended, 0)) / passed.Seconds()
		}
		q.ended, q.measured = look.Ended, now
	}
}

// checkForeign reads the slots of asynq's own servers, if no worker of DTS serves some queue of a backlog.
func (r *rooms) checkForeign(ctx context.Context, backlog []string) error {
	r.mu.Lock()
	due := clock.Since(r.checked) >= foreignInterval && slices.ContainsFunc(backlog, func(name string) bool { return r.bound(name, 0) == 0 || r.foreign[name] > 0 })
	r.mu.Unlock()
	if !due {
		return nil
	}
	slots, err := r.s.o.Queues.Slots(ctx)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.foreign, r.checked = slots, clock.Now()
	return nil
}

// unserved separates deliveries of queues that no living worker serves.
func (r *rooms) unserved(deliveries []task.Delivery) (served, unserved []task.Delivery) {
	r.mu.Lock()
	defer r.mu.Unlock()
	serves := make(map[string]bool)
	for _, d := range deliveries {
		yes, known := serves[d.Queue]
		if !known {
			yes = r.bound(d.Queue, 0) > 0
			serves[d.Queue] = yes
		}
		if yes {
			served = append(served, d)
		} else {
			unserved = append(unserved, d)
		}
	}
	return served, unserved
}
