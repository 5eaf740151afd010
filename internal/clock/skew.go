package clock

import (
	"time"
	"unsafe"
)

// skew is by how much the clock of this process is wrong, in whole seconds, as in "5m" or "-90s". No setting of the product sets it: tests
// link a program of which it is a part, with -ldflags "-X github.com/dts-sched/dts/internal/clock.skew=5m".
var skew string

// ahead is skew, parsed.
var ahead = parseSkew(skew)

func parseSkew(text string) time.Duration {
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d%time.Second != 0 {
		panic("internal/clock.skew must be a duration of whole seconds, and is " + text)
	}
	return d
}

// shifted moves the date and the time of day that t shows, as a wrong clock does, and leaves its monotonic reading: two times of this
// process are as far apart as ever, also if one of them was not read here. Package time cannot do that: Add moves both.
func shifted(t time.Time, by time.Duration) time.Time {
	if by == 0 {
		return t
	}
	// The first field of a time that has a monotonic reading: 1 bit that says so, 33 bits of seconds, 30 bits of nanoseconds.
	wall := (*uint64)(unsafe.Pointer(&t))
	*wall += uint64(by/time.Second) << 30
	return t
}
