package worker

import (
	"context"
	"sync/atomic"
)

// idleRunners is how many goroutines wait for the next attempt at most.
const idleRunners = 2 * takeLimit

// runners run functions, each in a goroutine of its own, as go does. The goroutines stay for the next ones: the stack
// of a new goroutine has to grow several times in an attempt, which takes about 5 µs.
type runners struct {
	ctx  context.Context // they go when it ends
	next chan func()     // without a buffer: a function goes only to a goroutine that waits
	idle atomic.Int64    // goroutines that wait
}

func newRunners(ctx context.Context) *runners { return &runners{ctx: ctx, next: make(chan func())} }

// run runs f. It does not wait for its end.
func (r *runners) run(f func()) {
	select {
	case r.next <- f:
	default:
		go r.loop(f)
	}
}

func (r *runners) loop(f func()) {
	for {
		f()
		if r.idle.Add(1) > idleRunners {
			r.idle.Add(-1)
			return
		}
		select {
		case f = <-r.next:
			r.idle.Add(-1)
		case <-r.ctx.Done():
			return
		}
	}
}
