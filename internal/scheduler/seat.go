package scheduler

import (
	"context"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/lease"
	"github.com/dts-sched/dts/internal/store"
)

// seat is the leading of one partition: from the moment its lease was acquired until it is given back or lost.
type seat struct {
	s         *Scheduler
	partition int
	held      *lease.Held
	leader    *store.Leader
	stop      context.CancelFunc
	done      chan struct{}
}

// sit begins to lead. ended is signalled when it comes to an end.
func (s *Scheduler) sit(p int, held *lease.Held, ended chan struct{}) *seat {
	ctx, stop := context.WithCancel(held.Context())
	t := &seat{
		s: s, partition: p, held: held, leader: s.o.Store.Lead(p, held.Fence()), stop: stop, done: make(chan struct{}),
	}
	s.mu.Lock()
	s.led[p] = t.leader
	s.mu.Unlock()
	go func() {
		defer signal(ended)
		defer close(t.done)
		t.lead(ctx)
		s.mu.Lock()
		delete(s.led, p)
		s.mu.Unlock()
	}()
	return t
}

// lead runs the loops until ctx ends or one of them finds that the lease is over.
func (t *seat) lead(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var loops sync.WaitGroup
	for _, loop := range []func(context.Context) error{t.tick, t.dispatch, t.upkeep} {
		loops.Go(func() {
			defer cancel()
			if err := loop(ctx); err != nil && ctx.Err() == nil {
				t.s.o.Log.Warn("leading ends", "partition", t.partition, "error", err)
			}
		})
	}
	loops.Wait()
}

// ended says whether the seat came to an end.
func (t *seat) ended() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// leave ends the loops, waits for them, and gives the lease back if it is still held.
func (t *seat) leave() {
	t.stop()
	<-t.done
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	if err := t.held.Release(ctx); err != nil {
		t.s.o.Log.Warn("cannot give a lease back", "partition", t.partition, "error", err)
	}
}

// sleep waits until next, the zero time being never, or until something earlier has arrived. Next and now are Redis's
// times, of an answer that came at got: the wait is their difference, which the node's own clock only measures.
func (t *seat) sleep(ctx context.Context, next, now, got time.Time, wakes []chan struct{}) {
	var due <-chan time.Time
	if !next.IsZero() {
		timer := time.NewTimer(next.Sub(now) - clock.Since(got))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
	case <-due:
	case <-wakes[t.partition]:
	}
}

// pause waits a little before something that failed is tried again.
func (t *seat) pause(ctx context.Context) { _ = clock.Sleep(ctx, retryAfterError) }
