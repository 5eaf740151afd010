package limit

import "time"

// Bucket are the tokens of a rate, as of the generic cell rate algorithm (GCRA): it is one time, by Redis's clock. The
// script "settle" has the same rule; a test compares both.
type Bucket struct {
	// Full is when the bucket is full again if nobody takes a token. Zero, or a time that is over: it is full.
	Full time.Time
}

// Take takes up to n tokens. It returns how many it took, and when there is a further one; zero if there is one now.
func (b *Bucket) Take(r Rule, now time.Time, n int) (took int, next time.Time) {
	each := r.Per / time.Duration(r.Rate)
	size := time.Duration(r.Tokens()) * each
	full := b.Full
	if full.Before(now) {
		full = now
	}
	free := int((size - full.Sub(now)) / each)
	took = max(0, min(n, free))
	b.Full = full.Add(time.Duration(took) * each)
	if took < free {
		return took, time.Time{}
	}
	return took, b.Full.Add(each - size)
}

// When returns when the bucket has n tokens if nobody takes one.
func (b *Bucket) When(r Rule, n int) time.Time {
	each := r.Per / time.Duration(r.Rate)
	return b.Full.Add(time.Duration(n-r.Tokens()) * each)
}

// Tokens is how many tokens a full bucket has.
func (r Rule) Tokens() int {
	if r.Burst > 0 {
		return r.Burst
	}
	return r.Rate
}
