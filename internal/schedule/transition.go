package schedule

import (
	"fmt"
	"math"
	"time"
)

// Transition is a change of the zone's offset from UTC, and what it does to the ticks around it.
type Transition struct {
	At            time.Time
	Before, After time.Duration  // offsets from UTC
	Ticks         []UpcomingTick // around it
	Note          string
}

// What a preview shows of a transition.
const (
	transitionAhead  = 366 * 24 * time.Hour
	transitionAround = 3 * time.Hour
	transitionSide   = 10 // ticks, before it and from it on
)

// transition is the next change of the zone's offset after that time; nil if there is none soon, or if it does
// not matter.
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

func (t *Timetable) hasCron() bool {
	for _, r := range t.rules {
		if _, ok := r.(cronRule); ok {
			return true
		}
	}
	return false
}

func (t *Timetable) describe(before, after *stretch) *Transition {
	return &Transition{
		At:     time.Unix(after.start, 0).UTC(),
		Before: time.Duration(before.offset) * time.Second,
		After:  time.Duration(after.offset) * time.Second,
		Ticks:  t.around(time.Unix(after.start, 0).UTC()),
		Note:   noteTransition(after.start+before.offset, after.start+after.offset),
	}
}

// around lists the ticks of a few hours on both sides of a transition, or the nearest ones if they are many.
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

// noteTransition says what happens when the wall clock is put from one time to another.
func noteTransition(from, to int64) string {
	if to > from {
		return fmt.Sprintf("the clock jumps from %s to %s: what lies between does not exist and runs at the jump, once",
			dateText(from), clockText(to, from))
	}
	return fmt.Sprintf("the clock goes back from %s to %s: what lies between comes twice and runs the first time only",
		dateText(from), clockText(to, from))
}

func dateText(wall int64) string { return clockText(wall, math.MinInt64/2) }

// clockText is a time of day; with its date, unless the other time is of the same day.
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
