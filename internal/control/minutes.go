package control

import (
	"context"
	"log/slog"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/rollup"
	"github.com/dts-sched/dts/internal/store/minutes"
)

const (
	// sampleAfter is how long after the end of a minute the leader looks at what waits. Nodes have written their
	// rows then.
	sampleAfter = 2 * time.Second
	// sampleWithin is until when after its end a minute gets what waits then.
	sampleWithin = 30 * time.Second
	minutesRetry = 5 * time.Second  // after which closing minutes is tried again
	minutesLimit = 10 * time.Second // of one round
)

// keepMinutes looks once a minute at what waits and runs, and closes the minutes and hours that are over, until
// ctx ends. One node does it for all. Two at the same time do no harm: both write the same, and the first one
// holds.
func (c *Control) keepMinutes(ctx context.Context) {
	k := minuteKeeper{c: c}
	for ctx.Err() == nil {
		_ = clock.Sleep(ctx, k.round(ctx))
	}
}

// minuteKeeper is what a leader remembers from one minute to the next. It may know nothing.
type minuteKeeper struct {
	c       *Control
	from    time.Time // minutes before it are closed
	sampled time.Time // the newest minute of which it is known what waited at its end
	hour    time.Time // in which hours were closed last
	failing bool
}

// round does what is to be done now, and returns how long to wait for the next round.
func (k *minuteKeeper) round(ctx context.Context) time.Duration {
	now := k.c.redisNow()
	if now.IsZero() {
		return minutesRetry
	}
	limited, cancel := context.WithTimeout(ctx, minutesLimit)
	defer cancel()
	err := k.sample(limited, now)
	if err == nil {
		err = k.close(limited, now)
	}
	if err != nil && !k.failing && ctx.Err() == nil {
		k.c.log.WarnContext(ctx, "cannot keep the counts of the last minutes; trying again", slog.Any("error", err))
	}
	if k.failing = err != nil; k.failing {
		return minutesRetry
	}
	pause := now.Truncate(rollup.Span).Add(rollup.Span + sampleAfter).Sub(k.c.redisNow())
	return min(pause, rollup.Span+sampleAfter) // the clock of Redis may have jumped back meanwhile
}

// sample writes what waits and runs now, at the end of the last minute. Error: CodeUnavailable.
func (k *minuteKeeper) sample(ctx context.Context, now time.Time) error {
	ended := now.Truncate(rollup.Span).Add(-rollup.Span).UTC()
	if k.sampled.Equal(ended) || now.Sub(ended) > rollup.Span+sampleWithin {
		return nil
	}
	seen, err := k.c.standing(ctx, now)
	if err != nil {
		return err
	}
	seen.At = ended
	if len(seen.Queues) > 0 || seen.Running > 0 {
		if err := k.c.store.Minutes.WriteSample(ctx, seen); err != nil {
			return err
		}
	}
	k.sampled = ended
	return nil
}

// close closes what is over. Error: CodeUnavailable.
func (k *minuteKeeper) close(ctx context.Context, now time.Time) error {
	if k.from.After(now) { // the clock of Redis has jumped back
		k.from = time.Time{}
	}
	first, end := minutes.Closable(k.from, now)
	closed, until, err := k.c.store.Minutes.Close(ctx, first, end)
	if err != nil {
		return err
	}
	if hour := until.Truncate(time.Hour); closed || !k.hour.Equal(hour) {
		if err := k.c.store.Minutes.CloseHours(ctx, until, now); err != nil {
			return err
		}
		k.hour = hour
	}
	k.from = until
	return nil
}

// redisNow is the time by the clock of Redis, as heartbeats tell it; zero if they do not.
func (c *Control) redisNow() time.Time {
	if c.beatTime == nil {
		return time.Time{}
	}
	return c.beatTime()
}

// standing returns what waits and what runs at a time, without a time. Error: CodeUnavailable.
func (c *Control) standing(ctx context.Context, now time.Time) (rollup.Minute, error) {
	seen := rollup.Minute{Length: rollup.Span, Queues: map[string]rollup.Queue{}, Sampled: true}
	waiting, err := c.waiting(ctx)
	if err != nil {
		return seen, err
	}
	for name, w := range waiting {
		seen.Queues[name] = rollup.Queue{Waiting: w.number, Oldest: w.age(now)}
	}
	if c.nodes == nil {
		return seen, nil
	}
	for _, n := range c.nodes.View().Nodes {
		if n.State != cluster.StateDead && n.Has(config.RoleWorker) {
			seen.Running, seen.Capacity = seen.Running+n.Running, seen.Capacity+n.Capacity
		}
	}
	return seen, nil
}
