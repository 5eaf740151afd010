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
	return due, t.checkUncounted("put off", due, t.Retry.MaxElapsed)
}

// Moved decides about an attempt whose handler gave it up at the given time, so that another worker goes on. The next
// one is due at once. The policy does not count this one. Error: as for PutOff; but if somebody asked the handler,
// MaxElapsed bounds nothing.
func (t Task) Moved(at time.Time, asked bool) error {
	within := t.Retry.MaxElapsed
	if asked {
		within = 0
	}
	return t.checkUncounted("moved", at, within)
}

// checkUncounted returns why an attempt counts though it was put off or moved, as done says; nil if it does not count.
// within is how long after the first attempt the next one must be due; 0 for any time.
func (t Task) checkUncounted(done string, due time.Time, within time.Duration) error {
	switch {
	case t.Attempt >= AttemptsLimit:
		return fmt.Errorf("not %s again: %d attempts were made", done, t.Attempt)
	case within > 0 && due.Sub(t.firstDue()) > within:
		return fmt.Errorf("not %s again: retry.max_elapsed (%s) would be over", done, t.Retry.MaxElapsed)
	}
	return nil
}

// Interrupted reports whether another attempt follows one that ended at the given time because its worker shut down. It
// is due at once, and the policy does not count this one. There is none if the task is run at most once, or if the
// bounds of all attempts are reached.
func (t Task) Interrupted(at time.Time) bool {
	within := t.Retry.MaxElapsed == 0 || at.Sub(t.firstDue()) <= t.Retry.MaxElapsed
	return within && t.Policy().MaxAttempts > 1 && t.Attempt < AttemptsLimit
}
