package calls

import (
	"context"
	"sync/atomic"
)

// Runners run functions, each in a goroutine of its own, as go does. The goroutines stay for the next ones: the stack
// of a new goroutine has to grow several times in a long call, which takes about 5 µs.
type Runners struct {
	ctx   context.Context
	limit int64
	next  chan func()  // without a buffer: a function goes only to a goroutine that waits
	idle  atomic.Int64 // goroutines that wait
}

// NewRunners returns runners. At most limit idle goroutines are kept. They end with ctx.
func NewRunners(ctx context.Context, limit int) *Runners {
	return &Runners{ctx: ctx, limit: int64(limit), next: make(chan func())}
}

// Run runs f. It does not wait for its end.
func (r *Runners) Run(f func()) {
	select {
	case r.next <- f:
	default:
		go r.loop(f)
	}
}

func (r *Runners) loop(f func()) {
	for {
		f()
		if r.idle.Add(1) > r.limit {
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
