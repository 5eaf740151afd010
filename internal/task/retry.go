package task

import (
	"math"
	"time"
)

// Retry says how often a task is tried and how long to wait before each further attempt: either by a
// growing Backoff or by an explicit list of Delays. The zero value is the default policy.
type Retry struct {
	MaxAttempts int             // attempts in all; 0: DefaultMaxAttempts, or one more than there are Delays
	Backoff     Backoff         // used where Delays is empty
	Delays      []time.Duration // before attempt 2, 3, ...; the last one is repeated
}

// Backoff is exponential: Initial, then Factor times as long each time, at most Max, give or take Jitter.
type Backoff struct {
	Initial time.Duration
	Factor  float64
	Max     time.Duration
	Jitter  *float64 // a share of the delay, 0 to 1; nil: DefaultBackoffJitter
}

// Attempts is the number of attempts the policy allows.
func (r Retry) Attempts() int {
	switch {
	case r.MaxAttempts > 0:
		return r.MaxAttempts
	case len(r.Delays) > 0:
		return len(r.Delays) + 1
	}
	return DefaultMaxAttempts
}

// Resolved is the backoff with every default filled in.
func (b Backoff) Resolved() Backoff {
	if b.Initial == 0 {
		b.Initial = DefaultBackoffInitial
	}
	if b.Factor == 0 {
		b.Factor = DefaultBackoffFactor
	}
	if b.Max == 0 {
		b.Max = DefaultBackoffMax
	}
	if b.Jitter == nil {
		jitter := DefaultBackoffJitter
		b.Jitter = &jitter
	}
	return b
}

// After is how long to wait after the nth failed attempt (from 1) before the next one. random is a
// number in [0, 1) and decides where in the jitter's range the delay falls.
func (r Retry) After(n int, random float64) time.Duration {
	n = max(n, 1)
	if len(r.Delays) > 0 {
		return r.Delays[min(n, len(r.Delays))-1]
	}
	b := r.Backoff.Resolved()
	wait := math.Min(float64(b.Initial)*math.Pow(b.Factor, float64(n-1)), float64(b.Max))
	wait *= 1 + *b.Jitter*(2*random-1)
	return time.Duration(wait).Round(time.Millisecond)
}
