package rollup

import (
	"math/bits"
	"time"
)

// buckets is how many buckets a histogram has: four for each doubling, from 1 ms to 24 days.
const buckets = 4 * 31

// Histogram counts durations in buckets, each at most a quarter wider than the one before it.
type Histogram struct {
	Counts []uint32 // by bucket, without the empty ones at the end
	Max    time.Duration
}

// bucketOf returns the bucket of a duration.
func bucketOf(d time.Duration) int {
	ms := uint64(max(d.Milliseconds(), 1))
	octave := bits.Len64(ms) - 1
	return min(4*octave+int(ms<<2>>octave&3), buckets-1)
}

// upper is the end of a bucket: the begin of the next one.
func upper(bucket int) time.Duration {
	octave, quarter := bucket/4, bucket%4
	return time.Duration(5+quarter) << octave * time.Millisecond / 4
}

// Observe counts one duration. Negative ones count as zero.
func (h *Histogram) Observe(d time.Duration) {
	b := bucketOf(d)
	if b >= len(h.Counts) {
		h.Counts = append(h.Counts, make([]uint32, b+1-len(h.Counts))...)
	}
	h.Counts[b]++
	h.Max = max(h.Max, d)
}

// Total is how many durations were counted.
func (h Histogram) Total() int {
	n := 0
	for _, c := range h.Counts {
		n += int(c)
	}
	return n
}

// Quantile returns a duration that a share of all, such as 0.99, does not exceed. It is at most a quarter too
// long, and not longer than the longest. It is 0 if nothing was counted.
func (h Histogram) Quantile(share float64) time.Duration {
	total := h.Total()
	seen := 0
	for b, c := range h.Counts {
		seen += int(c)
		if c > 0 && float64(seen) >= share*float64(total) {
			return min(upper(b), h.Max)
		}
	}
	return h.Max
}

// Plus returns both histograms together.
func (h Histogram) Plus(other Histogram) Histogram {
	sum := Histogram{Counts: make([]uint32, max(len(h.Counts), len(other.Counts))), Max: max(h.Max, other.Max)}
	for _, part := range []Histogram{h, other} {
		for b, c := range part.Counts {
			sum.Counts[b] += c
		}
	}
	return sum
}
