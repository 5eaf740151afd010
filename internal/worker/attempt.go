package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/worker/executor"
)

var errTwice = errors.New("it runs on this node already")

// attempt is one attempt on this node, from the delivery's arrival to the report of its end.
type attempt struct {
	w       *Worker
	name    string          // of the delivery
	ctx     context.Context // of the executor's work
	cancel  context.CancelCauseFunc
	release func()          // of the others' trust
	work    context.Context // of reports: it outlives ctx
	run     atomic.Pointer[store.Run]
}

func (a *attempt) end() {
	a.cancel(nil)
	a.release()
	<-a.w.slots
}

// begin asks Redis for the attempt until there is an answer. If the connection breaks, nobody knows whether the
// attempt has begun, so the question is repeated with the same token: giving up could leave an attempt that
// counts as running and that nobody runs. Error: store.ErrLeftover, or that the worker ends first; what may have
// begun then is found when the node has left.
func (a *attempt) begin(ref task.Ref, number int) error {
	token := a.w.token()
	for tries := 0; ; tries++ {
		if errors.Is(context.Cause(a.ctx), errShutdown) {
			return fmt.Errorf("delivery %s: %w", a.name, errShutdown)
		}
		err := a.tryBegin(ref, number, token)
		if err == nil || errors.Is(err, store.ErrLeftover) {
			return err
		}
		a.complain(tries, "cannot begin", err)
		if err := pause(a.work); err != nil {
			return fmt.Errorf("delivery %s: %w", a.name, err)
		}
	}
}

// tryBegin asks once. The trust of the others in this node is looked at first: a node that is cut off begins
// nothing, since its attempts would end as lost before they have done anything; and if the trust ends while the
// question is on its way, the work ends with it, even if there is new trust by then.
func (a *attempt) tryBegin(ref task.Ref, number int, token string) error {
	trust, release := a.w.o.Members.Guard(a.work)
	if trust.Err() != nil {
		release()
		return context.Cause(trust)
	}
	run, err := a.w.o.Store.Begin(a.work, ref, number, a.w.o.Node, token)
	if err != nil {
		release()
		return err
	}
	// Without grace: somebody else is about to do the work.
	detach := context.AfterFunc(trust, func() { a.cancel(fmt.Errorf("%w: %w", executor.ErrNoGrace, context.Cause(trust))) })
	a.release = func() { detach(); release() }
	a.run.Store(run)
	if !run.Task.CancelRequested.IsZero() { // it was asked to stop before the answer came
		a.cancel(errStopped)
	}
	a.w.o.Metrics.BeginLateness.Observe(run.Task.StartedAt.Sub(run.Task.DueAt).Seconds())
	return nil
}

// stopIfAsked ends the work if Redis says that the task was asked to stop. Before begin is answered there is nothing to
// ask about: its answer tells. If Redis cannot be asked, the report of the end brings it up.
func (a *attempt) stopIfAsked(ctx context.Context) {
	run := a.run.Load()
	if run == nil {
		return
	}
	asked, err := run.CancelRequested(ctx)
	if err != nil {
		a.w.o.Log.Warn("cannot ask whether a task was cancelled", "delivery", a.name, "error", err)
	}
	if asked {
		a.cancel(errStopped)
	}
}

// complain reports the first of several failures.
func (a *attempt) complain(tries int, what string, err error) {
	if tries == 0 {
		a.w.o.Log.Warn(what+", trying again", "delivery", a.name, "error", err)
	}
}

// ending is how an attempt ended.
type ending struct {
	outcome task.Outcome
	result  string
	reason  string
	final   bool // no further attempt makes sense, whatever the policy says
}

// perform has the work done and reports its end.
func (a *attempt) perform() error {
	run := a.run.Load()
	start := clock.Now()
	e := a.execute(run)
	e.reason = task.Cut(e.reason, task.ErrorLimit)
	a.w.o.Metrics.AttemptSeconds.WithLabelValues(a.w.label(run.Task.Type)).Observe(clock.Since(start).Seconds())
	a.w.o.Metrics.Attempts.WithLabelValues(a.w.label(run.Task.Type), string(e.outcome)).Inc()
	a.w.o.Log.Debug("attempt ended", "delivery", a.name, "outcome", e.outcome, "error", e.reason)
	return a.report(run, e)
}

