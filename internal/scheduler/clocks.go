package scheduler

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
)

// newContact returns the contact of this node.
func (s *Scheduler) newContact(lease time.Duration) *contact {
	return &contact{lease: lease, sharded: s.o.Store.Vital.Sharded(), known: make(map[int]*witness), ask: s.askTimes, jumped: s.clockJumped}
}

// askTimes asks the servers that hold partitions for their time, and passes on what they answer.
func (s *Scheduler) askTimes(ctx context.Context, observe func(partition int, r reading)) {
	partitions, servers := make(map[string][]int), make(map[string]redis.Cmdable) // by address
	for p := range s.locks {
		server, address, err := s.o.Store.Vital.ServerOf(ctx, string(s.o.Store.Partitions.LeaseKey(p)))
		if err == nil {
			partitions[address], servers[address] = append(partitions[address], p), server
		}
	}
	var asking sync.WaitGroup
	for address, server := range servers {
		asking.Go(func() {
			start := clock.Now()
			now, err := server.Time(ctx).Result()
			got := clock.Now()
			if err != nil {
				return
			}
			for _, p := range partitions[address] {
				observe(p, reading{now, start, got})
			}
		})
	}
	asking.Wait()
}

// clockJumped has everything looked at again that waits for a time of Redis whose clock has jumped.
func (s *Scheduler) clockJumped(partition int, by time.Duration) {
	direction := "ahead"
	if by < 0 {
		direction = "back"
	}
	s.o.Metrics.ClockJumps.WithLabelValues(direction).Inc()
	s.o.Log.Error("the clock of Redis jumped: set its clock by NTP that slews, and those of its replicas alike",
		"direction", direction, "by", by.Abs().Round(time.Millisecond), "partition", partition)
	for p := range s.locks {
		s.wake(p)
		s.wakeTick(p)
		signal(s.lookWakes[p])
	}
	signal(s.freed)
}
