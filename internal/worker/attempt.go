package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/tracing"
	"github.com/dts-sched/dts/internal/worker/executor"
)

var errTwice = errors.New("the attempt already runs on this node")

// attempt is one attempt on this node, from the arrival of its delivery to the report of its end.
type attempt struct {
	w      *Worker
	pool   *pool
	name   string          // of the delivery
	ctx    context.Context // of the executor's work
	cancel context.CancelCauseFunc
	work   context.Context // of reports: it outlives ctx
	moving chan struct{}   // closed when the attempt is asked to move to another worker
	asked  sync.Once       // closes moving
	run    atomic.Pointer[tasks.Run]
	slots  int         // that it holds
	shared atomic.Bool // somebody else has the token of the run
	// leased is when the lease of the run began, by the clock of this node, and lease stops the work if it is not extended; both are set before run.
	leased atomic.Pointer[time.Time]
	lease  *time.Timer
	// confirmed says that replicas have the begin, if they must, so that the work may start.
	confirmed atomic.Bool
	// redisNow is the time of Redis: the start of the attempt, which Redis recorded, and what this node measured since.
	redisNow func() time.Time // nil until Redis has answered begin
	span     tracing.Span     // until the end is recorded; none before the work starts
	// runs says that it counts as running, and reports that it has a place among the reports instead of a slot.
	runs, reports bool
}

// end releases the context, the lease, and the slots or the place among the reports.
func (a *attempt) end() {
	a.cancel(nil)
	if a.lease != nil {
		a.lease.Stop()
	}
	if a.reports {
		<-a.w.reports
	} else {
		a.freeSlots()
	}
}

// freeSlots frees the slots of an attempt that does not run, or not any more.
func (a *attempt) freeSlots() {
	if a.runs {
		a.w.running.Add(-int64(a.slots))
		a.w.o.Metrics.Running.Sub(float64(a.slots))
		a.pool.ahead.ended(clock.Now()) // before a slot wakes the pool
	}
	a.w.free(a.pool, a.slots)
}

// returned frees the slots of an attempt whose executor has returned, unless too many ends wait until Redis has taken
// them.
func (a *attempt) returned() {
	select {
	case a.w.reports <- struct{}{}:
		a.reports = true
		a.freeSlots()
	default:
	}
}

// begin asks Redis for the attempt until there is an answer, and waits for replicas if it must be the only one. When the connection breaks, the worker
// does not know whether the attempt has begun, so it repeats the call with the same token: giving up could leave an attempt that
// counts as running and that nobody runs. Errors: tasks.ErrLeftover, tasks.ErrForeignType; or the worker ends first. An attempt that may have
// begun then is recovered when the lease of its run is over.
func (a *attempt) begin(d *queue.Taken) error {
	token := a.w.token()
	for try := 0; ; try++ {
		if errors.Is(context.Cause(a.ctx), errShutdown) {
			return fmt.Errorf("delivery %s: %w", a.name, errShutdown)
		}
		err := a.tryBegin(tasks.Start{Ref: d.Ref, Attempt: d.Attempt, Run: token, Queue: d.Queue})
		if err == nil {
			return a.confirm()
		}
		if errors.Is(err, tasks.ErrLeftover) || errors.Is(err, tasks.ErrForeignType) {
			return err
		}
		a.warn(try, "cannot begin an attempt", err)
		if err := pause(a.work); err != nil {
			return fmt.Errorf("delivery %s: %w", a.name, err)
		}
	}
}

// tryBegin calls begin once, together with others. The run is leased from the start of the call on, and keepLeases extends that.
func (a *attempt) tryBegin(attempt tasks.Start) error {
	start := clock.Now()
	begun, err := a.w.begins.Do(a.work, attempt)
	if err == nil {
		err = begun.Err
	}
	if err != nil {
		return err
	}
	run := begun.Run
	a.leased.Store(&start)
	a.lease = time.AfterFunc(a.w.untilStop(start), a.unleased)
	a.run.Store(run)
	select {
	case a.w.hasBegun <- struct{}{}:
	default: // keepLeases is told already
	}
	if !run.Task.CancelRequested.IsZero() { // somebody cancelled the task before the answer came
		a.cancel(errStopped)
	}
	return nil
}

