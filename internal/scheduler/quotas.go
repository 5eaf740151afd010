package scheduler

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/lua"
)

const (
	// leastAhead is how many deliveries may wait in a queue that is served, however few slots its workers have, and how many
	// tasks of a queue without a backlog a claim may take.
	leastAhead = 16
	// aheadTime is how much of the work of fast workers may wait as well.
	aheadTime = 250 * time.Millisecond
	// silentPause is the time between two looks at what tells no leader that it has room: a queue with a backlog that only asynq's own
	// servers serve, and a lane with a backlog, as workers tell only how many deliveries of all types are left.
	silentPause = 50 * time.Millisecond
)

// quotas decides how many deliveries this node hands over to each of asynq's queues: enough to keep the living workers busy, and
// no more. What is beyond waits in its partition, where it can be counted, changed, cancelled and moved.
//
// Most queues have no backlog, and nothing is known of them here: a claim takes up to leastAhead of their tasks. Of a queue with
// a backlog, quotas knows how many more deliveries it may get, and which partitions have tasks for it. The partitions whose tasks
// have waited longest get what is free.
//
// Deliveries that only some of a queue's living workers run, or none, must not take the room of the others. What is too much of them
// waits in a lane of their type, which quotas treats as a queue of its own (lanes.go).
type quotas struct {
	s *Scheduler

	mu    sync.Mutex
	flows map[string]*flow // by name of a queue or a lane that is served, or was a moment ago
	apart map[int]*apart   // by partition
	slots slots

	closed map[string]*closed // by queue
	warned time.Time          // when warnLeftOut last said that claims are not told of all workers

	asking  sync.Mutex     // is held while Redis is asked, so that one term asks for all
	errands redisx.Errands // to servers of a cluster that may be silent
	probes  redisx.Errands // to those that are, for which nobody waits
}

func newQuotas(s *Scheduler) *quotas {
	return &quotas{
		s: s, flows: make(map[string]*flow), apart: make(map[int]*apart),
		slots: slots{members: s.o.Members}, closed: make(map[string]*closed),
		errands: redisx.Errands{DB: s.o.DB, Patience: redisx.Patience}, probes: redisx.Errands{DB: s.o.DB},
	}
}

// flow returns what is known of a queue. The caller holds the mutex.
func (q *quotas) flow(name string) *flow {
	f := q.flows[name]
	if f == nil {
		f = &flow{oldest: make(map[int]time.Time)}
		q.flows[name] = f
	}
	return f
}

// bound is how many deliveries may wait in a queue, or of a lane: 0 if nobody serves it. f may be nil. The caller holds the mutex.
func (q *quotas) bound(name string, f *flow) int {
	n := q.slots.of(name)
	if n == 0 {
		return 0
	}
	bound := max(n*q.s.o.HandOver, leastAhead)
	if f != nil && clock.Since(f.measured) <= q.s.pace.ask {
		bound = max(bound, int(f.rate*aheadTime.Seconds()))
	}
	return bound
}

// share is the part of what a queue may get that this node may hand over, as other nodes hand over too. The caller holds the
// mutex.
func (q *quotas) share(free int) int {
	nodes := max(min(q.slots.leaders(), len(q.s.leases)), 1)
	return (max(free, 0) + nodes - 1) / nodes
}

// reserve returns what the term of a partition may claim at once. If no task on its wheel is due, ok is false unless some of its
// waiting tasks may be claimed. If ok, the caller calls release afterwards.
func (q *quotas) reserve(ctx context.Context, p int, due bool) (reserved partition.Quotas, ok bool) {
	q.ask(ctx, p)
	q.mu.Lock()
	defer q.mu.Unlock()
	reserved = partition.Quotas{Queues: make(map[string]partition.Quota), Default: leastAhead, Served: q.slots.served()}
	a := q.apartIn(p)
	ok = due || a.due(reserved.Served, clock.Now())
	for name, f := range q.flows {
		quota := f.portion(p)
		if q.closedOf(name) != nil {
			quota = partition.Quota{}
		}
		reserved.Queues[name] = quota
		ok = ok || quota.Number > 0 && f.waits(p)
	}
	if !ok {
		return reserved, false
	}
	a.reserve(&reserved, clock.Now())
	for name, quota := range reserved.Queues {
		f := q.flows[name]
		f.free, f.reserved = f.free-quota.Number, f.reserved+quota.Number
	}
	return reserved, true
}

