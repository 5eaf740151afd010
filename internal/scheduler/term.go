package scheduler

import (
	"context"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/lease"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/telemetry"
)

// term is the time during which this node leads one partition: from acquiring its lease until it is released or lost.
type term struct {
	s         *Scheduler
	partition int
	held      *lease.Held
	leader    *partition.Leader
	stop      context.CancelFunc
	claimed   chan struct{} // signalled when tasks were claimed
	// warnedEarly is when maintain last warned that names are forgotten too early.
	warnedEarly time.Time
	done        chan struct{}
	damage      telemetry.Seldom // what was told of damage, by the message
	runs        runs
	// mayHaveLost says that Redis might have lost writes when the term settled limits last.
	mayHaveLost bool
}

// begin starts to lead a partition. ended is signalled when the term ends.
func (s *Scheduler) begin(p int, held *lease.Held, ended chan struct{}) *term {
	ctx, stop := context.WithCancel(held.Context())
	t := &term{
		s: s, partition: p, held: held, leader: s.o.Store.Partitions.At(p).Lead(held.Fence()), stop: stop,
		claimed: make(chan struct{}, 1), done: make(chan struct{}),
	}
	t.runs.max = s.cache
	s.mu.Lock()
	s.led[p] = t.leader
	s.mu.Unlock()
	s.listener.Lead(p)
	go func() {
		defer signal(ended)
		defer close(t.done)
		t.lead(ctx)
		s.listener.Leave(p)
		s.mu.Lock()
		delete(s.led, p)
		s.mu.Unlock()
	}()
	return t
}

// lead runs the loops until ctx ends or one of them finds that the lease is over.
func (t *term) lead(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var loops sync.WaitGroup
	for _, loop := range []func(context.Context) error{
		t.tick, t.dispatch, t.watch, t.maintain, t.pack, t.tend, t.chores, t.follow,
	} {
		loops.Go(func() {
			defer cancel()
			if err := loop(ctx); err != nil && ctx.Err() == nil {
				t.s.o.Log.Warn("lost leadership of partition", "partition", t.partition, "error", err)
			}
		})
	}
	loops.Wait()
}

// ended reports whether the term is over.
func (t *term) ended() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// end stops the loops, waits for them, and releases the lease if it is still held.
func (t *term) end() {
	t.stop()
	<-t.done
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	if err := t.held.Release(ctx); err != nil {
		t.s.o.Log.Warn("cannot release lease", "partition", t.partition, "error", err)
	}
}

// sleep waits until next (never, if it is the zero time) or until a wake-up for the partition arrives. next and now are
// Redis's times, from a reply received at got: the node's own clock only measures the difference.
func (t *term) sleep(ctx context.Context, next, now, got time.Time, wakes []chan struct{}) {
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

// damagedPause is for how long a loop rests for which a key of its partition is damaged. Somebody has to repair it first;
// then the loop must go on soon.
const damagedPause = 3 * time.Second

// failed reports a failure, unless ctx has ended, and waits before the next try.
func (t *term) failed(ctx context.Context, message string, err error) {
	pause := retryAfterError
	if redisx.IsDamage(err) {
		pause = damagedPause
		message += "; trying again every few seconds"
	}
	t.warn(ctx, message, err)
	_ = clock.Sleep(ctx, pause)
}

// warn reports a failure, unless err is nil or ctx has ended. Damage, which stays until somebody repairs it, is told once
// a minute.
func (t *term) warn(ctx context.Context, message string, err error) {
	if !redisx.IsDamage(err) || t.damage.Due(message) {
		t.s.warn(ctx, t.partition, message, err)
	}
}

// warn logs an error that concerns a partition, if there is one and ctx has not ended.
func (s *Scheduler) warn(ctx context.Context, partition int, message string, err error) {
	if err != nil && ctx.Err() == nil {
		s.o.Log.Warn(message, "partition", partition, "error", redisx.Advise(err))
	}
}
