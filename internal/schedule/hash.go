package schedule

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"
)

// pick is what H stands for: one value of r, or with a step, r from one of its first values on. It depends on nothing
// but the schedule's name and the field, so that schedules that all say H spread, and each one stays where it is.
func (f field) pick(r valueRange, hasStep bool, name string) valueRange {
	count := r.high - r.low + 1
	if !hasStep {
		value := r.low + draw(count, "H", f.name, name)
		return valueRange{low: value, high: value, step: 1}
	}
	r.low += draw(min(r.step, count), "H", f.name, name)
	return r
}

// draw is a number from 0 to n-1 that depends on nothing but the words. What schedules do hangs on it, so it is the
// same in every version of DTS.
func draw(n int, words ...string) int {
	sum := sha256.Sum256([]byte(strings.Join(words, "\x00")))
	return int(binary.BigEndian.Uint64(sum[:8]) % uint64(n))
}
