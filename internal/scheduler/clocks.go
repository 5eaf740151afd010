package scheduler

import (
	"context"
	"time"

	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/telemetry"
)

// newContact returns the contact of this node.
func (s *Scheduler) newContact(lease time.Duration) *contact {
	return &contact{lease: lease, sharded: s.o.Store.Vital.Sharded(), known: make(map[int]*witness), probe: s.probe, jumped: s.clockJumped}
}

// probe probes Redis, and passes on what it answers. Who hears nothing notices.
func (s *Scheduler) probe(ctx context.Context, observe func(partition int, r reading)) {
	s.o.Store.Probe(ctx, func(p int, a layout.Answer) { observe(p, reading{a.Time, a.Asked, a.Got}) })
}

// clockJumped has everything looked at again that waits for a time of Redis whose clock has jumped.
func (s *Scheduler) clockJumped(partition int, by time.Duration) {
	direction := telemetry.JumpAhead
	if by < 0 {
		direction = telemetry.JumpBack
	}
	s.o.Metrics.ClockJumps.WithLabelValues(direction).Inc()
	s.o.Log.Error("the clock of Redis jumped: have NTP slew the clocks of its hosts and its replicas' hosts, and not step them",
		"direction", direction, "by", by.Abs().Round(time.Millisecond), "partition", partition)
	for p := range s.leases {
		s.wake(p)
		s.wakeTick(p)
		signal(s.lookWakes[p])
	}
	signal(s.freed)
}
