package main

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// median returns the middle of values, or the mean of the two in the middle.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n == 0 {
		return math.NaN()
	}
	if n%2 == 1 {
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}

// percentile returns the smallest of values that at least p percent of them do not exceed.
func percentile(values []float64, p float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[max(1, rank)-1]
}

// milliseconds converts d, keeping its fraction.
func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// overtakes returns, for each value of a sequence, by how much the largest one before it exceeds it; 0 if none does.
func overtakes(sequence []float64) []float64 {
	out := make([]float64, len(sequence))
	highest := math.Inf(-1)
	for i, v := range sequence {
		out[i] = max(0, highest-v)
		highest = max(highest, v)
	}
	return out
}

// format writes a number with about three digits.
func format(v float64) string {
	switch {
	case math.IsNaN(v):
		return "-"
	case math.Abs(v) >= 100:
		return thousands(int64(math.Round(v)))
	case v == math.Trunc(v):
		return fmt.Sprintf("%.0f", v)
	case math.Abs(v) >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// thousands writes 1234567 as 1,234,567.
func thousands(n int64) string {
	if n < 0 {
		return "-" + thousands(-n)
	}
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return thousands(n/1000) + fmt.Sprintf(",%03d", n%1000)
}
