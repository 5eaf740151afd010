package dts

import "time"

// Permanent wraps an error after which no further attempt is made: the task has failed.
func Permanent(err error) error { return &verdict{error: err, kind: permanent} }

// RetryAfter wraps an error after which the next attempt, if the task has one left, waits at least that long, at most 30 days.
func RetryAfter(err error, wait time.Duration) error {
	return &verdict{error: err, kind: retryAfter, wait: wait}
}

// Cancelled wraps the reason why a handler has given up a task that nobody needs any more: it ends as cancelled, not as failed.
func Cancelled(reason error) error { return &verdict{error: reason, kind: cancelled} }

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
