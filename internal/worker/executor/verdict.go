package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// PermanentError says that no further attempt can succeed.
type PermanentError struct{ Err error }

func (e *PermanentError) Error() string { return e.Err.Error() }

// Unwrap returns the error itself.
func (e *PermanentError) Unwrap() error { return e.Err }

// Permanent wraps an error after which there is no further attempt.
func Permanent(err error) error { return &PermanentError{err} }

// RetryAfterError says that the next attempt must not begin before some time has passed.
type RetryAfterError struct {
	Err  error
	Wait time.Duration // from the end of this attempt on; longer ones than task.BackoffLimit count as that
}

func (e *RetryAfterError) Error() string { return e.Err.Error() }

// Unwrap returns the error itself.
func (e *RetryAfterError) Unwrap() error { return e.Err }

// RetryAfter wraps an error after which the next attempt waits at least that long.
func RetryAfter(err error, wait time.Duration) error { return &RetryAfterError{err, wait} }

// CancelledError says that the work was given up because nobody needs it any more. The task ends as cancelled.
type CancelledError struct{ Err error }

func (e *CancelledError) Error() string { return e.Err.Error() }

// Unwrap returns the error itself.
func (e *CancelledError) Unwrap() error { return e.Err }

// Cancelled wraps the reason to give up the work.
func Cancelled(reason error) error { return &CancelledError{reason} }

// IsCancelled reports whether err says that the work was given up.
func IsCancelled(err error) bool {
	var cancelled *CancelledError
	return errors.As(err, &cancelled)
}

// IsPermanent reports whether no attempt can succeed after err: a *PermanentError or an *InvalidPayloadError.
func IsPermanent(err error) bool {
	var permanent *PermanentError
	var invalid *InvalidPayloadError
	return errors.As(err, &permanent) || errors.As(err, &invalid)
}

// Wait returns how long the next attempt after err must wait at least; 0 if err does not say.
func Wait(err error) time.Duration {
	var after *RetryAfterError
	if errors.As(err, &after) {
		return max(after.Wait, 0)
	}
	return 0
}

// Failure returns the error with which Execute returns after a call of somebody else's service. call names the call; if ctx has ended, the
// error says that of it and why. An error that says what follows is to be short, and stays as it is; the text of any other is cut.
func Failure(ctx context.Context, call string, err error) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", call, context.Cause(ctx))
	case IsPermanent(err) || Wait(err) > 0:
		return err
	}
	return errors.New(task.Cut(err.Error(), task.ErrorLimit))
}
