package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/worker/executor"
)

var errTwice = errors.New("the attempt already runs on this node")

// attempt is one attempt on this node, from the arrival of its delivery to the report of its end.
type attempt struct {
	w      *Worker
	name   string          // of the delivery
	ctx    context.Context // of the executor's work
	cancel context.CancelCauseFunc
	work   context.Context // of reports: it outlives ctx
	run    atomic.Pointer[tasks.Run]
	shared atomic.Bool // somebody else has the token of the run
	lease  *time.Timer // stops the work if the lease of the run is not extended; set before run
	// redisNow is the time of Redis: the start of the attempt, which Redis recorded, and what this node measured since.
	redisNow func() time.Time // nil until Redis has answered begin
}

// end releases the context, the lease and the slot.
func (a *attempt) end() {
	a.cancel(nil)
	if a.lease != nil {
		a.lease.Stop()
	}
	<-a.w.slots
}

// begin asks Redis for the attempt until there is an answer. When the connection breaks, the worker does not know
// whether the attempt has begun, so it repeats the call with the same token: giving up could leave an attempt that
// counts as running and that nobody runs. Errors: tasks.ErrLeftover, tasks.ErrForeignType; or the worker ends first. An attempt that may have
// begun then is recovered when the lease of its run is over.
func (a *attempt) begin(d *queue.Taken) error {
	token := a.w.token()
	for try := 0; ; try++ {
		if errors.Is(context.Cause(a.ctx), errShutdown) {
			return fmt.Errorf("delivery %s: %w", a.name, errShutdown)
		}
		err := a.tryBegin(tasks.Start{Ref: d.Ref, Attempt: d.Attempt, Run: token, Queue: d.Queue})
		if err == nil || errors.Is(err, tasks.ErrLeftover) || errors.Is(err, tasks.ErrForeignType) {
			return err
		}
		a.warn(try, "cannot begin an attempt", err)
		if err := pause(a.work); err != nil {
			return fmt.Errorf("delivery %s: %w", a.name, err)
		}
	}
}

// errLate is the reason to begin again if the answers come so late that the lease of the run is over.
var errLate = errors.New("the answer came too late")

// tryBegin calls begin once, together with others, and waits for replicas if the attempt must be the only one. The run is leased from the start of
// the call on, by the clock of this node.
func (a *attempt) tryBegin(attempt tasks.Start) error {
	start := clock.Now()
	begun, err := a.w.begins.Do(a.work, attempt)
	if err != nil {
		return err
	}
	if begun.Err != nil {
		return begun.Err
	}
	run := begun.Run
	if run.Task.CancelRequested.IsZero() {
		if err := a.w.o.Store.Tasks.ConfirmBegin(a.work, run); err != nil {
			return err
		}
	}
	if a.w.trust(start) <= 0 {
		if start, err = a.leaseAgain(run); err != nil {
			return err
		}
	}
	a.lease = time.AfterFunc(a.w.untilStop(start), func() { a.lose(errUnleased) })
	a.run.Store(run)
	select {
	case a.w.hasBegun <- struct{}{}:
	default: // keepLeases is told already
	}
	if !run.Task.CancelRequested.IsZero() { // somebody cancelled the task before the answer came
		a.cancel(errStopped)
	}
	a.w.o.Metrics.BeginLateness.Observe(run.Task.StartedAt.Sub(run.Task.DueAt).Seconds())
	return nil
}

// leaseAgain extends the lease of a run that nobody may trust any more when its begin is answered and confirmed, and returns when that lease
// began, by the clock of this node. Errors: errLate, tasks.ErrStale, or one of Redis.
func (a *attempt) leaseAgain(run *tasks.Run) (start time.Time, err error) {
	start = clock.Now()
	if e := a.w.o.Store.Tasks.ExtendEach(a.work, []*tasks.Run{run})[0]; e.Err != nil {
		return start, e.Err
	}
	if a.w.trust(start) <= 0 {
		return start, errLate
	}
	return start, nil
}

// warn logs the first one of several failures, and later every hundredth.
func (a *attempt) warn(try int, what string, err error) {
	if try%100 == 0 {
		a.w.o.Log.Warn(what+"; trying again", "delivery", a.name, "error", err)
	}
}

// perform runs the executor and reports how the attempt ended.
func (a *attempt) perform() error {
	run := a.run.Load()
	start := clock.Now()
	a.redisNow = func() time.Time { return run.Task.StartedAt.Add(clock.Since(start)) }
	e := a.execute(run)
	if a.endedByOther() {
		return a.settleShared(run)
	}
	e.Reason = task.Cut(e.Reason, task.ErrorLimit)
	a.w.o.Metrics.AttemptSeconds.WithLabelValues(a.w.label(run.Task.Type)).Observe(clock.Since(start).Seconds())
	a.w.o.Metrics.Attempts.WithLabelValues(a.w.label(run.Task.Type), string(e.Outcome)).Inc()
	a.w.o.Log.Debug("attempt ended", "delivery", a.name, "outcome", e.Outcome, "error", e.Reason)
	return a.report(run, e)
}

