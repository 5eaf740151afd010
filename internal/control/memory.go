package control

import (
	"context"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/task"
)

const (
	memoryLimit    = 0.9         // share of Redis's maxmemory above which new work is refused
	memoryLifetime = time.Second // how long a reading of Redis's memory is used
)

// memoryGuard refuses new work while Redis is nearly full: once Redis is full, workers cannot report and nothing drains.
type memoryGuard struct {
	read func(context.Context) (used, limit int64, err error) // bytes; limit 0: none

	mu     sync.Mutex
	readAt time.Time
	full   bool
}

// check returns CodeUnavailable while Redis is nearly full. If the memory cannot be read, it returns nil: the write that
// follows fails by itself then.
func (g *memoryGuard) check(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.readAt.IsZero() || clock.Since(g.readAt) > memoryLifetime {
		used, limit, err := g.read(ctx)
		g.readAt = clock.Now()
		g.full = err == nil && limit > 0 && float64(used) > memoryLimit*float64(limit)
	}
	if g.full {
		return task.Errorf(task.CodeUnavailable,
			"Redis uses more than %.0f %% of its maxmemory: new work is refused until memory is free", memoryLimit*100)
	}
	return nil
}
