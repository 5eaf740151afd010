package worker

import (
	"context"
	"slices"

	"github.com/dts-sched/dts/internal/calls"
	"github.com/dts-sched/dts/internal/queue"
)

// takeLimit is the number of deliveries that a pool takes at once. Redis does nothing else while it hands them over.
const takeLimit = 64

// idleRunners is how many goroutines wait for the next attempt at most.
const idleRunners = 2 * takeLimit

// take takes as many deliveries as there are free slots, and some ahead of these, whenever a queue holds any, until ctx
// ends.
func (w *Worker) take(ctx, work context.Context, p *pool) {
	defer p.consumer.SetBusy(work) // from now on the other workers are woken for what this one is woken for
	all := calls.NewRunners(work, idleRunners)
	for p.consumer.Await(ctx) == nil {
		slots, more, ok := w.reserve(ctx, p)
		if !ok {
			return
		}
		taken := p.consumer.Take(ctx, slots+more)
		w.idle.Add(len(taken))
		now, later, many := split(taken, &slots)
		for _, t := range now {
			all.Run(func() { w.serve(work, p, t) })
		}
		if len(many) > 0 { // they would take what becomes free for it
			for _, t := range later {
				w.refuse(p, t, queue.ErrGiveBack)
			}
			later = nil
		}
		p.ahead.add(len(later))
		for _, t := range later {
			all.Run(func() { w.serveLater(work, p, t) })
		}
		if len(many) == 0 {
			w.free(p, slots)
			continue
		}
		for _, t := range many[1:] { // until the first one has its slots, a leader may take them back
			w.refuse(p, t, queue.ErrGiveBack)
		}
		if w.gather(ctx, p, many[0], slots) {
			all.Run(func() { w.serve(work, p, many[0]) })
		}
	}
}

// split divides deliveries into those for which there are slots, those that wait for one, and those that wait for
// several. Those of several slots come first, and leave none to others while one of them waits. It takes those that are
// used from slots.
func split(taken []*queue.Taken, slots *int) (now, later, many []*queue.Taken) {
	isLarge := func(t *queue.Taken) bool { return t.Slots > 1 }
	if slices.ContainsFunc(taken, isLarge) {
		isSmall := func(t *queue.Taken) bool { return !isLarge(t) }
		large, small := slices.DeleteFunc(slices.Clone(taken), isSmall), slices.DeleteFunc(slices.Clone(taken), isLarge)
		taken = slices.Concat(large, small)
	}
	for _, t := range taken {
		switch {
		case len(many) == 0 && t.Slots <= *slots:
			now, *slots = append(now, t), *slots-t.Slots
		case t.Slots == 1:
			later = append(later, t)
		default:
			many = append(many, t)
		}
	}
	return now, later, many
}

// free frees slots of the pool and of the worker.
func (w *Worker) free(p *pool, slots int) {
	for range slots {
		<-w.slots
		<-p.slots
	}
}

// reserve waits until deliveries may be taken. It returns the number of free slots, all of which it takes, and how many
// more deliveries may be taken ahead: at most takeLimit in all. ok is false, without a slot, if ctx ends.
func (w *Worker) reserve(ctx context.Context, p *pool) (slots, more int, ok bool) {
	slots = w.freeSlots(p, takeLimit)
	for {
		more = min(p.ahead.room(slots), takeLimit-slots)
		if slots > 0 {
			p.consumer.SetFree()
		} else {
			p.consumer.SetBusy(ctx)
		}
		switch {
		case slots+more > 0:
			return slots, more, true
		case w.acquire(ctx, p, p.ahead.fewer):
			slots = 1 + w.freeSlots(p, takeLimit-1)
		case ctx.Err() != nil:
			return 0, 0, false
		}
	}
}

// freeSlots takes free slots, of the pool and of the worker, up to n of them. It returns how many there were.
func (w *Worker) freeSlots(p *pool, n int) (slots int) {
	for ; slots < n; slots++ {
		select {
		case p.slots <- struct{}{}:
		default:
			return slots
		}
		select {
		case w.slots <- struct{}{}:
		default:
			<-p.slots
			return slots
		}
	}
	return slots
}

// acquire waits for a slot of the pool and of the worker, and takes it. It returns false without one if ctx ends, or if
// giveUp is signalled, which may be nil.
func (w *Worker) acquire(ctx context.Context, p *pool, giveUp <-chan struct{}) bool {
	select {
	case p.slots <- struct{}{}:
	case <-giveUp:
		return false
	case <-ctx.Done():
		return false
	}
	select {
	case w.slots <- struct{}{}:
		return true
	case <-giveUp:
	case <-ctx.Done():
	}
	<-p.slots
	return false
}
