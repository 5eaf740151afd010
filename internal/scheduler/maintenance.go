package scheduler

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/task"
)

const (
	busyRounds  = 4           // rounds are so many times more frequent while finished tasks are being deleted
	forgetLimit = 500         // finished tasks deleted by one script
	evictLimit  = 1000        // finished tasks deleted by one script while Redis is almost full
	evictPause  = time.Second // after it: then the memory is known again
)

// pace is how often a scheduler does what nothing wakes it for.
type pace struct {
	maintenance time.Duration // between two rounds of maintenance
	lookFirst   time.Duration // from a claim until the leader looks after the delivery
	lookAgain   time.Duration // until it looks after the same delivery again
	tend        time.Duration // between two rounds in which asynq's queues are tended
	ask         time.Duration // until a leader asks again whether a full queue has room
	names       time.Duration // between two looks at the names of all queues and lanes of which tasks wait, at most
	pack        time.Duration // between two looks for tasks that need a row in the index of lists
	lossy       time.Duration // between two such looks while Redis may have lost writes
	peek        time.Duration // between two looks for missed wake-ups
	limits      time.Duration // between two looks at what limits allow, of which leaders are told
}

var defaultPace = pace{
	maintenance: time.Minute, lookFirst: 2 * time.Second, lookAgain: 2 * time.Second, tend: 5 * time.Second, ask: time.Second,
	names: time.Minute, pack: 5 * time.Minute, lossy: 10 * time.Second, peek: 3 * time.Second, limits: 10 * time.Second,
}

// unhurriedPace is that of Options.Unhurried.
var unhurriedPace = pace{
	maintenance: 24 * time.Hour, lookFirst: defaultPace.lookFirst, lookAgain: 10 * time.Minute, tend: 24 * time.Hour, ask: defaultPace.ask,
	names: 24 * time.Hour, pack: 24 * time.Hour, lossy: 24 * time.Hour, peek: 24 * time.Hour, limits: 24 * time.Hour,
}

// maintain deletes finished tasks whose retention is over, until ctx ends or the lease is over: at once, and at intervals.
// After a failure it tries again soon: deleting finished tasks is what frees memory in a Redis that is full.
func (t *term) maintain(ctx context.Context) error {
	for ctx.Err() == nil {
		busy, err := t.forget(ctx)
		if err == nil {
			err = t.rest(ctx, busy)
		}
		switch {
		case errors.Is(err, partition.ErrFenced):
			return err
		case err != nil:
			t.failed(ctx, "maintenance failed", err)
		}
	}
	return nil
}

// rest waits until the next round of maintenance. If Redis is or becomes almost full, it deletes finished tasks before their retention is
// over, those first that would go next: so a backlog drains though finished tasks need more memory than waiting ones.
func (t *term) rest(ctx context.Context, busy bool) error {
	signal(t.claimed) // in case there is something to look after that dispatch does not know of
	interval := t.s.pace.maintenance
	if busy {
		interval /= busyRounds
	}
	timer := time.NewTimer(interval*3/4 + rand.N(interval/2)) // spread the partitions' rounds
	defer timer.Stop()
	for {
		if err := t.evict(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
			return nil
		case <-t.s.evictWakes[t.partition]:
		}
	}
}

// crowded reports whether the Redis that holds a partition is almost full.
func (s *Scheduler) crowded(ctx context.Context, partition int) bool {
	return s.o.Store.MemoryInUse(ctx, partition) > layout.AlmostFull
}

var errCrowded = task.Errorf(task.CodeUnavailable, "Redis uses more than %.0f %% of its maxmemory", layout.AlmostFull*100)

// evict deletes finished tasks while Redis is almost full and there are any. Errors: ErrFenced, or one of Redis.
func (t *term) evict(ctx context.Context) error {
	keep := t.keep()
	keep.Tasks = 0
	for ctx.Err() == nil && t.s.crowded(ctx, t.partition) {
		swept, err := t.leader.Sweep(ctx, keep, evictLimit)
		if err != nil || swept.Deleted == 0 {
			return err
		}
		t.warn(ctx, "deleting finished tasks before their retention is over", errCrowded)
		t.s.o.Metrics.Evicted.Add(float64(swept.Deleted))
		_ = clock.Sleep(ctx, evictPause)
	}
	return nil
}

// keep is what the partition keeps of the past.
func (t *term) keep() partition.Keep {
	keep := t.s.o.Keep
	keep.Tasks, keep.Names = max(keep.Tasks/len(t.s.leases), 1), keep.Names/len(t.s.leases)
	return keep
}

// forget deletes finished tasks whose retention is over, and the oldest ones if there are too many; and forgets the
// names of tasks that ended long ago. The same script counts what is due: dispatch, tick and follow are woken in case
// they missed a wake-up, as after a step of Redis's clock. busy says that it deleted some.
func (t *term) forget(ctx context.Context) (busy bool, _ error) {
	keep := t.keep()
	early, shortest := 0, time.Duration(0)
	defer func() { t.warnEarly(early, shortest) }()
	for ctx.Err() == nil {
		swept, err := t.leader.Sweep(ctx, keep, forgetLimit)
		if err != nil {
			return busy, err
		}
		if swept.Due > 0 {
			t.s.wake(t.partition)
		}
		if swept.DueSchedules > 0 {
			t.s.wakeTick(t.partition)
		}
		if swept.Outbox > 0 {
			t.s.wakeFollow(t.partition)
		}
		busy = busy || swept.Deleted > 0
		if swept.Early > 0 {
			early, shortest = early+swept.Early, swept.Shortest
		}
		t.s.o.Metrics.Forgotten.Add(float64(swept.Deleted))
		t.s.o.Metrics.ForgottenEarly.Add(float64(swept.Early))
		if max(swept.Deleted, swept.Forgotten) < forgetLimit {
			return busy, nil
		}
	}
	return busy, nil
}

// earlyPause is the time between two warnings of one term that names are forgotten too early.
const earlyPause = 10 * time.Minute

// warnEarly says that so many names of ended tasks were forgotten before their time, as there are too many.
func (t *term) warnEarly(count int, shortest time.Duration) {
	if count == 0 || !t.warnedEarly.IsZero() && clock.Since(t.warnedEarly) < earlyPause {
		return
	}
	t.warnedEarly = clock.Now()
	t.s.o.Log.Warn("forgetting ids of ended tasks before --remember is over; raise --remember-max-ids, or lower --remember",
		"partition", t.partition, "count", count, "remembered", shortest.Round(time.Second), "remember", t.s.o.Keep.Remember)
}
