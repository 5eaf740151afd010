package scheduler

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/store/partition"
)

const (
	busyRounds  = 4   // rounds are so many times more frequent while finished tasks are being deleted
	forgetLimit = 500 // finished tasks deleted by one script
)

// pace is how often a scheduler does what nothing wakes it for.
type pace struct {
	maintenance time.Duration // between two rounds of maintenance
	lookFirst   time.Duration // from a claim until the leader looks after the delivery
	lookAgain   time.Duration // until it looks after the same delivery again
	tend        time.Duration // between two rounds in which asynq's queues are tended
	ask         time.Duration // until a leader asks again whether a full queue has room
	peek        time.Duration // between two looks for missed wake-ups
}

var defaultPace = pace{
	maintenance: time.Minute, lookFirst: 2 * time.Second, lookAgain: 5 * time.Second, tend: 5 * time.Second, ask: time.Second,
	peek: 3 * time.Second,
}

// unhurriedPace is that of Options.Unhurried.
var unhurriedPace = pace{
	maintenance: time.Hour, lookFirst: defaultPace.lookFirst, lookAgain: 10 * time.Minute, tend: time.Hour, ask: defaultPace.ask, peek: time.Hour,
}

// maintain deletes finished tasks whose retention is over, until ctx ends or the lease is over: at once, and at intervals.
// After a failure it tries again soon: deleting finished tasks is what frees memory in a Redis that is full.
func (t *term) maintain(ctx context.Context) error {
	for ctx.Err() == nil {
		busy, err := t.forget(ctx)
		if errors.Is(err, partition.ErrFenced) {
			return err
		} else if err != nil {
			t.failed(ctx, "maintenance failed", err)
			continue
		}
		signal(t.claimed) // in case there is something to look after that dispatch does not know of
		interval := t.s.pace.maintenance
		if busy {
			interval /= busyRounds
		}
		_ = clock.Sleep(ctx, interval*3/4+rand.N(interval/2)) // spread the partitions' rounds
	}
	return nil
}

// forget deletes finished tasks whose retention is over, and the oldest ones if there are too many. The same script
// counts due tasks and schedules: dispatch and tick are woken in case they missed a wake-up, as after a step of Redis's
// clock. busy says that it deleted some.
func (t *term) forget(ctx context.Context) (busy bool, _ error) {
	keep := max(t.s.o.Keep/len(t.s.locks), 1)
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
		busy = busy || swept.Forgotten > 0
		t.s.o.Metrics.Forgotten.Add(float64(swept.Forgotten))
		if swept.Forgotten < forgetLimit {
			return busy, nil
		}
	}
	return busy, nil
}
