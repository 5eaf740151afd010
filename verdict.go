package dts

import (
	"time"

	"github.com/dts-sched/dts/internal/worker/executor"
)

// Permanent wraps an error after which no further attempt is made: the task has failed. nil stays nil.
func Permanent(err error) error { return judged(verdict{error: err, kind: permanent}) }

// RetryAfter wraps an error after which the next attempt, if the task has one left, waits at least that long, at most 30 days.
// nil stays nil.
func RetryAfter(err error, wait time.Duration) error {
	return judged(verdict{error: err, kind: retryAfter, wait: wait})
}

// Cancelled wraps the reason why a handler has given up a task that nobody needs any more: it ends as cancelled, not as failed. nil
// stays nil.
func Cancelled(reason error) error { return judged(verdict{error: reason, kind: cancelled}) }

func judged(v verdict) error {
	if v.error == nil {
		return nil
	}
	return &v
}

// Why the context of a handler ended, by context.Cause. Any other cause means that another worker may run the task: stop at once.
var (
	ErrTimeout   = executor.ErrTimeout   // the Timeout of the attempt is over
	ErrCancelled = executor.ErrCancelled // somebody cancelled the task
	ErrShutdown  = executor.ErrShutdown  // the worker stops: the task runs again elsewhere
)

// verdict is an error that says what it means for the task.
type verdict struct {
	error
	kind verdictKind
	wait time.Duration
}

type verdictKind int

const (
	permanent verdictKind = iota
	retryAfter
	cancelled
)

// Unwrap returns the error itself.
func (v *verdict) Unwrap() error { return v.error }
