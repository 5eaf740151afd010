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
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/telemetry"
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
	b := newBalancer(s)
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
		case l := <-b.late:
			b.settle(ctx, l)
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
	freed int           // how often it was told that a lease may be free
	short bool          // this node leads less than its share

	errands redisx.Errands // to servers of a cluster that may be silent
	busy    map[int]bool   // partitions whose leases a silent server has been asked to grant or to release
	late    chan late      // what came of that

	vacant vacancies
}

// late is what came of a request for a lease that was answered late: one was granted, or refused, or released.
type late struct {
	partition int
	redisx.Result[*lease.Held]
	released bool
	freed    int // balancer.freed when it was made
}

func newBalancer(s *Scheduler) *balancer {
	return &balancer{
		s: s, terms: make(map[int]*term), ended: make(chan struct{}, 1), retry: make([]time.Time, len(s.leases)),
		errands: redisx.Errands{DB: s.o.Store.Vital, Patience: redisx.Patience}, busy: make(map[int]bool),
		late: make(chan late, len(s.leases)), // each partition has one request under way at most
	}
}

// adjust releases what is above the share and acquires what is missing, and what nobody has led for long.
func (b *balancer) adjust(ctx context.Context) {
	nodes := b.s.o.Members.View().Alive(config.RoleScheduler)
	quota := b.share(cluster.Quota(nodes, b.s.o.Node, len(b.s.leases)), nodes)
	if surplus := len(b.terms) - quota; surplus > 0 {
		b.release(b.some(surplus))
	}
	before := len(b.terms)
	for rest := b.order(); len(rest) > 0 && len(b.terms) < quota && ctx.Err() == nil; {
		var wanted []int
		wanted, rest = b.wanted(b.atOnce(quota-len(b.terms)), rest)
		b.acquire(ctx, wanted)
	}
	b.short = len(b.terms) < quota
	b.adopt(ctx)
	if len(b.terms) != before {
		b.report()
	}
}

// atOnce returns for how many of n leases to ask before the terms of those that are granted begin: if Redis is one server, each begins at once.
func (b *balancer) atOnce(n int) int {
	if b.s.o.Store.Vital.Sharded() {
		return n
	}
	return min(n, 1)
}

// wanted returns up to n partitions to ask for now, and those that come after them.
func (b *balancer) wanted(n int, partitions []int) (wanted, rest []int) {
	now := clock.Now()
	for i, p := range partitions {
		if len(wanted) >= n {
			return wanted, partitions[i:]
		}
		if b.terms[p] == nil && !b.busy[p] && !now.Before(b.retry[p]) {
			wanted = append(wanted, p)
		}
	}
	return wanted, nil
}

// acquire asks for the leases of partitions, and begins the terms of those that it gets. In a cluster, it does not wait for a server that is silent.
func (b *balancer) acquire(ctx context.Context, partitions []int) {
	freed := b.freed
	results := redisx.CallEach(ctx, &b.errands, redisx.Calls[*lease.Held]{
		Keys: b.keys(partitions),
		Do: func(places []int) []redisx.Result[*lease.Held] {
			granted := make([]redisx.Result[*lease.Held], len(places))
			for k, i := range places {
				if granted[k].Err = ctx.Err(); granted[k].Err == nil {
					// the lease outlives ctx: it is released in order
					granted[k].Reply, granted[k].Err = b.s.leases[partitions[i]].Acquire(context.WithoutCancel(ctx))
				}
			}
			return granted
		},
		Late: func(i int) { b.busy[partitions[i]] = true },
		After: func(i int, r redisx.Result[*lease.Held]) {
			b.late <- late{partition: partitions[i], Result: r, freed: freed}
		},
	})
	for i, r := range results {
		b.acquired(ctx, partitions[i], r)
	}
}

// keys returns the keys of the leases of partitions, by which they have their servers.
func (b *balancer) keys(partitions []int) []string {
	keys := make([]string, len(partitions))
	for i, p := range partitions {
		keys[i] = string(b.s.o.Store.Partitions.LeaseKey(p))
	}
	return keys
}

