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
	retryAfterError = 500 * time.Millisecond // before a lease is requested again after an error
	retryMargin     = 10 * time.Millisecond  // a lease is requested again this long after it should have expired
	releaseTimeout  = 2 * time.Second        // to release a lease; after that it expires by itself
)

// balance keeps this node's number of leases at its fair share: the partitions divided by the living scheduler nodes. All
// nodes compute the same shares from the same list, and the shares add up to all partitions. A node below its share
// acquires whatever is free, and one above it releases the surplus. There is no central leader.
func (s *Scheduler) balance(ctx context.Context) error {
	changed, stop := s.o.Members.Watch()
	defer stop()
	b := balancer{s: s, terms: make(map[int]*term), ended: make(chan struct{}, 1), retry: make([]time.Time, len(s.leases))}
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
	terms map[int]*term // by partition
	ended chan struct{} // signalled when a term ends
	retry []time.Time   // by partition: earliest time of the next request
	short bool          // this node leads less than its share

	vacant vacancies
}

// adjust releases what is above the share and acquires what is missing, and what nobody has led for long.
func (b *balancer) adjust(ctx context.Context) {
	nodes := b.s.o.Members.View().Alive(config.RoleScheduler)
	quota := b.share(cluster.Quota(nodes, b.s.o.Node, len(b.s.leases)), nodes)
	if surplus := len(b.terms) - quota; surplus > 0 {
		b.release(b.some(surplus))
	}
	before := len(b.terms)
	for _, p := range b.order() {
		if len(b.terms) >= quota || ctx.Err() != nil {
			break
		}
		if b.terms[p] == nil && !clock.Now().Before(b.retry[p]) {
			b.acquire(ctx, p)
		}
	}
	b.short = len(b.terms) < quota
	b.adopt(ctx)
	if len(b.terms) != before {
		b.report()
	}
}

func (b *balancer) acquire(ctx context.Context, p int) {
	held, err := b.s.leases[p].Acquire(context.WithoutCancel(ctx)) // the lease outlives ctx: it is released in order
	var taken *lease.HeldError
	switch {
	case errors.As(err, &taken):
		b.retry[p] = clock.Now().Add(taken.Remaining + retryMargin)
	case err != nil:
		b.retry[p] = clock.Now().Add(retryAfterError)
		b.s.o.Log.Warn("cannot acquire lease", "partition", p, "error", err)
	default:
		b.terms[p] = b.s.begin(p, held, b.ended)
		b.s.o.Metrics.LeaseChanges.WithLabelValues("acquired").Inc()
	}
}

// release ends terms and waits before asking for their leases again, so that others get them first.
func (b *balancer) release(partitions []int) {
	b.giveUp(partitions, "released")
	for _, p := range partitions {
		b.retry[p] = clock.Now().Add(retryAfterError)
	}
}

// giveUp ends terms, all at the same time.
func (b *balancer) giveUp(partitions []int, change string) {
	if len(partitions) == 0 {
		return
	}
	var ending sync.WaitGroup
	for _, p := range partitions {
		ending.Go(b.terms[p].end)
	}
	ending.Wait()
	for _, p := range partitions {
		delete(b.terms, p)
		b.s.o.Metrics.LeaseChanges.WithLabelValues(change).Inc()
	}
	b.report()
}

func (b *balancer) releaseAll() { b.release(b.some(len(b.terms))) }

// dropEnded removes terms that ended by themselves because their leases were lost.
func (b *balancer) dropEnded() {
	var ended []int
	for p, term := range b.terms {
		if term.ended() {
			ended = append(ended, p)
		}
	}
	b.giveUp(ended, "lost")
}

// some picks n of the partitions led.
func (b *balancer) some(n int) []int {
	var picked []int
	for p := range b.terms {
		if len(picked) < n {
			picked = append(picked, p)
		}
	}
	return picked
}

// order returns the order in which this node asks for partitions: each node starts at another one, so that they seldom
// compete.
func (b *balancer) order() []int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(b.s.o.Node))
	n := len(b.s.leases)
	order := make([]int, n)
	for i := range order {
		order[i] = (int(h.Sum32()%uint32(n)) + i) % n
	}
	return order
}

func (b *balancer) retryAll() { clear(b.retry) }

// untilRetry returns how long to wait before asking again: until the first lease of another node could expire, or a lease
// time if this node has its share.
func (b *balancer) untilRetry() time.Duration {
	wait := b.s.o.LeaseTTL
	if !b.short {
		return wait
	}
	for p, at := range b.retry {
		if b.terms[p] == nil {
			wait = min(wait, clock.Until(at))
		}
	}
	return max(wait, retryMargin)
}

func (b *balancer) report() {
	led := len(b.terms)
	b.s.o.Metrics.LeasesHeld.Set(float64(led))
	b.s.o.Log.Info("leading partitions", "count", led)
}
