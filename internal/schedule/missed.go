package schedule

import (
	"strings"
	"time"
)

// pausedThen begins the reason of a tick that was missed since the schedule was paused at its time.
const pausedThen = "paused; "

// Overlooked returns the newest tick that was missed, and that nobody knows of: not one of a pause, and not one that
// was backfilled since. at is the newest tick that was missed, and entries are the newest records of ticks up to it,
// the newest first. If the record of that tick is forgotten, the result has its time only. It is the zero value if
// there is none within MissedFor.
func Overlooked(entries []Entry, at, now time.Time) Entry {
	lately := func(tick time.Time) bool { return !tick.IsZero() && now.Sub(tick) <= MissedFor }
	if !lately(at) {
		return Entry{}
	}
	known := false
	for _, e := range entries {
		known = known || e.Tick.Equal(at)
		if e.Outcome == Missed && lately(e.Tick) && !strings.HasPrefix(e.Reason, pausedThen) {
			return e
		}
	}
	if known {
		return Entry{}
	}
	return Entry{Tick: at}
}
