package control

import (
	"context"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/fresh"
	"github.com/dts-sched/dts/internal/task"
)

const (
	redisClockLifetime = 2 * time.Second // after which the clock of Redis is read again
	redisClockTimeout  = time.Second     // of reading it
)

// redisClockRules: all callers wait for the first reading, and one for each later one.
var redisClockRules = fresh.Rules{Lifetime: redisClockLifetime, Limit: redisClockTimeout, Tolerate: fresh.Always}

// redisClock is the clock of Redis: a reading of it, and the time that has passed since.
type redisClock struct{ fresh.Value[clockReading] }

type clockReading struct {
	at   time.Time // by the clock of Redis
	seen time.Time // when the answer came, by the clock of this process
}

// now returns the time. A reading that fails leaves the one before it; as long as there is none, the time is that of
// this process.
func (r *redisClock) now(ctx context.Context, read func(context.Context) (time.Time, error)) time.Time {
	last, _ := r.Get(ctx, redisClockRules, func(ctx context.Context) (clockReading, error) {
		at, err := read(ctx)
		return clockReading{at, clock.Now()}, err
	})
	if last.at.IsZero() {
		return clock.Now()
	}
	return last.at.Add(clock.Since(last.seen))
}

// Now is the present time by Redis's clock, as far as this process knows it. It reads no data.
func (c *Control) Now(ctx context.Context) time.Time { return c.now(ctx, task.Ref{}) }

// now is the time by Redis's clock, as far as this process can tell. Where no heartbeat tells it, the server of the partition of ref is asked, which
// the caller is about to call anyway.
func (c *Control) now(ctx context.Context, ref task.Ref) time.Time {
	if c.beatTime != nil {
		if now := c.beatTime(); !now.IsZero() {
			return now
		}
	}
	return c.clock.now(ctx, func(ctx context.Context) (time.Time, error) { return c.store.Now(ctx, c.store.PartitionOf(ref)) })
}
