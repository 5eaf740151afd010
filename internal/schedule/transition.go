package schedule

import (
	"fmt"
	"math"
	"time"
)

// Transition is a change of the offset of a zone from UTC, with the ticks around it.
type Transition struct {
	At            time.Time
	Before, After time.Duration  // offsets from UTC
	Ticks         []UpcomingTick // at most 10 before At and 10 from At on, all within 3 hours
	Note          string         // what the clock does, and what happens to the ticks; for people
}

// Which transition NextTicks shows, and which ticks around it.
const (
	transitionAhead  = 366 * 24 * time.Hour // how far in the future it may be
	transitionAround = 3 * time.Hour        // how far before or after it a tick may be
	transitionSide   = 10                   // ticks on each side
)

// transition returns the first change of the offset of the zone after the given time. It returns nil if none comes within
// transitionAhead, or if no rule depends on the zone.
func (t *Timetable) transition(after time.Time) *Transition {
	if !t.hasCron() {
		return nil
	}
	before := t.zone.at(after.Unix())
	for limit := after.Add(transitionAhead).Unix(); before.end < limit; {
		next := t.zone.at(before.end)
		if next.offset != before.offset {
			return t.describe(before, next)
		}
		before = next
	}
	return nil
}

// hasCron reports whether a rule is a cron expression, and so depends on the zone.
func (t *Timetable) hasCron() bool {
	for _, r := range t.rules {
		if _, ok := r.(cronRule); ok {
			return true
		}
	}
	return false
}

// describe returns the transition between two stretches.
func (t *Timetable) describe(before, after *stretch) *Transition {
	return &Transition{
		At:     time.Unix(after.start, 0).UTC(),
		Before: time.Duration(before.offset) * time.Second,
		After:  time.Duration(after.offset) * time.Second,
		Ticks:  t.around(time.Unix(after.start, 0).UTC()),
		Note:   noteTransition(after.start+before.offset, after.start+after.offset),
	}
}

// around returns the ticks on both sides of a transition: the first ones from it on, and those of a time before it that is
// short enough not to hold more than transitionSide.
func (t *Timetable) around(at time.Time) []UpcomingTick {
	timeline := Timeline{{Table: t}}
	span := transitionAround
	before, more := timeline.Ticks(at.Add(-span-1), at.Add(-1), transitionSide)
	for ; more; before, more = timeline.Ticks(at.Add(-span-1), at.Add(-1), transitionSide) {
		span /= 2
	}
	since, _ := timeline.Ticks(at.Add(-1), at.Add(transitionAround), transitionSide)
	var list []UpcomingTick
	for _, tick := range append(before, since...) {
		list = append(list, t.upcoming(tick))
	}
	return list
}

// noteTransition describes what happens to ticks when the clock is put from one wall time to another.
func noteTransition(from, to int64) string {
	if to > from {
		return fmt.Sprintf("the clock jumps from %s to %s: times in between do not exist, and their ticks run once, at the jump",
			dateText(from), clockText(to, from))
	}
	return fmt.Sprintf("the clock goes back from %s to %s: times in between come twice, and their ticks run the first time only",
		dateText(from), clockText(to, from))
}

// dateText formats the date and the time of day.
func dateText(wall int64) string { return clockText(wall, math.MinInt64/2) }

// clockText formats the time of day, with the date in front of it unless the other wall time is on the same day.
func clockText(wall, other int64) string {
	t := time.Unix(wall, 0).UTC()
	layout := "15:04"
	if t.Second() != 0 {
		layout = "15:04:05"
	}
	day, _ := divide(wall, secondsADay)
	if otherDay, _ := divide(other, secondsADay); day != otherDay {
		layout = time.DateOnly + " " + layout
	}
	return t.Format(layout)
}
