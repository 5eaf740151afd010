package control

import (
	"context"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/clock"
)

const (
	pausedLifetime = time.Second // for which it is used whether a queue is paused
	pausedLimit    = 1000        // queues of which that is known
)

// pausedQueues knows which queues are paused, so that a list of tasks does not ask Redis for each.
type pausedQueues struct {
	mu    sync.Mutex
	known map[string]pausedQueue
}

type pausedQueue struct {
	paused bool
	readAt time.Time
}

// is reports whether a queue is paused; false if that cannot be read.
func (p *pausedQueues) is(ctx context.Context, queue string, read func(context.Context, string) (bool, error)) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if q, known := p.known[queue]; known && clock.Since(q.readAt) < pausedLifetime {
		return q.paused
	}
	paused, err := read(ctx, queue)
	if err != nil {
		return false
	}
	if p.known == nil || len(p.known) >= pausedLimit {
		p.known = make(map[string]pausedQueue)
	}
	p.known[queue] = pausedQueue{paused, clock.Now()}
	return paused
}

// forget has a queue read again.
func (p *pausedQueues) forget(queue string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.known, queue)
}