// move asks the executor to give the work up, so that another worker goes on.
func (a *attempt) move() { a.asked.Do(func() { close(a.moving) }) }

// unleased stops the work if the lease was not extended. While replicas are awaited there is no work, and tryConfirm looks after the lease.
func (a *attempt) unleased() {
	if a.confirmed.Load() && a.w.untilStop(*a.leased.Load()) <= 0 {
		a.lose(errUnleased)
	}
}

// confirm waits until replicas have the begin of a run, if it must be the only one, or until the attempt is to stop: its work does not start
// then. If Redis loses the begin meanwhile, the next extension of the lease begins the run again. Errors: tasks.ErrLeftover if the attempt is
// lost; or the worker ends first.
func (a *attempt) confirm() error {
	for try := 0; a.ctx.Err() == nil; try++ {
		err := a.tryConfirm()
		if err == nil {
			break
		}
		a.warn(try, "cannot confirm the begin of an attempt", err)
		_ = pause(a.ctx)
	}
	switch {
	case errors.Is(context.Cause(a.ctx), tasks.ErrStale):
		return fmt.Errorf("delivery %s: %w", a.name, tasks.ErrLeftover)
	case a.work.Err() != nil:
		return fmt.Errorf("delivery %s: %w", a.name, a.work.Err())
	}
	a.w.o.Store.Tasks.CountBegin(a.run.Load().Task)
	return nil
}

// tryConfirm waits for replicas once, and extends the lease if nobody may trust it any more. Errors: those of ConfirmBegin and extend.
func (a *attempt) tryConfirm() error {
	if err := a.w.o.Store.Tasks.ConfirmBegin(a.work, a.run.Load()); err != nil {
		return err
	}
	if a.w.trust(*a.leased.Load()) <= 0 {
		if err := a.w.extend(a.work, []*attempt{a}).Err(); err != nil {
			return err
		}
	}
	a.confirmed.Store(true)
	a.unleased() // the timer may have fired just before, and done nothing
	return nil
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
	ctx, span := a.w.o.Tracer.Attempt(a.ctx, run.Task)
	defer span.End()
	a.span = span
	e := a.execute(ctx, run)
	a.returned()
	if a.endedByOther() {
		return a.settleShared(run)
	}
	select {
	case <-a.moving:
		e.Asked = true
	default:
	}
	e.Reason, e.Timeout = task.CutError(e.Reason, task.ErrorLimit), a.w.o.Types.Timeout(run.Task.Definition)
	took := clock.Since(start)
	a.w.noteResponse(took)
	a.w.o.Metrics.AttemptSeconds.WithLabelValues(a.w.label(run.Task.Type)).Observe(took.Seconds())
	a.pauseKeys(run.Task, e)
	return a.report(run, e)
}

// pauseKeys pauses the limits of the keys of a task whose attempt asks for that. It comes before the end is reported,
// which frees the slots of the task. If it fails, the attempt ends as it would have.
func (a *attempt) pauseKeys(t task.Task, e tasks.Ending) {
	if err := a.w.o.Store.Rules.PauseKeysOf(a.work, t, e.Pause, e.Reason); err != nil {
		a.w.o.Log.Warn("cannot pause the limit keys of a task", "delivery", a.name, "keys", t.LimitKey, "error", err)
	}
}

// execute runs the executor under the task's timeout. ctx is that of the work, with the span.
func (a *attempt) execute(ctx context.Context, run *tasks.Run) tasks.Ending {
	t := run.Task
	exec := a.w.o.Executors[t.Type] // which there is, as other attempts do not begin here
	timeout := a.w.o.Types.Timeout(t.Definition)
	if cause := context.Cause(ctx); cause != nil { // cancelled or without a lease before it has done anything
		return judge(ctx, timeout, "", cause)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errTimeout)
	defer cancel()
	lines := newLines(a.work, run, a.saveLate, a.w.o.Log)
	defer lines.close()
	result, err := guarded(func() (string, error) {
		work := described(t)
		work.Log, work.Progress, work.Save, work.Token = lines.add, lines.progress, a.save, a.share
		work.SaveSoon, work.Traceparent, work.Moving = lines.saveSoon, a.span.Traceparent(), a.moving
		return exec.Execute(ctx, work)
	})
	return judge(ctx, timeout, result, err)
}

