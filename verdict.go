package dts

import (
	"errors"
	"fmt"
	"time"

	"github.com/dts-sched/dts/internal/worker/executor"
)

// Permanent wraps an error after which no further attempt is made: the task has failed. nil stays nil. What Permanent,
// [RetryAfter], [Snooze], [ErrMoved] and [Cancelled] say survives further wrapping; where they wrap each other, the
// outermost one counts, and of joined errors the first.
func Permanent(err error) error { return executor.Permanent(err) }

// RetryAfter wraps an error after which the next attempt, if the task has one left, waits at least that long and a
// random share on top (see Backoff.Jitter), at most 30 days. nil stays nil.
func RetryAfter(err error, wait time.Duration) error { return executor.RetryAfter(err, wait) }

// PauseKey is [RetryAfter], and pauses the limits of the task's limit keys for that time, 1 s to 1 h: no task starts
// that shares a key with this one. It is for a service that asks for fewer calls. A longer pause stays. A key without
// a limit of its own gets one that ends with the pause. For a task without a LimitKey, it is RetryAfter. nil stays
// nil.
func PauseKey(err error, wait time.Duration) error { return executor.PauseKey(err, wait) }

// Snooze returns an error with which a handler puts its task off: it runs again after just that time, at least a
// second and at most 30 days, and the attempt does not count. Another error may wrap it and say why. It counts as a
// failure after 1,000 attempts, and if it would be due later than Retry.MaxElapsed allows. What a checkpoint has saved
// is there again.
func Snooze(wait time.Duration) error {
	return executor.PutOff(fmt.Errorf("snoozed for %s", wait), wait)
}

// Cancelled wraps the reason why a handler has given up a task that nobody needs any more: it ends as cancelled, not
// as failed. nil stays nil.
func Cancelled(reason error) error { return executor.Cancelled(reason) }

// ErrMoved is what a handler returns that has saved its checkpoint, so that another worker goes on with its task: as
// it was asked to by [Moving], or by its own choice. The task is due again at once, and the attempt does not count.
// Another error may wrap it and say why. It counts as a failure after 1,000 attempts, and later than Retry.MaxElapsed
// allows.
var ErrMoved = executor.Moved(errors.New("moved: another worker goes on"))

// Why the context of a handler ended, by context.Cause. Any other cause means that another worker may run the task:
// stop at once.
var (
	ErrTimeout   = executor.ErrTimeout   // the Timeout of the attempt is over
	ErrCancelled = executor.ErrCancelled // somebody cancelled the task
	// ErrShutdown: the worker stops. The task runs again elsewhere, and the attempt does not count.
	ErrShutdown = executor.ErrShutdown
)
