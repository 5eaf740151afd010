package scheduler

import (
	"context"

	"github.com/dts-sched/dts/internal/clock"
)

// peek wakes terms, until ctx ends: those that have missed a message, as the counter of wake-ups in their partition has changed; and, to
// delete finished tasks, those whose Redis is almost full. It costs Redis two commands for all partitions that this node leads, or one for
// each of them and of the servers of a cluster. While a server is silent, the partitions of the others are looked at in
// time.
func (s *Scheduler) peek(ctx context.Context) error {
	seen := make([]string, len(s.leases)) // by partition
	pause := s.pace.peek
	for clock.Sleep(ctx, pause) == nil {
		start := clock.Now()
		err := s.o.Store.Partitions.WakeCounts(ctx, s.Led(), func(counts map[int]string) { s.compare(ctx, counts, seen) })
		if err != nil && ctx.Err() == nil {
			s.o.Log.Warn("cannot look for missed wake-ups; trying again", "error", err)
		}
		pause = max(s.pace.peek-clock.Since(start), s.pace.peek/10)
	}
	return nil
}

// compare wakes the terms of partitions of one server, as peek does. It sets what was seen of them to what the counters are now.
func (s *Scheduler) compare(ctx context.Context, wakes map[int]string, seen []string) {
	for p, count := range wakes {
		if count != seen[p] {
			s.wake(p)
			s.wakeTick(p)
		}
		seen[p] = count
	}
	for p := range wakes {
		if s.crowded(ctx, p) {
			signal(s.evictWakes[p])
		}
	}
}
