package task

import (
	"cmp"
	"fmt"
	"math"
	"time"
)

// Retry is a retry policy: how many attempts a task has, and how long to wait before each further one. The wait comes
// either from Backoff, which grows, or from the list Delays. The zero value is the default policy.
type Retry struct {
	MaxElapsed  time.Duration   // no further attempt is due longer than this after the first was, in whole ms; 0: no limit
	MaxAttempts int             // including the first; 0: one more than there are Delays, or the default without Delays
	Backoff     Backoff         // used if Delays is empty
	Delays      []time.Duration // before attempt 2, 3, ..., in whole ms; the last one applies to all further attempts
}

// Backoff is an exponential backoff: the first wait is Initial, and each further one is Factor times as long, but at
// most Max. Without Jitter, a wait is drawn at random from 0 to its full length. Jitter instead makes it longer or
// shorter by a random share. Zero values mean the defaults.
type Backoff struct {
	Initial time.Duration
	Factor  float64
	Max     time.Duration
	Jitter  *float64 // the greatest share of the wait to add or take away, 0 to 1; nil: the default of the task
}

// Policy is the retry policy of the task, with the defaults in place of what its definition leaves out.
func (t Task) Policy() Retry { return t.Retry.resolved(t.defaultRetry()) }

// defaultRetry is the policy of tasks whose definition has none. Its jitter is nil if waits are drawn from 0 on.
func (t Task) defaultRetry() Retry {
	r := Retry{
		MaxAttempts: DefaultMaxAttempts,
		Backoff:     Backoff{Initial: DefaultBackoffInitial, Factor: DefaultBackoffFactor, Max: DefaultBackoffMax},
	}
	if t.Earlier || t.Type == CommandType {
		jitter := CommandBackoffJitter
		r.MaxAttempts, r.Backoff.Max, r.Backoff.Jitter = CommandMaxAttempts, CommandBackoffMax, &jitter
	}
	return r
}

// resolved returns the policy with those defaults in place of zero values.
func (r Retry) resolved(defaults Retry) Retry {
	if len(r.Delays) > 0 {
		r.MaxAttempts = cmp.Or(r.MaxAttempts, len(r.Delays)+1)
		return r
	}
	r.MaxAttempts = cmp.Or(r.MaxAttempts, defaults.MaxAttempts)
	r.Backoff = Backoff{
		Initial: cmp.Or(r.Backoff.Initial, defaults.Backoff.Initial),
		Factor:  cmp.Or(r.Backoff.Factor, defaults.Backoff.Factor),
		Max:     cmp.Or(r.Backoff.Max, defaults.Backoff.Max),
		Jitter:  cmp.Or(r.Backoff.Jitter, defaults.Backoff.Jitter),
	}
	return r
}

// isDefault reports whether a definition leaves the whole policy to the defaults.
func (r Retry) isDefault() bool {
	return r.MaxAttempts == 0 && r.MaxElapsed == 0 && r.Backoff == (Backoff{}) && len(r.Delays) == 0
}

// MustEndBeforeTick reports whether an attempt after a failed one must be over before the next tick of the schedule
// that has created the task. A schedule whose task has a retry policy decides otherwise.
func (t Task) MustEndBeforeTick() bool {
	_, _, isTick := t.Tick()
	return !t.Earlier && t.Retry.isDefault() && isTick
}

// after returns how long to wait after the nth failed attempt (from 1) before the next one, in whole ms. The policy is
// resolved. random, from 0 to less than 1, selects the wait from the range that the jitter allows.
func (r Retry) after(n int, random float64) time.Duration {
	n = max(n, 1)
	if len(r.Delays) > 0 {
		return r.Delays[min(n, len(r.Delays))-1]
	}
	b := r.Backoff
	wait := math.Min(float64(b.Initial)*math.Pow(b.Factor, float64(n-1)), float64(b.Max))
	if b.Jitter == nil {
		wait *= random
	} else {
		wait *= 1 + *b.Jitter*(2*random-1)
	}
	return time.Duration(wait).Round(time.Millisecond)
}

// spread returns the wait that a target asked for and a random share of it on top, at most BackoffLimit, in whole ms:
// tasks that were told the same time do not come back together. The policy is resolved. random is from 0 to less than
// 1.
func (r Retry) spread(wait time.Duration, random float64) time.Duration {
	share := DefaultSpread
	if r.Backoff.Jitter != nil {
		share = *r.Backoff.Jitter
	}
	longer := time.Duration(float64(wait) * share * random)
	return min(wait+longer, BackoffLimit).Round(time.Millisecond)
}

