package scheduler

import (
	"context"

	"github.com/dts-sched/dts/internal/clock"
)

// peek wakes terms, until ctx ends: those that have missed a message, as the counter of wake-ups in their partition has changed; and, to
// delete finished tasks, those whose Redis is almost full. It costs Redis two commands for all partitions that this node leads, or one for
// each of them and of the servers of a cluster.
func (s *Scheduler) peek(ctx context.Context) error {
	seen := make(map[int]string) // by partition led
	for clock.Sleep(ctx, s.pace.peek) == nil {
		led := s.Led()
		if len(led) == 0 {
			continue
		}
		wakes, err := s.o.Store.Partitions.Wakes(ctx, led)
		if err != nil {
			if ctx.Err() == nil {
				s.o.Log.Warn("cannot look for missed wake-ups; trying again", "error", err)
			}
			continue
		}
		for p, count := range wakes {
			if count != seen[p] {
				s.wake(p)
				s.wakeTick(p)
			}
		}
		seen = wakes
		for _, p := range led {
			if s.crowded(ctx, p) {
				signal(s.evictWakes[p])
			}
		}
	}
	return nil
}
