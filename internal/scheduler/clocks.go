package scheduler

import (
	"context"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/lua"
)

// newContact returns the contact of this node.
func (s *Scheduler) newContact(lease time.Duration) *contact {
	return &contact{lease: lease, sharded: s.o.Store.Vital.Sharded(), known: make(map[int]*witness), ask: s.askTimes, jumped: s.clockJumped}
}

// askTimes asks Redis for its time, and passes on what it answers. In a cluster it asks for each partition, whose slot may move; a server that is
// silent does not keep it from hearing the others.
func (s *Scheduler) askTimes(ctx context.Context, observe func(partition int, r reading)) {
	db := s.o.Store.Vital
	if !db.Sharded() {
		start := clock.Now()
		if now, err := db.Time(ctx).Result(); err == nil {
			observe(0, reading{now, start, clock.Now()})
		}
		return
	}
	partitions := make(map[string][]int) // by address
	for p := range s.locks {
		if _, address, err := db.ServerOf(ctx, string(s.o.Store.Partitions.LeaseKey(p))); err == nil {
			partitions[address] = append(partitions[address], p)
		}
	}
	var asking sync.WaitGroup
	for _, some := range partitions {
		asking.Go(func() {
			calls := make([]lua.ReadTime, len(some))
			for i, p := range some {
				calls[i].Lease = s.o.Store.Partitions.LeaseKey(p)
			}
			start := clock.Now()
			results := redisx.RunEach[lua.ReadTimeReply](ctx, db, calls)
			got := clock.Now()
			for i, r := range results {
				if r.Err == nil {
					observe(some[i], reading{r.Reply.Now, start, got})
				}
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