// NextAttempt decides what follows an attempt that ended without success: another one, due at that time, or none if ok
// is false. outcome and at say how and when the attempt ended, by Redis's clock; one that was lost or interrupted is
// repeated at once. After others the next one waits as the policy says, and at least for least, with a random share on
// top and BackoffLimit at most. random, from 0 to less than 1, selects the wait from the range that the jitter allows.
//
// After a client has retried an ended task, attempts, waits and MaxElapsed count from that retry.
func (t Task) NextAttempt(outcome Outcome, at time.Time, least time.Duration, random float64) (due time.Time, ok bool) {
	if t.Attempt >= t.MaxAttempts {
		return time.Time{}, false
	}
	if !outcome.AtOnce() {
		policy := t.Policy()
		// Attempts made before it was retried, or snoozed since. A node of an earlier release may have stored a lower limit.
		before := max(t.MaxAttempts-policy.MaxAttempts, 0)
		at = at.Add(max(policy.after(t.Attempt-before, random), policy.spread(min(least, BackoffLimit), random)))
	}
	if t.Retry.MaxElapsed > 0 && at.Sub(t.firstDue()) > t.Retry.MaxElapsed {
		return time.Time{}, false
	}
	return at, true
}

// Snooze decides about an attempt whose target asked at the given time for a wait. The next one is due after the wait
// and a random share of it. The policy does not count this one, so that the task may make one more. ok is false if it
// counts as any other that failed: a task with one attempt is run at most once, and the number and the time of all
// attempts are bounded. random, from 0 to less than 1, selects the share.
func (t Task) Snooze(at time.Time, wait time.Duration, random float64) (due time.Time, ok bool) {
	policy, last := t.Policy(), t.firstDue().Add(cmp.Or(t.Retry.MaxElapsed, DefaultSnooze))
	soonest := at.Add(wait.Round(time.Millisecond))
	if due = at.Add(policy.spread(wait, random)); due.After(last) {
		due = last
	}
	return due, wait > 0 && !soonest.After(last) && t.Attempt < AttemptsLimit && policy.MaxAttempts > 1
}

// firstDue is the time from which MaxElapsed counts. Only the first attempt has no FirstDueAt yet.
func (t Task) firstDue() time.Time {
	if t.FirstDueAt.IsZero() {
		return t.DueAt
	}
	return t.FirstDueAt
}

// validateRetry checks the policy as it is for a new task.
func (d Definition) validateRetry() error {
	r := d.Retry
	switch {
	case r.MaxAttempts < 0 || r.MaxAttempts > AttemptsLimit:
		return Invalid("retry.max_attempts", "%d must be 1 to %d", r.MaxAttempts, AttemptsLimit)
	case len(r.Delays) > DelaysLimit:
		return Invalid("retry.delays", "has %d entries, at most %d are allowed", len(r.Delays), DelaysLimit)
	case len(r.Delays) > 0 && r.Backoff != (Backoff{}):
		return Invalid("retry.delays", "give backoff or delays, not both")
	}
	if err := validateSpan("retry.max_elapsed", r.MaxElapsed, HorizonLimit); err != nil {
		return err
	}
	for i, d := range r.Delays {
		if err := validateSpan(fmt.Sprintf("retry.delays[%d]", i), d, BackoffLimit); err != nil {
			return err
		}
	}
	return r.Backoff.validate(r.resolved(Task{Definition: d}.defaultRetry()).Backoff)
}

// validate checks a backoff; resolved is the same with the defaults, zero if delays take its place.
func (b Backoff) validate(resolved Backoff) error {
	if err := validateSpan("retry.backoff.initial", b.Initial, BackoffLimit); err != nil {
		return err
	}
	if err := validateSpan("retry.backoff.max", b.Max, BackoffLimit); err != nil {
		return err
	}
	if resolved == (Backoff{}) {
		return nil
	}
	switch {
	case !(resolved.Factor >= 1 && resolved.Factor <= 100): // NaN is neither
		return Invalid("retry.backoff.factor", "%g must be 1 to 100", b.Factor)
	case b.Jitter != nil && !(*b.Jitter >= 0 && *b.Jitter <= 1):
		return Invalid("retry.backoff.jitter", "%g must be 0 to 1", *b.Jitter)
	case resolved.Max < resolved.Initial:
		return Invalid("retry.backoff.max", "%s is less than initial (%s)", resolved.Max, resolved.Initial)
	}
	return nil
}
