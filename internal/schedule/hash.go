package schedule

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"
)

// pick returns the values that H stands for: one value of r, or, with a step, the values of r from one of its first ones
// on. They depend only on the name of the schedule and on the field. So schedules that use H are spread over the range,
// and each of them keeps its values.
func (f field) pick(r valueRange, hasStep bool, name string) valueRange {
	count := r.high - r.low + 1
	if !hasStep {
		value := r.low + draw(count, "H", f.name, name)
		return valueRange{low: value, high: value, step: 1}
	}
	r.low += draw(min(r.step, count), "H", f.name, name)
	return r
}

// draw returns a number from 0 to n-1 that depends only on the words. Every version of DTS must return the same number,
// because the times of schedules depend on it.
func draw(n int, words ...string) int {
	sum := sha256.Sum256([]byte(strings.Join(words, "\x00")))
	return int(binary.BigEndian.Uint64(sum[:8]) % uint64(n))
}