// acquired begins the term of a partition whose lease was granted; if it was not, the node asks for it again later.
func (b *balancer) acquired(ctx context.Context, p int, r redisx.Result[*lease.Held]) {
	var taken *lease.HeldError
	switch {
	case errors.Is(r.Err, redisx.ErrLate):
	case errors.As(r.Err, &taken):
		b.retry[p] = clock.Now().Add(taken.Remaining + retryMargin)
	case r.Err != nil:
		b.retry[p] = clock.Now().Add(retryAfterError)
		if ctx.Err() == nil {
			b.s.o.Log.Warn("cannot acquire lease", "partition", p, "error", r.Err)
		}
	default:
		b.terms[p] = b.s.begin(p, r.Reply, b.ended)
		b.s.o.Metrics.LeaseChanges.WithLabelValues(telemetry.LeaseAcquired).Inc()
	}
}

// settle evaluates a late answer.
func (b *balancer) settle(ctx context.Context, l late) {
	delete(b.busy, l.partition)
	if l.released {
		return
	}
	before := len(b.terms)
	b.acquired(ctx, l.partition, l.Result)
	if l.freed != b.freed && errors.Is(l.Err, lease.ErrHeld) {
		b.retry[l.partition] = time.Time{} // it may be the lease that was refused
	}
	if len(b.terms) != before {
		b.report()
	}
}

// release ends terms and waits before asking for their leases again, so that others get them first.
func (b *balancer) release(partitions []int) {
	b.giveUp(partitions, telemetry.LeaseReleased)
	for _, p := range partitions {
		b.retry[p] = clock.Now().Add(retryAfterError)
	}
}

// giveUp ends terms, all at the same time. In a cluster, it does not wait for a server that is silent.
func (b *balancer) giveUp(partitions []int, change string) {
	if len(partitions) == 0 {
		return
	}
	terms := make([]*term, len(partitions))
	for i, p := range partitions {
		terms[i] = b.terms[p]
	}
	end := func(places []int) []redisx.Result[*lease.Held] {
		var ending sync.WaitGroup
		for _, i := range places {
			ending.Go(terms[i].end)
		}
		ending.Wait()
		return make([]redisx.Result[*lease.Held], len(places))
	}
	results := redisx.CallEach(context.Background(), &b.errands, redisx.Calls[*lease.Held]{
		Keys:  b.keys(partitions),
		Do:    end,
		Late:  func(i int) { b.busy[partitions[i]] = true },
		After: func(i int, _ redisx.Result[*lease.Held]) { b.late <- late{partition: partitions[i], released: true} },
	})
	var unsent []int // as the cluster could not be reached
	for i, r := range results {
		if r.Err != nil && !errors.Is(r.Err, redisx.ErrLate) {
			unsent = append(unsent, i)
		}
	}
	end(unsent)
	for _, p := range partitions {
		delete(b.terms, p)
		b.s.o.Metrics.LeaseChanges.WithLabelValues(change).Inc()
	}
	b.report()
}

// releaseAll releases all leases, also those that are granted late.
func (b *balancer) releaseAll() {
	b.release(b.some(len(b.terms)))
	b.errands.Wait()
	for len(b.late) > 0 {
		b.settle(context.Background(), <-b.late)
	}
	b.release(b.some(len(b.terms)))
	b.errands.Wait()
}

// dropEnded removes terms that ended by themselves because their leases were lost.
func (b *balancer) dropEnded() {
	var ended []int
	for p, term := range b.terms {
		if term.ended() {
			ended = append(ended, p)
		}
	}
	b.giveUp(ended, telemetry.LeaseLost)
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

func (b *balancer) retryAll() {
	clear(b.retry)
	b.freed++
}

// untilRetry returns how long to wait before asking again: until the first lease of another node could expire, or a lease
// time if this node has its share.
func (b *balancer) untilRetry() time.Duration {
	wait := b.s.o.LeaseTTL
	if !b.short {
		return wait
	}
	for p, at := range b.retry {
		if b.terms[p] == nil && !b.busy[p] {
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
