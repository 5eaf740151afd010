package scheduler

import (
	"context"
	"errors"
	"hash/fnv"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/lease"
)

const (
	retryAfterError = 500 * time.Millisecond // before a lease is asked for again after Redis failed
	retryMargin     = 10 * time.Millisecond  // a lease is asked for again this long after it should have run out
	releaseTimeout  = 2 * time.Second        // to give a lease back; after that it runs out by itself
)

// balance keeps this node's number of leases at its fair share: the partitions divided by the living scheduler
// nodes. All nodes compute the same shares from the same list, and the shares add up to all partitions, so a
// node under its share takes whatever is free, and one over it gives the surplus back; nobody assigns anything.
func (s *Scheduler) balance(ctx context.Context) error {
	changed, stop := s.o.Members.Watch()
	defer stop()
	b := balancer{s: s, seats: make(map[int]*seat), ended: make(chan struct{}, 1), retry: make([]time.Time, len(s.locks))}
	defer b.releaseAll()
	for ctx.Err() == nil {
		b.dropEnded()
		b.adjust(ctx)
		timer := time.NewTimer(b.untilRetry())
		select {
		case <-ctx.Done():
		case <-changed:
		case <-s.freed:
			b.retryAll()
		case <-b.ended:
		case <-timer.C:
		}
		timer.Stop()
	}
	return nil
}

type balancer struct {
	s     *Scheduler
	seats map[int]*seat // by partition
	ended chan struct{} // signalled when a seat came to an end
	retry []time.Time   // by partition: not to be asked for before
	short bool          // this node leads less than its share
}

// adjust gives back what is over the share and takes what is missing to it.
func (b *balancer) adjust(ctx context.Context) {
	quota := cluster.Quota(b.s.o.Members.View().Alive(config.RoleScheduler), b.s.o.Node, len(b.s.locks))
	if surplus := len(b.seats) - quota; surplus > 0 {
		b.release(b.some(surplus))
	}
	before := len(b.seats)
	for _, p := range b.order() {
		if len(b.seats) >= quota || ctx.Err() != nil {
			break
		}
		if b.seats[p] == nil && !clock.Now().Before(b.retry[p]) {
			b.take(ctx, p)
		}
	}
	b.short = len(b.seats) < quota
	if len(b.seats) != before {
		b.report()
	}
}

func (b *balancer) take(ctx context.Context, p int) {
	held, err := b.s.locks[p].Acquire(context.WithoutCancel(ctx)) // it is given back in good order, not cut off
	var taken *lease.HeldError
	switch {
	case errors.As(err, &taken):
		b.retry[p] = clock.Now().Add(taken.Remaining + retryMargin)
	case err != nil:
		b.retry[p] = clock.Now().Add(retryAfterError)
		b.s.o.Log.Warn("cannot ask for a lease", "partition", p, "error", err)
	default:
		b.seats[p] = b.s.sit(p, held, b.ended)
		b.s.o.Metrics.LeaseChanges.WithLabelValues("acquired").Inc()
	}
}

// release gives leases back, and lets the others have them first.
func (b *balancer) release(partitions []int) {
	b.giveUp(partitions, "released")
	for _, p := range partitions {
		b.retry[p] = clock.Now().Add(retryAfterError)
	}
}

// giveUp leaves seats, all at the same time.
func (b *balancer) giveUp(partitions []int, change string) {
	if len(partitions) == 0 {
		return
	}
	var leaving sync.WaitGroup
	for _, p := range partitions {
		leaving.Go(b.seats[p].leave)
	}
	leaving.Wait()
	for _, p := range partitions {
		delete(b.seats, p)
		b.s.o.Metrics.LeaseChanges.WithLabelValues(change).Inc()
	}
	b.report()
}

func (b *balancer) releaseAll() { b.release(b.some(len(b.seats))) }

// dropEnded forgets the seats that came to an end by themselves: their leases were lost.
func (b *balancer) dropEnded() {
	var ended []int
	for p, seat := range b.seats {
		if seat.ended() {
			ended = append(ended, p)
		}
	}
	b.giveUp(ended, "lost")
}

// some picks n of the partitions led.
func (b *balancer) some(n int) []int {
	var picked []int
	for p := range b.seats {
		if len(picked) < n {
			picked = append(picked, p)
		}
	}
	return picked
}

// order is the order in which this node asks for partitions: each node starts at another one, so that they
// seldom ask for the same.
func (b *balancer) order() []int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(b.s.o.Node))
	n := len(b.s.locks)
	order := make([]int, n)
	for i := range order {
		order[i] = (int(h.Sum32()%uint32(n)) + i) % n
	}
	return order
}

func (b *balancer) retryAll() { clear(b.retry) }

// untilRetry is the time until a lease that somebody else has could run out. A node that has its share waits for
// none.
func (b *balancer) untilRetry() time.Duration {
	wait := b.s.o.LeaseTTL
	if !b.short {
		return wait
	}
	for p, at := range b.retry {
		if b.seats[p] == nil {
			wait = min(wait, clock.Until(at))
		}
	}
	return max(wait, retryMargin)
}

func (b *balancer) report() {
	led := len(b.seats)
	b.s.o.Metrics.LeasesHeld.Set(float64(led))
	b.s.o.Log.Info("leading partitions", "count", led)
}
