package task

import (
	"fmt"
	"time"
)

// PutOff decides about an attempt whose handler said at the given time that the task is to run again after a wait. The
// next one is due just then. The policy does not count this one, so that the task may make one more. It is an error if
// it counts as any other that failed: the number of all attempts is bounded, and their time is by MaxElapsed.
func (t Task) PutOff(at time.Time, wait time.Duration) (due time.Time, _ error) {
	due = at.Add(min(max(wait, LeastSnooze), BackoffLimit).Round(time.Millisecond))
	switch {
	case t.Attempt >= AttemptsLimit:
		return due, fmt.Errorf("not put off again: %d attempts were made", t.Attempt)
	case t.Retry.MaxElapsed > 0 && due.Sub(t.firstDue()) > t.Retry.MaxElapsed:
		return due, fmt.Errorf("not put off again: retry.max_elapsed (%s) would be over", t.Retry.MaxElapsed)
	}
	return due, nil
}

// Interrupted reports whether another attempt follows one that ended at the given time because its worker shut down. It
// is due at once, and the policy does not count this one. There is none if the task is run at most once, or if the
// bounds of all attempts are reached.
func (t Task) Interrupted(at time.Time) bool {
	within := t.Retry.MaxElapsed == 0 || at.Sub(t.firstDue()) <= t.Retry.MaxElapsed
	return within && t.Policy().MaxAttempts > 1 && t.Attempt < AttemptsLimit
}
