package task

import (
	"fmt"
	"strings"
	"time"
)

// expired is the begin of the error of a task that was cancelled since nobody had begun it in time.
const expired = "expired: "

// StartsBy returns by when a worker must begin the first attempt of a task; the zero time if there is no such bound, or
// if it is not known yet, as the task waits for another one with its key.
func (t Task) StartsBy() time.Time {
	if t.StartBy <= 0 || t.DueAt.IsZero() || t.WaitsForAnother() {
		return time.Time{}
	}
	return t.DueAt.Add(t.StartBy)
}

// Waiting reports whether nobody has begun a task yet, nor cancelled it.
func (t Task) Waiting() bool {
	return t.State == Scheduled && t.Attempt == 0 || t.State == Queued && t.Attempt == 1
}

// Late reports whether a task ends now, as nobody has begun it in time, and why; else when it will be late, after now.
// Both are zero if it never will.
func (t Task) Late(now time.Time) (why string, at time.Time) {
	by := t.StartsBy()
	switch {
	case by.IsZero() || !t.Waiting():
		return "", time.Time{}
	case !now.Before(by):
		return fmt.Sprintf(expired+"no worker began it within %s after it was due", t.StartBy), time.Time{}
	}
	return "", by
}

// Expired reports whether a task was cancelled since nobody had begun it in time.
func (t Task) Expired() bool { return t.State == Cancelled && strings.HasPrefix(t.Error, expired) }