// outcome is what came of a reservation.
type outcome struct {
	claimed map[string]int    // tasks by name of the quota
	lengths map[string]int    // deliveries that wait now, by queue to which some were handed over
	backlog partition.Backlog // what waits in the partition now; nil if that is not known
	apart   []string          // names that nobody serves
	unnamed string            // as Claimed.Unnamed
}

// release ends a reservation of the term of a partition.
func (q *quotas) release(p int, reserved partition.Quotas, o outcome) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for name, quota := range reserved.Queues {
		f := q.flow(name)
		f.reserved -= quota.Number
		f.free += max(quota.Number-o.claimed[name], 0)
	}
	q.setBacklog(p, o.backlog)
	q.apartIn(p).note(reserved, o, clock.Now())
	q.note(o.lengths)
	for name, quota := range reserved.Queues {
		f := q.flows[name]
		if quota.Number > 0 {
			f.noteRoom(clock.Now())
		}
		if quota.Number > 0 && (f.free > 0 || f.asked.IsZero()) { // it may be the turn of others now
			q.wake(f)
		}
		if len(f.oldest) == 0 && f.reserved == 0 && clock.Since(f.used) > q.s.pace.ask && q.closed[name] == nil {
			delete(q.flows, name)
		}
	}
}

// leave forgets the backlog of a partition that this node does not lead any more.
func (q *quotas) leave(p int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.setBacklog(p, nil)
	delete(q.apart, p)
	for _, f := range q.flows {
		q.wake(f) // the partition may have come before others
	}
}

// setBacklog records what waits in a partition. What a claim finds there without a quota has waited since before: for
// room, or for a worker. The caller holds the mutex.
func (q *quotas) setBacklog(p int, backlog partition.Backlog) {
	for name, f := range q.flows {
		if _, waits := backlog[name]; !waits {
			delete(f.oldest, p)
		}
	}
	for name, at := range backlog {
		f := q.flow(name)
		if at.IsZero() && !f.waits(p) {
			f.fill()
		}
		if !at.IsZero() || !f.waits(p) {
			f.oldest[p] = at
		}
	}
}

// wake has the terms try again that may claim waiting tasks next. The caller holds the mutex.
func (q *quotas) wake(f *flow) {
	for _, p := range f.first() {
		signal(q.s.roomWakes[p])
	}
}

// told is called when the workers of a queue say that it has room again.
func (q *quotas) told(name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.forgetAsked(name)
}

// forgetAsked has the terms ask again for a queue and its lanes. The caller holds the mutex.
func (q *quotas) forgetAsked(name string) {
	for of, f := range q.flows {
		if served, _ := lua.SplitLane(of); served == name {
			f.forgetAsked()
			q.wake(f)
		}
	}
}

// toldAll is called when workers have come or gone.
func (q *quotas) toldAll() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, f := range q.flows {
		f.forgetAsked()
		q.wake(f)
	}
	q.wakeApart()
	q.warnLeftOut()
}

// leftOutPause is the least time between two warnings that claims are not told of all workers by HTTP.
const leftOutPause = time.Minute

// warnLeftOut says that claims are not told of all workers by HTTP. The caller holds the mutex.
func (q *quotas) warnLeftOut() {
	_ = q.slots.served()
	if q.slots.leftOut == 0 || clock.Since(q.warned) < leftOutPause {
		return
	}
	q.warned = clock.Now()
	q.s.o.Log.Warn("workers by HTTP name more queues and types than leaders can tell: tasks that only those with the most names "+
		"serve wait", "workers", q.slots.leftOut, "limit", servedLimit)
}

// note records how many deliveries wait in queues after some were handed over to them. The caller holds the mutex.
func (q *quotas) note(lengths map[string]int) {
	for name, length := range lengths {
		f := q.flows[name]
		if f != nil {
			length -= f.apart
		}
		free := q.share(q.bound(name, f) - length)
		if f == nil {
			if 2*length <= q.bound(name, nil) {
				continue
			}
			f = q.flow(name)
			f.free = free
		}
		f.used = clock.Now()
		f.free = min(f.free, max(free-f.reserved, 0))
		if free <= f.reserved {
			f.fill()
		}
	}
}

