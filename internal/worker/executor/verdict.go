package executor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/task"
)

// Verdict is an error that says what follows it. Of verdicts that wrap each other the outermost counts: who judged last knew most. Of
// joined ones it is the first.
type Verdict struct {
	Err     error
	Follows Follows
	Wait    time.Duration // with FollowsWait, FollowsSnooze and FollowsPutOff: from the end of this attempt on; longer ones than task.BackoffLimit count as that
	Pauses  bool          // for Wait, no task that shares a limit key with this one is to start
}

// Follows is what follows an error.
type Follows int

// What follows an error.
const (
	FollowsNothing   Follows = iota // the task has failed: no further attempt can succeed
	FollowsWait                     // the next attempt does not begin before some time has passed
	FollowsSnooze                   // as FollowsWait, and the attempt does not count, as far as the task may be snoozed
	FollowsPutOff                   // the task runs again after just that time, and the attempt does not count
	FollowsMove                     // the task runs again at once, on another worker if one is free, and the attempt does not count
	FollowsCancelled                // the task ends as cancelled: nobody needs it any more
)

func (v *Verdict) Error() string { return v.Err.Error() }

// Unwrap returns the error itself.
func (v *Verdict) Unwrap() error { return v.Err }

// Permanent wraps an error after which there is no further attempt. nil stays nil.
func Permanent(err error) error { return judged(Verdict{Err: err, Follows: FollowsNothing}) }

// RetryAfter wraps an error after which the next attempt waits at least that long. nil stays nil.
func RetryAfter(err error, wait time.Duration) error {
	return judged(Verdict{Err: err, Follows: FollowsWait, Wait: max(wait, 0)})
}

// Snooze wraps an error of a target that asks to be called again after that time. nil stays nil.
func Snooze(err error, wait time.Duration) error {
	return judged(Verdict{Err: err, Follows: FollowsSnooze, Wait: max(wait, 0)})
}

// PauseKey wraps an error after which neither the next attempt nor any task that shares a limit key with its task is to
// start within that time. What follows the error otherwise stays as it is. nil stays nil.
func PauseKey(err error, wait time.Duration) error {
	v := Verdict{Err: err, Follows: FollowsWait}
	if before := VerdictIn(err); before != nil {
		v.Follows = before.Follows
	}
	v.Wait, v.Pauses = max(wait, time.Second), true
	return judged(v)
}

// PutOff wraps the reason why work is to be done later: its handler says so. nil stays nil.
func PutOff(reason error, wait time.Duration) error {
	return judged(Verdict{Err: reason, Follows: FollowsPutOff, Wait: max(wait, 0)})
}

// Moved wraps the reason to give up work so that another worker goes on with it. nil stays nil.
func Moved(reason error) error { return judged(Verdict{Err: reason, Follows: FollowsMove}) }

// Cancelled wraps the reason to give up work that nobody needs any more. nil stays nil.
func Cancelled(reason error) error { return judged(Verdict{Err: reason, Follows: FollowsCancelled}) }

func judged(v Verdict) error {
	if v.Err == nil {
		return nil
	}
	return &v
}

// VerdictIn returns the verdict that counts in err, nil if it has none: then the policy of the task decides. A payload that is invalid stays
// so for each attempt.
func VerdictIn(err error) *Verdict {
	var verdict *Verdict
	var invalid *InvalidPayloadError
	switch {
	case errors.As(err, &verdict):
		return verdict
	case errors.As(err, &invalid):
		return &Verdict{Err: invalid, Follows: FollowsNothing}
	}
	return nil
}

// IsCancelled reports whether err says that the work was given up.
func IsCancelled(err error) bool { return follows(err, FollowsCancelled) }

// IsSnooze reports whether err says that its target asks to be called again later.
func IsSnooze(err error) bool { return follows(err, FollowsSnooze) }

// IsPutOff reports whether err says that the handler has put its task off.
func IsPutOff(err error) bool { return follows(err, FollowsPutOff) }

// IsMoved reports whether err says that another worker is to go on.
func IsMoved(err error) bool { return follows(err, FollowsMove) }

// IsPermanent reports whether no attempt can succeed after err.
func IsPermanent(err error) bool { return follows(err, FollowsNothing) }

func follows(err error, what Follows) bool {
	v := VerdictIn(err)
	return v != nil && v.Follows == what
}

// Wait returns how long the next attempt after err must wait at least; 0 if err does not say.
func Wait(err error) time.Duration {
	if v := VerdictIn(err); v != nil {
		return v.Wait
	}
	return 0
}

// Pause returns how long err asks that no task starts that shares a limit key with its task; 0 if it does not.
func Pause(err error) time.Duration {
	if v := VerdictIn(err); v != nil && v.Pauses {
		return v.Wait
	}
	return 0
}

// Brief returns an error with the verdict of err and as much of its text as a task keeps. One that is brief stays as it is.
func Brief(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	kept := task.CutError(strings.ToValidUTF8(text, "\uFFFD"), task.ErrorLimit)
	verdict := VerdictIn(err)
	switch {
	case kept == text:
		return err
	case verdict == nil:
		return errors.New(kept)
	}
	brief := *verdict
	brief.Err = errors.New(kept)
	return &brief
}

// Failure returns the error with which Execute returns after a call of somebody else's service. call names the call; if
// ctx has ended, the error says that of it and why; of a cancellation, which is no fault of the service, only that.
func Failure(ctx context.Context, call string, err error) error {
	switch cause := Ended(ctx, err); {
	case cause == nil:
		return Brief(err)
	case errors.Is(cause, ErrCancelled):
		return cause
	default:
		return fmt.Errorf("%s: %w", call, cause)
	}
}

// deadlineSlack is how long before the deadline of an attempt somebody else's word counts that it has passed: their clock
// runs faster, or they leave themselves a margin.
const deadlineSlack = 50 * time.Millisecond

// Ended returns the cause of the end of ctx, nil if ctx has not ended. err came from work under ctx. The deadline of ctx is
// known to sockets and to servers as well, and they may tell of it before the timer of ctx fires. Ended waits for the timer
// then.
func Ended(ctx context.Context, err error) error {
	deadline, ok := ctx.Deadline()
	if ctx.Err() != nil || err == nil || !ok {
		return context.Cause(ctx)
	}
	left := clock.Until(deadline)
	if left <= 0 || left <= deadlineSlack && errors.Is(err, context.DeadlineExceeded) {
		<-ctx.Done()
	}
	return context.Cause(ctx)
}
