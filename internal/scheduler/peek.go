package scheduler

import (
	"context"

	"github.com/dts-sched/dts/internal/clock"
)

// peek wakes terms that have missed a message, until ctx ends: those of partitions in which the counter of wake-ups has changed. It
// costs Redis one command for all partitions that this node leads, or one for each in a cluster.
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
	}
	return nil
}
