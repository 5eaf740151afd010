package scheduler

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/dts-sched/dts/internal/handover"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// learn tells the planner what the server of a queue has answered. If it answers again, the terms claim and look after
// what waits for it.
func (p *plan) learn(queue string, err error) {
	again := false
	p.tell(func(h *handover.Planner, now time.Time) {
		switch {
		case errors.Is(err, redisx.ErrLate):
			h.ServerFailed(queue, handover.Asked)
		case err != nil:
			h.ServerFailed(queue, handover.Silent)
		default:
			again = h.ServerAnswered(queue, now)
		}
	})
	if again {
		for _, wake := range p.s.lookWakes {
			signal(wake)
		}
	}
}

// handOver enqueues deliveries in asynq. It finishes even if ctx ends meanwhile. In a cluster, it does not wait for a
// server that is silent: the deliveries for that have the error redisx.ErrLate. Those that are handed over later
// nevertheless are there when they are looked after.
func (p *plan) handOver(ctx context.Context, deliveries []task.Delivery) queue.Handed {
	ctx = context.WithoutCancel(ctx)
	if !p.s.o.DB.Sharded() {
		return p.enqueue(ctx, deliveries)
	}
	handed := queue.NewHanded(len(deliveries))
	var open, away []int
	p.tell(func(h *handover.Planner, _ time.Time) {
		for i, d := range deliveries {
			switch h.Server(d.Via()) {
			case handover.Answers:
				open = append(open, i)
			case handover.Silent:
				away = append(away, i)
			case handover.Asked:
				handed.Failures[i] = redisx.ErrLate
			}
		}
	})
	p.enqueueAt(ctx, &p.probes, deliveries, away, handed)
	p.enqueueAt(ctx, &p.errands, deliveries, open, handed)
	return handed
}

// enqueue enqueues deliveries in asynq within dispatchBudget.
func (p *plan) enqueue(ctx context.Context, deliveries []task.Delivery) queue.Handed {
	ctx, cancel := context.WithTimeout(ctx, dispatchBudget)
	defer cancel()
	return p.s.o.Queues.HandOver(ctx, deliveries, p.choose)
}

// part is one delivery of those that were handed over together.
type part struct {
	queue.Handed
	place int
}

// enqueueAt enqueues those of the deliveries that have the places, and adds what comes of it to handed.
func (p *plan) enqueueAt(
	ctx context.Context, e *redisx.Errands, deliveries []task.Delivery, places []int, handed queue.Handed,
) {
	some := redisx.Pick(deliveries, places)
	queues := make([]string, len(some))
	for k, d := range some {
		queues[k] = d.Via()
	}
	results := callEach(ctx, p, e, queues, func(of []int) []redisx.Result[part] {
		h := p.enqueue(ctx, redisx.Pick(some, of))
		parts := make([]redisx.Result[part], len(of))
		for k := range parts {
			parts[k] = redisx.Result[part]{Reply: part{h, k}, Err: h.Failures[k]}
		}
		return parts
	})
	for k, r := range results {
		i := places[k]
		if handed.Failures[i] = r.Err; r.Err != nil {
			continue // there may be no reply
		}
		handed.At[i] = r.Reply.At[r.Reply.place]
		maps.Copy(handed.Lengths, r.Reply.Lengths)
		if end, ended := r.Reply.Ended[r.Reply.place]; ended {
			handed.Ended[i] = end
		}
	}
}

// callEach makes calls about queues at their servers, and learns which of these answer.
func callEach[R any](
	ctx context.Context, p *plan, e *redisx.Errands, queues []string, do func(places []int) []redisx.Result[R],
) []redisx.Result[R] {
	keys := make([]string, len(queues))
	for i, name := range queues {
		keys[i] = p.s.o.Queues.Key(name)
	}
	results := redisx.CallEach(ctx, e, redisx.Calls[R]{
		Keys: keys, Do: do,
		Late:  func(i int) { p.learn(queues[i], redisx.ErrLate) },
		After: func(i int, r redisx.Result[R]) { p.learn(queues[i], r.Err) },
	})
	for i, r := range results {
		if !errors.Is(r.Err, redisx.ErrLate) {
			p.learn(queues[i], r.Err)
		}
	}
	return results
}

// lookAt looks at queues, as queue.AwaitRoom does. It does not wait for a server that is silent, and not at all for one
// that was when it was asked last. Error: those of the queues that it leaves out, joined.
func (p *plan) lookAt(ctx context.Context, levels map[string]int) (map[string]handover.Look, error) {
	if !p.s.o.DB.Sharded() {
		return p.s.o.Queues.AwaitRoom(ctx, levels)
	}
	var open, away []string
	p.tell(func(h *handover.Planner, _ time.Time) {
		for name := range levels {
			if h.Server(name) == handover.Answers {
				open = append(open, name)
			} else {
				away = append(away, name)
			}
		}
	})
	looks := make(map[string]handover.Look, len(levels))
	errAway := p.lookEach(ctx, &p.probes, away, levels, looks)
	return looks, errors.Join(errAway, p.lookEach(ctx, &p.errands, open, levels, looks))
}

// lookEach is lookAt for some of the queues.
func (p *plan) lookEach(
	ctx context.Context, e *redisx.Errands, names []string, levels map[string]int, looks map[string]handover.Look,
) error {
	results := callEach(ctx, p, e, names, func(places []int) []redisx.Result[handover.Look] {
		return p.await(ctx, redisx.Pick(names, places), levels)
	})
	var failures []error
	for i, r := range results {
		if r.Err == nil {
			looks[names[i]] = r.Reply
		} else if !errors.Is(r.Err, redisx.ErrLate) {
			failures = append(failures, r.Err)
		}
	}
	return errors.Join(failures...)
}

// await looks at queues of one server.
func (p *plan) await(ctx context.Context, names []string, levels map[string]int) []redisx.Result[handover.Look] {
	some := make(map[string]int, len(names))
	for _, name := range names {
		some[name] = levels[name]
	}
	looks, err := p.s.o.Queues.AwaitRoom(ctx, some)
	results := make([]redisx.Result[handover.Look], len(names))
	for i, name := range names {
		look, ok := looks[name]
		if results[i].Reply = look; !ok {
			results[i].Err = err
		}
	}
	return results
}

// readSlots reads the slots of asynq's own servers, also if they were read a moment ago. Errors: as of readForeign.
func (p *plan) readSlots(ctx context.Context, lanes []handover.Lane) error {
	learn := func(r redisx.Result[map[string]int]) {
		p.tell(func(h *handover.Planner, now time.Time) {
			if r.Err != nil {
				h.ForeignFailed(errors.Is(r.Err, redisx.ErrLate), now)
			} else {
				h.ForeignRead(lanes, r.Reply, now)
			}
		})
	}
	read := redisx.CallEach(ctx, &p.errands, redisx.Calls[map[string]int]{
		Keys: []string{string(lua.AsynqServers)},
		Do: func([]int) []redisx.Result[map[string]int] {
			slots, err := p.s.o.Queues.ForeignSlots(ctx)
			return []redisx.Result[map[string]int]{{Reply: slots, Err: err}}
		},
		Late:  func(int) { learn(redisx.Result[map[string]int]{Err: redisx.ErrLate}) },
		After: func(_ int, r redisx.Result[map[string]int]) { learn(r) },
	})[0]
	if !errors.Is(read.Err, redisx.ErrLate) {
		learn(read)
	}
	return read.Err
}

// wait waits for calls to servers that are silent. No term calls any more.
func (p *plan) wait() {
	p.errands.Wait()
	p.probes.Wait()
	p.s.o.Queues.Wait()
}
