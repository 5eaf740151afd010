package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/worker/executor"
)

// extendInterval is the time between two extensions of the leases.
func (w *Worker) extendInterval() time.Duration { return w.o.Store.Tasks.RunLease() / 3 }

// trust returns how long a run that was leased at start is certainly the only one: until a while before the lease is over, because its
// task begins again elsewhere then.
func (w *Worker) trust(start time.Time) time.Duration {
	return clock.Until(start.Add(w.o.Store.Tasks.RunLease() * 5 / 6))
}

// untilStop returns how long a run that was leased at start may go on without another lease.
func (w *Worker) untilStop(start time.Time) time.Duration {
	return max(w.trust(start), clock.Until(start.Add(w.o.OutageTolerance)))
}

// errUnleased is the cause of the end of a run whose lease could not be extended, or which Redis does not know any more.
var errUnleased = errors.New("the lease of the run is over: another node may run the task")

// keepLeases extends the leases of all runs until ctx ends: every extendInterval, and again soon if that failed. It sleeps while nothing
// runs.
func (w *Worker) keepLeases(ctx context.Context) {
	wait, failing := w.extendInterval(), false
	for w.awaitBegun(ctx) == nil && clock.Sleep(ctx, wait) == nil {
		start := clock.Now()
		wait = w.extendInterval() / 10
		attempts := w.begun()
		err := w.extend(ctx, attempts).Err()
		switch {
		case err == nil:
			wait = max(w.extendInterval()-clock.Since(start), 0)
			if failing {
				w.o.Log.Info("extending the leases of attempts works again")
			}
		case !failing && ctx.Err() == nil:
			w.o.Log.Warn("cannot extend the leases of attempts; trying again", "count", len(attempts), "error", err)
		}
		failing = err != nil
	}
}

// awaitBegun blocks until an attempt has begun that has not ended. It returns an error only if ctx ends.
func (w *Worker) awaitBegun(ctx context.Context) error {
	for len(w.begun()) == 0 {
		select {
		case <-w.hasBegun:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// begun returns the attempts that have begun.
func (w *Worker) begun() []*attempt {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Collect(maps.Values(w.active)), func(a *attempt) bool { return a.run.Load() == nil })
}

// extend extends the leases of attempts. It stops those that Redis does not know as running any more, without grace, and
// those whose task was asked to stop. It asks those to move whose task was asked to. Errors: those of Redis; leases may not have been extended.
func (w *Worker) extend(ctx context.Context, attempts []*attempt) tasks.Failures {
	if len(attempts) == 0 {
		return nil
	}
	runs := make([]*tasks.Run, len(attempts))
	for i, a := range attempts {
		runs[i] = a.run.Load()
	}
	call, cancel := context.WithTimeout(ctx, w.extendInterval())
	defer cancel()
	start := clock.Now()
	failed := make(tasks.Failures)
	for i, e := range w.o.Store.Tasks.ExtendEach(call, runs) {
		switch a := attempts[i]; {
		case errors.Is(e.Err, tasks.ErrStale):
			a.lose(e.Err)
		case e.Err != nil:
			failed.Add(w.o.Store.PartitionOf(runs[i].Task.Ref), e.Err)
		default:
			a.leased.Store(&start)
			a.lease.Reset(w.untilStop(start))
			if e.Cancelled {
				a.cancel(errStopped)
			}
			if e.Moving {
				a.move()
			}
		}
	}
	return failed
}

// ExtendNow extends the leases of all runs at once, as Redis may have lost them. Errors: those of Redis; leases may not have been extended.
func (w *Worker) ExtendNow(ctx context.Context) tasks.Failures { return w.extend(ctx, w.begun()) }

// lose stops the work without grace, as another node may be about to do it.
func (a *attempt) lose(reason error) {
	a.cancel(fmt.Errorf("%w: %w", executor.ErrNoGrace, reason))
}
