package scheduler

import (
	"context"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/clock"
)

// contact knows for how long Redis has answered this node without a break. A leader takes runs for lost only if that was at least for the
// lease of a run: before, their workers may have been unable to extend them as well.
type contact struct {
	ping  func(context.Context) error
	lease time.Duration // of a run

	mu    sync.Mutex
	first time.Time // answer after the newest break; the zero time if there was none
	last  time.Time // answer
}

// run asks Redis three times in the lease of a run, until ctx ends.
func (c *contact) run(ctx context.Context) error {
	interval := c.lease / 3
	for ctx.Err() == nil {
		start := clock.Now()
		call, cancel := context.WithTimeout(ctx, interval)
		if c.ping(call) == nil {
			c.answered()
		}
		cancel()
		_ = clock.Sleep(ctx, max(interval-clock.Since(start), interval/10))
	}
	return nil
}

func (c *contact) answered() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := clock.Now()
	if c.broken(now) {
		c.first = now
	}
	c.last = now
}

// broken reports whether there was no answer for so long that runs may have missed their extensions.
func (c *contact) broken(now time.Time) bool {
	return c.last.IsZero() || now.Sub(c.last) > c.lease*2/3
}

// missing returns for how long Redis must still answer until runs may be taken for lost; 0 or less: not any more.
func (c *contact) missing() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := clock.Now()
	if c.broken(now) {
		return c.lease
	}
	return c.lease - now.Sub(c.first)
}
