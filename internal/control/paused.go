package control

import (
	"context"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/fresh"
)

const (
	pausedLifetime = time.Second // for which it is used whether a queue is paused
	pausedLimit    = 1000        // queues of which that is known
)

// pausedQueues knows which queues are paused, so that a list of tasks does not ask Redis for each.
type pausedQueues struct {
	mu    sync.Mutex
	known map[string]*fresh.Value[bool]
}

// is reports whether a queue is paused; false if that is not known.
func (p *pausedQueues) is(ctx context.Context, queue string, read func(context.Context, string) (bool, error)) bool {
	return ifRead(p.of(queue).Get(ctx, latest(pausedLifetime), func(ctx context.Context) (bool, error) {
		return read(ctx, queue)
	}))
}

// of returns what is known of a queue.
func (p *pausedQueues) of(queue string) *fresh.Value[bool] {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.known[queue]; known != nil {
		return known
	}
	if p.known == nil || len(p.known) >= pausedLimit {
		p.known = make(map[string]*fresh.Value[bool])
	}
	p.known[queue] = &fresh.Value[bool]{}
	return p.known[queue]
}

// forget makes the next caller read a queue again. What comes of a reading that is under way is of no use to those who ask from now on.
func (p *pausedQueues) forget(queue string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.known, queue)
}