// pause returns how long the term of a partition may sleep until it calls reserve again; false if nothing waits in the partition.
func (q *quotas) pause(p int) (time.Duration, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	a := q.apartIn(p)
	pause, waits := q.s.pace.ask, len(a.names) > 0
	if a.unnamed != "" {
		pause, waits = min(pause, unnamedPause), true
	}
	for name, f := range q.flows {
		if f.waits(p) {
			pause, waits = min(pause, q.askPause(name)), true
		}
	}
	return pause, waits
}

// askPause is the time between two looks at a queue with a backlog.
func (q *quotas) askPause(name string) time.Duration {
	_, taskType := lua.SplitLane(name)
	if q.slots.onlyForeign(name) || taskType != "" && q.slots.of(name) > 0 {
		return min(silentPause, q.s.pace.ask)
	}
	return q.s.pace.ask
}

// ask reads from Redis what the queues may get of which tasks wait in a partition, unless that was done a moment ago. Queues
// that it cannot look at get nothing until the next time.
func (q *quotas) ask(ctx context.Context, p int) {
	apart := q.namesApart(p)
	if len(q.backlogOf(p))+len(apart) == 0 { // what others ask for is nothing to wait for
		return
	}
	q.asking.Lock()
	defer q.asking.Unlock()
	names := q.backlogOf(p)
	q.s.warn(ctx, p, "cannot look for asynq's own servers", q.readForeign(ctx, append(apart, names...)))
	asked, levels := q.levels(p, names)
	if len(asked) == 0 {
		return
	}
	looks, err := q.lookAt(ctx, levels)
	q.s.warn(ctx, p, "cannot look for room in queues; their backlog waits", err)
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, name := range asked {
		of, _ := lua.SplitLane(name)
		if look, ok := looks[of]; ok {
			q.evaluate(name, look)
		} else {
			q.flow(name).free = 0
		}
	}
}

// evaluate finds out from a look at its queue what a queue or a lane may get. The caller holds the mutex.
func (q *quotas) evaluate(name string, look queue.Look) {
	f := q.flow(name)
	f.measure(look)
	waiting := look.Waiting
	if _, taskType := lua.SplitLane(name); taskType == "" {
		f.apart = q.closeLanes(name, look.Types)
		waiting -= f.apart
	} else if look.Types != nil {
		waiting = look.Types[taskType]
	}
	f.free = max(q.share(q.bound(name, f)-waiting)-f.reserved, 0)
	f.noteRoom(f.begin())
}

// backlogOf returns the queues for which tasks of a partition wait.
func (q *quotas) backlogOf(p int) []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	var names []string
	for name, f := range q.flows {
		if f.waits(p) {
			names = append(names, name)
		}
	}
	return names
}

// levels returns the queues and lanes to ask for, of those that have tasks in a partition, and for each of their queues the number of
// waiting deliveries at which its workers are to tell.
func (q *quotas) levels(p int, names []string) (asked []string, levels map[string]int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	levels = make(map[string]int)
	for _, name := range names {
		f := q.flow(name)
		bound := q.bound(name, f)
		switch {
		case bound == 0:
			f.free = 0
			f.fill()
		case q.isAsking(name):
		case clock.Since(f.asked) >= q.askPause(name) && slices.Contains(f.first(), p):
			f.asked = clock.Now() // before Redis is asked: word that comes meanwhile makes it zero again
			asked = append(asked, name)
			of, taskType := lua.SplitLane(name)
			if _, known := levels[of]; taskType == "" {
				levels[of] = bound / 2
			} else if !known {
				levels[of] = queue.NoLevel
			}
		}
	}
	return asked, levels
}

// readForeign reads the slots of asynq's own servers if no node serves some of the queues. The caller holds asking. Errors: redisx.ErrLate if
// Redis has not answered yet, else one of Redis; then only what was known before is known.
func (q *quotas) readForeign(ctx context.Context, names []string) error {
	q.mu.Lock()
	read, reading := q.slots.readAgain(names), q.slots.reading
	q.mu.Unlock()
	switch {
	case !read:
		return nil
	case reading:
		return redisx.ErrLate
	}
	return q.readSlots(ctx, names)
}

// choose is queue.Choose: the nodes to wake for deliveries of a queue that was empty.
func (q *quotas) choose(name string, byType map[string]int) []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.slots.choose(name, byType)
}
