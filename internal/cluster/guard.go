package cluster

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/clock"
)

// ErrCutOff is the cause of a context of Registry.Guard if the node could not send heartbeats, or left the list.
var ErrCutOff = errors.New("this node could not send heartbeats; other nodes may count it as dead")

// guard holds a context, the current generation, that ends before other nodes may count this node as dead. Once
// it has ended, the next successful heartbeat starts a new generation.
type guard struct {
	span time.Duration // how long a heartbeat is trusted, from its start

	mu         sync.Mutex
	generation context.Context
	end        context.CancelCauseFunc // ends generation
	until      time.Time               // when the trust ends
	deadline   *time.Timer             // calls end at until
}

func newGuard(span time.Duration) *guard {
	g := &guard{span: span, deadline: time.NewTimer(0)}
	g.generation, g.end = context.WithCancelCause(context.Background())
	g.end(ErrCutOff)
	return g
}

// extend records a successful heartbeat that began at start. If the trust in the previous heartbeat ended in the
// meantime, extend ends that generation and starts a new one, even if the timer has not fired yet: after the
// whole process was stopped for a while, a heartbeat may precede the timer.
func (g *guard) extend(start time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.deadline.Stop()
	if clock.Now().After(g.until) {
		g.end(ErrCutOff)
	}
	if g.generation.Err() != nil {
		g.generation, g.end = context.WithCancelCause(context.Background())
	}
	g.until = start.Add(g.span)
	end := g.end
	g.deadline = time.AfterFunc(g.span-clock.Since(start), func() { end(ErrCutOff) })
}

// cut ends the current generation.
func (g *guard) cut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.deadline.Stop()
	g.end(ErrCutOff)
}

// watch derives a context from ctx that also ends with the current generation. The returned function ends the
// context and releases its resources.
func (g *guard) watch(ctx context.Context) (context.Context, func()) {
	g.mu.Lock()
	generation := g.generation
	g.mu.Unlock()

	guarded, end := context.WithCancelCause(ctx)
	if generation.Err() != nil {
		end(ErrCutOff)
	}
	detach := context.AfterFunc(generation, func() { end(ErrCutOff) })
	return guarded, func() {
		detach()
		end(context.Canceled)
	}
}
