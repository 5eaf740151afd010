package dts

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/dts-sched/dts/internal/api/rest"
)

// Code is the kind of an [Error]. Codes are stable.
type Code string

// The codes of errors.
const (
	CodeInvalid          Code = "invalid"            // a field is invalid; Error.Field names it
	CodeTaskNotFound     Code = "task_not_found"     // the namespace has no task with this id
	CodeTaskConflict     Code = "task_conflict"      // a task with this id, and other content, exists
	CodeTaskNotWaiting   Code = "task_not_waiting"   // a worker has the task, or it has ended: it cannot be changed
	CodeTaskFinished     Code = "task_finished"      // the task has ended
	CodeTaskNotFinished  Code = "task_not_finished"  // the task has not ended
	CodeTaskNotRunning   Code = "task_not_running"   // the task, or the run of a workflow, does not run
	CodeTaskCannotMove   Code = "task_cannot_move"   // dtsd runs the task by itself: only handlers and workers by HTTP give work up
	CodeTaskIsStep       Code = "task_is_step"       // the task is a step of a run of a workflow, and is changed with its run only
	CodeTaskNotARun      Code = "task_not_a_run"     // the task is no run of a workflow
	CodeTaskChanged      Code = "task_changed"       // somebody else changed the task at the same moment
	CodeQueueFull        Code = "queue_full"         // as many tasks wait in the queue as its capacity allows
	CodeNodeNotFound     Code = "node_not_found"     // no node has this id or name
	CodeLimitNotFound    Code = "limit_not_found"    // no limit has that name
	CodeQueueNotFound    Code = "queue_not_found"    // no worker node has served this queue, and no task was put into it
	CodeTooManyNames     Code = "too_many_names"     // nobody runs the task, and too many queues and types wait
	CodeTooManyCordons   Code = "too_many_cordons"   // so many ids and names of nodes are cordoned
	CodeScheduleNotFound Code = "schedule_not_found" // the namespace has no schedule with this id
	CodeScheduleChanged  Code = "schedule_changed"   // another revision is in force than the one that was named
	CodeScheduleBusy     Code = "schedule_busy"      // the overlap policy of the schedule does not allow a run now
	CodeRevisionNotFound Code = "revision_not_found" // the schedule never had this revision, or has forgotten it
	CodeWorkflowNotFound Code = "workflow_not_found" // the namespace has no workflow with this id
	CodeWorkflowChanged  Code = "workflow_changed"   // another revision is in force than the one that was named
	CodeLockHeld         Code = "lock_held"          // somebody else holds the lock
	CodeLockLost         Code = "lock_lost"          // the lock is no longer held, or may not be
	CodeNotFound         Code = "not_found"          // the server does not serve the request: it is older than this package, or a node without the role api
	CodeBodyTooLarge     Code = "body_too_large"     // the request is too long
	CodeOverloaded       Code = "overloaded"         // too many submissions wait at the server; nothing was done
	CodeUnavailable      Code = "unavailable"        // the server or Redis cannot be reached, or Redis is nearly full
	CodeNotReplicated    Code = "not_replicated"     // it was done, but too few replicas of Redis have it: a failover may lose it, or has lost it; repeat the call
	CodeDataUnreadable   Code = "data_unreadable"    // what Redis has of the task or the schedule cannot be read
	CodeInternal         Code = "internal"           // a fault of DTS
	CodeSignalGiven      Code = "signal_given"       // the run was given the signal already, with other data
	CodeStepNotWaiting   Code = "step_not_waiting"   // the step waits for no approval, or not yet, or not any more
	// CodeWorkflowRevisionNotFound says that the workflow never had this revision, or that it is not kept any more.
	CodeWorkflowRevisionNotFound Code = "workflow_revision_not_found"
)

// Error is why DTS did not do what it was asked for. Of invalid input, Code, Field and Message are the same over
// both ways in.
type Error struct {
	Code    Code
	Field   string // the field at fault, as the REST API names it, such as "retry.backoff.factor"; "": none
	Message string // says what is wrong, for people
	// RetryAfter is how long to wait before the same call may succeed, with CodeQueueFull, CodeOverloaded, CodeUnavailable and
	// CodeNotReplicated of a server; 0: not known.
	RetryAfter time.Duration
	RequestID  string // names the request in the server's log; "" where no server answered
	Err        error  // the cause; nil: none
}

// Error returns the message and the code.
func (e *Error) Error() string { return fmt.Sprintf("%s (%s)", e.Message, e.Code) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the code of the first *Error in the chain of err; "" if there is none.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// endError is the error of a context that ended for a reason of its own: both.
type endError struct{ err, cause error }

func (e *endError) Error() string   { return fmt.Sprintf("%v: %v", e.err, e.cause) }
func (e *endError) Unwrap() []error { return []error{e.err, e.cause} }

// endOf returns the error of a context that has ended, with its cause if that is another one.
func endOf(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if err == cause { //nolint:errorlint // a cause that wraps it says more
		return err
	}
	return &endError{err, cause}
}

// ofContext returns the error of the caller's context, if that is why a request has no answer. The limit that the client itself sets on the time of
// a request is another error.
func ofContext(err error) error {
	var end *endError
	var transport *url.Error
	if errors.As(err, &end) {
		return end
	}
	if errors.As(err, &transport) && (transport.Err == context.Canceled || transport.Err == context.DeadlineExceeded) { //nolint:errorlint // the limit of the client is a DeadlineExceeded for errors.Is
		return transport.Err
	}
	return nil
}

// errorIn is errorOf for calls that return the error of ctx themselves.
func errorIn(ctx context.Context, err error) error {
	if err = errorOf(err); err != nil && err == ctx.Err() { //nolint:errorlint // an *Error can wrap it
		return endOf(ctx)
	}
	return err
}

// errorOf turns an error of package rest into an *Error. Errors of the caller's context stay what they are.
func errorOf(err error) error {
	var unreachable *rest.Unreachable
	refusal := rest.RefusalIn(err)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrClosed):
		return ErrClosed
	case ofContext(err) != nil:
		return ofContext(err)
	case refusal != nil:
		e := &Error{Code: Code(refusal.Code), Message: refusal.Detail, RequestID: refusal.RequestID}
		if refusal.Field != nil {
			e.Field = *refusal.Field
		}
		if refusal.RetryAfter != nil {
			e.RetryAfter = time.Duration(*refusal.RetryAfter) * time.Second
		}
		return e
	case errors.As(err, &unreachable):
		return &Error{Code: CodeUnavailable, Message: "cannot reach the server: " + unreachable.Error(), Err: err}
	}
	return err
}