// execute runs the executor under the task's timeout.
func (a *attempt) execute(run *tasks.Run) tasks.Ending {
	t := run.Task
	exec := a.w.o.Executors[t.Type] // which there is, as other attempts do not begin here
	timeout := a.w.o.Types.Timeout(t.Definition)
	if cause := context.Cause(a.ctx); cause != nil { // cancelled or without a lease before it has done anything
		return judge(a.ctx, timeout, "", cause)
	}
	ctx, cancel := context.WithTimeoutCause(a.ctx, timeout, errTimeout)
	defer cancel()
	lines := newLines(a.work, run, a.w.o.Log)
	defer lines.close()
	result, err := guarded(func() (string, error) {
		work := described(t)
		work.Log, work.Progress, work.Save, work.Token = lines.add, lines.progress, a.save, a.share
		return exec.Execute(ctx, work)
	})
	return judge(ctx, timeout, result, err)
}

// save saves a checkpoint for the attempts that follow. If another run has the attempt, it stops the work.
func (a *attempt) save(ctx context.Context, checkpoint json.RawMessage) error {
	err := a.run.Load().Save(ctx, checkpoint)
	if errors.Is(err, tasks.ErrStale) {
		a.lose(err)
		return fmt.Errorf("%w (%w)", executor.ErrNotCurrent, err)
	}
	return err
}

// described describes the newest attempt of a task to its executor, except where it reports to.
func described(t task.Task) executor.Attempt {
	return executor.Attempt{Ref: t.Ref, Number: t.Attempt, Type: t.Type, Payload: t.Payload, Task: t, Checkpoint: t.Checkpoint}
}

// recorded tells an executor that waits for it that the success of the attempt is recorded.
func (a *attempt) recorded(run *tasks.Run, e tasks.Ending) {
	if keeper, ok := a.w.o.Executors[run.Task.Type].(executor.Keeper); ok && e.Outcome == task.OutcomeSucceeded {
		keeper.Recorded(described(run.Task))
	}
}

// guarded turns a panic of an executor into an error.
func guarded(execute func() (string, error)) (_ string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return execute()
}

// judge tells how the attempt ended from what its executor returned and why ctx ended, if it did.
func judge(ctx context.Context, timeout time.Duration, result string, err error) tasks.Ending {
	if err == nil {
		return tasks.Ending{Outcome: task.OutcomeSucceeded, Result: result}
	}
	cause := context.Cause(ctx)
	switch {
	case executor.IsCancelled(err):
		return tasks.Ending{Outcome: task.OutcomeCancelled, Reason: err.Error()}
	case cause == nil || executor.IsPermanent(err):
		return tasks.Ending{Outcome: task.OutcomeFailed, Reason: err.Error(), Final: executor.IsPermanent(err), Wait: executor.Wait(err)}
	case errors.Is(cause, errTimeout):
		return tasks.Ending{Outcome: task.OutcomeTimeout, Reason: fmt.Sprintf("timeout after %s: %s", timeout, err)}
	case errors.Is(cause, errStopped):
		return tasks.Ending{Outcome: task.OutcomeCancelled, Reason: err.Error()}
	}
	return tasks.Ending{Outcome: task.OutcomeLost, Reason: cause.Error()} // the node shut down, or was cut off from the others
}

// report tells Redis how the attempt ended, until there is an answer. Whatever the outcome, it returns nil or
// queue.ErrDeadLetter, so that asynq does not deliver the attempt again; any other error means that the worker ended
// before Redis answered.
func (a *attempt) report(run *tasks.Run, e tasks.Ending) error {
	for try := 0; ; try++ {
		dead, err := a.reportOnce(run, e)
		switch {
		case err == nil && dead:
			return fmt.Errorf("%w: %s", queue.ErrDeadLetter, e.Reason)
		case err == nil:
			a.recorded(run, e)
			return nil
		case errors.Is(err, tasks.ErrCancelled):
			e.Outcome = task.OutcomeCancelled
			continue
		case errors.Is(err, tasks.ErrStale) && a.shared.Load():
			return a.settleShared(run)
		case errors.Is(err, tasks.ErrStale):
			a.w.o.Metrics.Refused.Inc()
			a.w.o.Log.Warn("this worker no longer holds the attempt; its report was refused", "delivery", a.name, "outcome", e.Outcome)
			return nil
		}
		a.warn(try, "cannot report the end of an attempt", err)
		if err := pause(a.work); err != nil {
			return fmt.Errorf("delivery %s: %w", a.name, err)
		}
	}
}

// finish reports an end together with others.
func (a *attempt) finish(e tasks.End) error {
	failure, err := a.w.ends.Do(a.work, e)
	if err != nil {
		return err
	}
	return failure
}

// reportOnce reports the ending. It returns true if the task has failed for good: it is a dead letter.
func (a *attempt) reportOnce(run *tasks.Run, e tasks.Ending) (dead bool, _ error) {
	end := run.End(e, a.redisNow(), a.w.o.Random())
	return end.State == task.Failed, a.finish(end)
}
