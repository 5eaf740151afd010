package scheduler

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// closed is a queue of a cluster whose server did not answer, or refused, when it was asked last. Its tasks wait in their partitions, so that it
// holds up no others.
type closed struct {
	asking bool // and it is being asked again
}

// closedOf returns what is known of the server of a queue, or of a lane, that does not answer; nil if it does. The caller holds the mutex.
func (q *quotas) closedOf(name string) *closed {
	of, _ := lua.SplitLane(name)
	return q.closed[of]
}

// isAsking reports whether the server of a queue, or of a lane, that has not answered is being asked. The caller holds the mutex.
func (q *quotas) isAsking(name string) bool {
	c := q.closedOf(name)
	return c != nil && c.asking
}

// reachable returns those of the deliveries whose queues are on servers that answer.
func (q *quotas) reachable(deliveries []task.Delivery) []task.Delivery {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(deliveries), func(d task.Delivery) bool { return q.closed[d.Queue] != nil })
}

// close records that the server of a queue has not answered, or not yet: asking.
func (q *quotas) close(name string, asking bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed[name] = &closed{asking: asking}
	q.flow(name) // so that a claim has a quota for it
}

// learn records what the server of a queue has answered. If it does again, the terms claim and look after what waits for it.
func (q *quotas) learn(name string, err error) {
	if err != nil {
		q.close(name, errors.Is(err, redisx.ErrLate))
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed[name] == nil {
		return
	}
	delete(q.closed, name)
	q.forgetAsked(name)
	for _, wake := range q.s.lookWakes {
		signal(wake)
	}
}

// handOver enqueues deliveries in asynq. It finishes even if ctx ends meanwhile. In a cluster, it does not wait for a server that is silent: the
// deliveries for that have the error redisx.ErrLate, and those that are handed over nevertheless, later, are there when they are looked after.
func (q *quotas) handOver(ctx context.Context, deliveries []task.Delivery) queue.Handed {
	ctx = context.WithoutCancel(ctx)
	if !q.s.o.DB.Sharded() {
		return q.enqueue(ctx, deliveries)
	}
	handed := queue.NewHanded(len(deliveries))
	var open, away []int
	q.mu.Lock()
	for i, d := range deliveries {
		switch c := q.closed[d.Queue]; {
		case c == nil:
			open = append(open, i)
		case c.asking:
			handed.Failures[i] = redisx.ErrLate
		default:
			away = append(away, i)
		}
	}
	q.mu.Unlock()
	q.enqueueAt(ctx, &q.probes, deliveries, away, handed)
	q.enqueueAt(ctx, &q.errands, deliveries, open, handed)
	return handed
}

// enqueue enqueues deliveries in asynq within dispatchBudget.
func (q *quotas) enqueue(ctx context.Context, deliveries []task.Delivery) queue.Handed {
	ctx, cancel := context.WithTimeout(ctx, dispatchBudget)
	defer cancel()
	return q.s.o.Queues.HandOver(ctx, deliveries, q.choose)
}

// part is one delivery of those that were handed over together.
type part struct {
	queue.Handed
	place int
}

// enqueueAt enqueues those of the deliveries that have the places, and adds what comes of it to handed.
func (q *quotas) enqueueAt(ctx context.Context, e *redisx.Errands, deliveries []task.Delivery, places []int, handed queue.Handed) {
	some := redisx.Pick(deliveries, places)
	keys := make([]string, len(some))
	for k, d := range some {
		keys[k] = q.s.o.Queues.Key(d.Queue)
	}
	results := redisx.CallEach(ctx, e, redisx.Calls[part]{
		Keys: keys,
		Do: func(of []int) []redisx.Result[part] {
			h := q.enqueue(ctx, redisx.Pick(some, of))
			parts := make([]redisx.Result[part], len(of))
			for k := range parts {
				parts[k] = redisx.Result[part]{Reply: part{h, k}, Err: h.Failures[k]}
			}
			return parts
		},
		Late:  func(k int) { q.close(some[k].Queue, true) },
		After: func(k int, r redisx.Result[part]) { q.learn(some[k].Queue, r.Err) },
	})
	for k, r := range results {
		i := places[k]
		if handed.Failures[i] = r.Err; errors.Is(r.Err, redisx.ErrLate) {
			continue
		}
		if q.learn(some[k].Queue, r.Err); r.Err != nil {
			continue // there may be no reply
		}
		handed.At[i] = r.Reply.At[r.Reply.place]
		maps.Copy(handed.Lengths, r.Reply.Lengths)
		if end, ended := r.Reply.Ended[r.Reply.place]; ended {
			handed.Ended[i] = end
		}
	}
}

// lookAt looks at queues, as queue.AwaitRoom does. It does not wait for a server that is silent, and not at all for one that was when it was asked
// last. Error: those of the queues that it leaves out, joined.
func (q *quotas) lookAt(ctx context.Context, levels map[string]int) (map[string]queue.Look, error) {
	if !q.s.o.DB.Sharded() {
		return q.s.o.Queues.AwaitRoom(ctx, levels)
	}
	var open, away []string
	q.mu.Lock()
	for name := range levels {
		if q.closed[name] == nil {
			open = append(open, name)
		} else {
			away = append(away, name)
		}
	}
	q.mu.Unlock()
	looks := make(map[string]queue.Look, len(levels))
	return looks, errors.Join(q.lookEach(ctx, &q.probes, away, levels, looks), q.lookEach(ctx, &q.errands, open, levels, looks))
}

// lookEach is lookAt for some of the queues.
func (q *quotas) lookEach(ctx context.Context, e *redisx.Errands, names []string, levels map[string]int, looks map[string]queue.Look) error {
	keys := make([]string, len(names))
	for i, name := range names {
		keys[i] = q.s.o.Queues.Key(name)
	}
	results := redisx.CallEach(ctx, e, redisx.Calls[queue.Look]{
		Keys: keys,
		Do: func(places []int) []redisx.Result[queue.Look] {
			return q.await(ctx, redisx.Pick(names, places), levels)
		},
		Late:  func(i int) { q.close(names[i], true) },
		After: func(i int, r redisx.Result[queue.Look]) { q.learn(names[i], r.Err) },
	})
	var failures []error
	for i, r := range results {
		switch {
		case r.Err == nil:
			looks[names[i]] = r.Reply
			q.learn(names[i], nil)
		case !errors.Is(r.Err, redisx.ErrLate):
			failures = append(failures, r.Err)
			q.learn(names[i], r.Err)
		}
	}
	return errors.Join(failures...)
}

// await looks at queues of one server.
func (q *quotas) await(ctx context.Context, names []string, levels map[string]int) []redisx.Result[queue.Look] {
	some := make(map[string]int, len(names))
	for _, name := range names {
		some[name] = levels[name]
	}
	looks, err := q.s.o.Queues.AwaitRoom(ctx, some)
	results := make([]redisx.Result[queue.Look], len(names))
	for i, name := range names {
		look, ok := looks[name]
		if results[i].Reply = look; !ok {
			results[i].Err = err
		}
	}
	return results
}

// readSlots reads the slots of asynq's own servers, also if they were read a moment ago. Errors: as of readForeign.
func (q *quotas) readSlots(ctx context.Context, names []string) error {
	read := redisx.CallEach(ctx, &q.errands, redisx.Calls[map[string]int]{
		Keys: []string{string(lua.AsynqServers)},
		Do: func([]int) []redisx.Result[map[string]int] {
			slots, err := q.s.o.Queues.ForeignSlots(ctx)
			return []redisx.Result[map[string]int]{{Reply: slots, Err: err}}
		},
		Late:  func(int) { q.learnForeign(names, redisx.Result[map[string]int]{Err: redisx.ErrLate}) },
		After: func(_ int, r redisx.Result[map[string]int]) { q.learnForeign(names, r) },
	})[0]
	if !errors.Is(read.Err, redisx.ErrLate) {
		q.learnForeign(names, read)
	}
	return read.Err
}

// learnForeign records the slots of asynq's own servers that were read for those queues.
func (q *quotas) learnForeign(names []string, read redisx.Result[map[string]int]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	before := q.slots.served()
	q.slots.setForeign(names, read.Reply, read.Err)
	if q.slots.served() != before {
		q.wakeApart()
	}
}

// wait waits for calls to servers that are silent. No term calls any more.
func (q *quotas) wait() {
	q.errands.Wait()
	q.probes.Wait()
	q.s.o.Queues.Wait()
}