// execute runs the executor under the task's timeout.
func (a *attempt) execute(run *store.Run) ending {
	t := run.Task
	exec, known := a.w.o.Executors[t.Type]
	if !known {
		return ending{outcome: task.OutcomeFailed, reason: fmt.Sprintf("node %s has no executor for tasks of type %q", a.w.o.Node, t.Type)}
	}
	timeout := a.w.o.Types.Timeout(t.Definition)
	ctx, cancel := context.WithTimeoutCause(a.ctx, timeout, errTimeout)
	defer cancel()
	lines := newLines(a.work, run, a.w.o.Log)
	defer lines.close()
	result, err := guarded(func() (string, error) {
		return exec.Execute(ctx, executor.Attempt{
			Ref: t.Ref, Number: t.Attempt, Type: t.Type, Payload: t.Payload, Log: lines.add,
			Progress: lines.progress,
		})
	})
	return judge(ctx, timeout, result, err)
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

// judge names the outcome.
func judge(ctx context.Context, timeout time.Duration, result string, err error) ending {
	if err == nil {
		return ending{outcome: task.OutcomeSucceeded, result: result}
	}
	var invalid *executor.InvalidPayloadError
	if errors.As(err, &invalid) {
		return ending{outcome: task.OutcomeFailed, reason: err.Error(), final: true}
	}
	cause := context.Cause(ctx)
	switch {
	case cause == nil:
		return ending{outcome: task.OutcomeFailed, reason: err.Error()}
	case errors.Is(cause, errTimeout):
		return ending{outcome: task.OutcomeTimeout, reason: fmt.Sprintf("timeout after %s: %s", timeout, err)}
	case errors.Is(cause, errStopped):
		return ending{outcome: task.OutcomeCancelled, reason: err.Error()}
	}
	return ending{outcome: task.OutcomeLost, reason: cause.Error()} // shut down, or cut off from the others
}

// report tells Redis how the attempt ended, until there is an answer: succeeded, due again, or finally failed.
// Whatever it says, the delivery is done with, so asynq must not deliver it again.
func (a *attempt) report(run *store.Run, e ending) error {
	for tries := 0; ; tries++ {
		dead, err := a.tell(run, e)
		switch {
		case err == nil && dead:
			return fmt.Errorf("%w: %s", queue.ErrDeadLetter, e.reason)
		case err == nil:
			return nil
		case errors.Is(err, store.ErrCancelled):
			e.outcome = task.OutcomeCancelled
			continue
		case errors.Is(err, store.ErrStale):
			a.w.o.Metrics.Refused.Inc()
			a.w.o.Log.Warn("the attempt is not this worker's any more", "delivery", a.name, "outcome", e.outcome)
			return nil
		}
		a.complain(tries, "cannot report", err)
		if err := pause(a.work); err != nil {
			return fmt.Errorf("delivery %s: %w", a.name, err)
		}
	}
}

// tell reports the ending once; dead says that it made the task a dead letter.
func (a *attempt) tell(run *store.Run, e ending) (dead bool, _ error) {
	t := run.Task
	switch {
	case e.outcome == task.OutcomeSucceeded:
		return false, run.Finish(a.work, task.Succeeded, e.outcome, e.result, "")
	case e.outcome == task.OutcomeCancelled:
		return false, run.Finish(a.work, task.Cancelled, e.outcome, "", e.reason)
	case e.final || t.Attempt >= t.Allowed:
		return true, run.Finish(a.work, task.Failed, e.outcome, "", e.reason)
	case e.outcome == task.OutcomeLost:
		return false, run.Reattempt(a.work, 0, e.outcome, e.reason)
	}
	return false, run.Reattempt(a.work, a.delay(t), e.outcome, e.reason)
}

// delay is the wait before the next attempt. After a rerun the policy starts over.
func (a *attempt) delay(t task.Task) time.Duration {
	made := t.Attempt - (t.Allowed - t.Retry.Attempts())
	return t.Retry.After(made, a.w.o.Random())
}