// described describes the newest attempt of a task to its executor, except where it reports to.
func described(t task.Task) executor.Attempt {
	return executor.Attempt{Ref: t.Ref, Number: t.Attempt, Type: t.Type, Payload: t.Payload, Task: t, Checkpoint: t.Checkpoint}
}

// recorded counts an attempt whose end is recorded. If it has succeeded, it tells an executor that waits for that.
func (a *attempt) recorded(end tasks.End) {
	t := end.Run.Task
	a.span.Outcome(end.Outcome, end.Reason)
	a.w.o.Metrics.Attempts.WithLabelValues(a.w.label(t.Type), string(end.Outcome)).Inc()
	a.w.o.Log.Debug("attempt ended", "delivery", a.name, "outcome", end.Outcome, "error", end.Reason)
	if keeper, ok := a.w.o.Executors[t.Type].(executor.Keeper); ok && end.Outcome == task.OutcomeSucceeded {
		keeper.Recorded(described(t))
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
	e := judgeError(ctx, timeout, err)
	e.Pause = executor.Pause(err)
	return e
}

// judgeError is judge for an error, without the pause of limit keys.
func judgeError(ctx context.Context, timeout time.Duration, err error) tasks.Ending {
	cause := executor.Ended(ctx, err)
	switch {
	case executor.IsCancelled(err):
		return tasks.Ending{Outcome: task.OutcomeCancelled, Reason: err.Error()}
	case executor.IsPutOff(err):
		return tasks.Ending{Outcome: task.OutcomeSnoozed, Reason: err.Error(), Wait: executor.Wait(err)}
	case executor.IsMoved(err):
		return tasks.Ending{Outcome: task.OutcomeMoved, Reason: err.Error()}
	case cause == nil || executor.IsPermanent(err):
		return tasks.Ending{
			Outcome: task.OutcomeFailed, Reason: err.Error(), Final: executor.IsPermanent(err), Wait: executor.Wait(err),
			Snooze: executor.IsSnooze(err),
		}
	case errors.Is(cause, errTimeout):
		return tasks.Ending{Outcome: task.OutcomeTimeout, Reason: fmt.Sprintf("timeout after %s: %s", timeout, err)}
	case errors.Is(cause, errStopped):
		return tasks.Ending{Outcome: task.OutcomeCancelled, Reason: err.Error()}
	case errors.Is(cause, errShutdown):
		return tasks.Ending{Outcome: task.OutcomeInterrupted, Reason: cause.Error()}
	}
	return tasks.Ending{Outcome: task.OutcomeLost, Reason: cause.Error()} // the node was cut off from the others
}

// report tells Redis how the attempt ended, until there is an answer. Whatever the outcome, it returns nil or
// queue.ErrDeadLetter, so that asynq does not deliver the attempt again; any other error means that the worker ended
// before Redis answered.
func (a *attempt) report(run *tasks.Run, e tasks.Ending) error {
	for try := 0; ; try++ {
		end := run.End(e, a.redisNow(), a.w.o.Random())
		err := a.finish(end)
		if other, ok := e.After(err); ok {
			e = other
			continue
		}
		switch {
		case err == nil && end.State == task.Failed:
			a.recorded(end)
			return fmt.Errorf("%w: %s", queue.ErrDeadLetter, end.Reason)
		case err == nil:
			a.recorded(end)
			return nil
		case errors.Is(err, tasks.ErrStale) && a.shared.Load():
			return a.settleShared(run)
		case errors.Is(err, tasks.ErrStale):
			a.w.o.Metrics.Refused.Inc()
			a.span.Outcome(task.OutcomeLost, "the worker no longer held the attempt at its end")
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
