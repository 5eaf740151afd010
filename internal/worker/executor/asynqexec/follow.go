package asynqexec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/worker/executor"
)

// errGone says that the asynq task has vanished without an outcome. Whoever deleted it does not want it to run.
var errGone = executor.Permanent(errors.New("the asynq task is gone without an outcome: somebody deleted it, its handler returned asynq.RevokeTask, or its Redis lost it"))

// outcome is the end of an asynq task.
type outcome struct {
	ended  bool
	result string
	err    error // nil if it succeeded
}

// await follows the asynq task until it has ended. If ctx ends first, it stops the asynq task, but not if another attempt will follow it.
func (e *Executor) await(ctx context.Context, at location, log func(stream, line string)) (string, error) {
	f := e.poller.follow(at)
	defer e.poller.forget(f)
	retried := 0
	state := unknown
	for {
		select {
		case <-ctx.Done():
			return e.abandon(ctx, at, f, state)
		case state = <-f.changes:
		}
		switch state {
		case asynq.TaskStateRetry.String():
			retried = e.tellRetry(at, retried, log)
		case asynq.TaskStateCompleted.String(), asynq.TaskStateArchived.String(), gone:
			if end := e.outcome(at, f); end.ended {
				return end.result, end.err
			}
		}
	}
}

// tellRetry logs why asynq tries again. It returns how often asynq has.
func (e *Executor) tellRetry(at location, told int, log func(stream, line string)) int {
	info, err := e.inspector.GetTaskInfo(at.queue, at.id)
	if err != nil || info.Retried <= told { // it is only told
		return told
	}
	line := fmt.Sprintf("asynq tries again (%d of %d): %s", info.Retried, info.MaxRetry, oneLine(info.LastErr))
	log("stderr", task.Cut(line, task.LogLineLimit))
	return info.Retried
}

func oneLine(text string) string {
	return strings.Join(strings.Fields(strings.ToValidUTF8(text, "\uFFFD")), " ")
}

// outcome reads how an asynq task has ended. If that cannot be read, or it has not, the poller sends the state again.
func (e *Executor) outcome(at location, f *followed) outcome {
	info, err := e.inspector.GetTaskInfo(at.queue, at.id)
	switch {
	case errors.Is(err, asynq.ErrTaskNotFound), errors.Is(err, asynq.ErrQueueNotFound):
		return outcome{ended: true, err: errGone}
	case err != nil:
	case info.State == asynq.TaskStateCompleted:
		return outcome{ended: true, result: task.Cut(strings.ToValidUTF8(string(info.Result), "\uFFFD"), task.ResultLimit)}
	case info.State == asynq.TaskStateArchived:
		return outcome{ended: true, err: archived(info)}
	}
	e.poller.again(f)
	return outcome{}
}

// archivedError says that asynq has archived the task: its retries are used up, or the handler or a person said so.
type archivedError struct {
	retries int
	reason  string
}

func (e *archivedError) Error() string {
	return fmt.Sprintf("asynq archived the task after %d retries: %s", e.retries, e.reason)
}

// archived is the error of an archived task. Without an own one, somebody archived it by hand.
func archived(info *asynq.TaskInfo) error {
	return &archivedError{info.Retried, cmp.Or(strings.ToValidUTF8(info.LastErr, "\uFFFD"), "by hand")}
}

// abandon leaves the asynq task when ctx has ended. It goes on if this node shuts down or may not act any more, because another attempt
// follows it then. After a timeout or a cancellation it is stopped. If it has succeeded meanwhile, that is the outcome.
func (e *Executor) abandon(ctx context.Context, at location, f *followed, state string) (string, error) {
	cause := context.Cause(ctx)
	if errors.Is(cause, executor.ErrNoGrace) || errors.Is(cause, executor.ErrShutdown) {
		return "", fmt.Errorf("the asynq task goes on: %w", cause)
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	for {
		end, left := e.cease(at)
		if end.ended && end.err == nil {
			return end.result, nil
		}
		if end.ended {
			return "", fmt.Errorf("the asynq task was %s, and was stopped%s: %w", state, e.idle(at, state), cause)
		}
		e.poller.soon(f)
		select {
		case <-timer.C:
			return "", fmt.Errorf("%s; asynq may still run it: %w", left, cause)
		case <-f.changes:
		}
	}
}

// cease stops the asynq task in the state that it has now. If it has not ended by that, left says what it still does.
func (e *Executor) cease(at location) (end outcome, left string) {
	stopped := outcome{ended: true, err: errGone}
	info, err := e.inspector.GetTaskInfo(at.queue, at.id)
	switch {
	case errors.Is(err, asynq.ErrTaskNotFound), errors.Is(err, asynq.ErrQueueNotFound):
		return stopped, ""
	case err != nil:
		return outcome{}, "the asynq task cannot be stopped: " + err.Error()
	case info.State == asynq.TaskStateCompleted:
		return outcome{ended: true, result: task.Cut(strings.ToValidUTF8(string(info.Result), "\uFFFD"), task.ResultLimit)}, ""
	case info.State == asynq.TaskStateActive:
		_ = e.inspector.CancelProcessing(at.id) // if the message is lost, the next look sends another one
		return outcome{}, fmt.Sprintf("the asynq task did not stop within %s", grace)
	}
	if err := e.inspector.DeleteTask(at.queue, at.id); err != nil && !errors.Is(err, asynq.ErrTaskNotFound) {
		return outcome{}, "the asynq task cannot be deleted: " + err.Error()
	}
	return stopped, ""
}

// idle explains why a task was pending all the time, if no server serves its queue.
func (e *Executor) idle(at location, state string) string {
	if state == asynq.TaskStatePending.String() && !e.consumers.served(at.queue) {
		return fmt.Sprintf(" (no living server of asynq serves its queue %q)", task.Cut(at.queue, nameLimit))
	}
	return ""
}
