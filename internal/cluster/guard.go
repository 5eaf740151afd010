package cluster

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/clock"
)

// ErrCutOff is why a context of Registry.Guard ended when the node could not beat, or left.
var ErrCutOff = errors.New("this node could not beat: others may count it as dead")

// guard keeps a context, the current generation, that is alive while others must count this node as
// living. Once it has ended, only a new beat makes another one.
type guard struct {
	span time.Duration // how long a beat is trusted, from its start

	mu         sync.Mutex
	generation context.Context
	end        context.CancelCauseFunc
	until      time.Time
	deadline   *time.Timer
}

func newGuard(span time.Duration) *guard {
	g := &guard{span: span, deadline: time.NewTimer(0)}
	g.generation, g.end = context.WithCancelCause(context.Background())
	g.end(ErrCutOff)
	return g
}

// extend tells of a beat that was begun at start and has succeeded. If the trust in the beat before ended
// in the meantime, so does its generation, even if its timer has not fired yet: that happens when the
// whole process was stopped for a while.
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

// watch derives a context from ctx that ends with the current generation as well.
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
