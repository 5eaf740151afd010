package schedule

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Upcoming is a tick that is yet to come, with what a person should know about it.
type Upcoming struct {
	Tick     time.Time
	Excluded bool
	Note     string // "" for most; "02:30 does not exist that day: runs when the clock jumps to 03:00"
}

// Transition is a change of the zone's offset from UTC, and what it does to the ticks around it.
type Transition struct {
	At            time.Time
	Before, After time.Duration // offsets from UTC
	Ticks         []Upcoming    // around it
	Note          string
}

// Preview is what a timetable is going to do.
type Preview struct {
	Location   *time.Location
	Ticks      []Upcoming
	Transition *Transition // the next one within a year, if the ticks depend on the zone; nil if there is none
}

// What a preview shows of a transition.
const (
	transitionAhead  = 366 * 24 * time.Hour
	transitionAround = 3 * time.Hour
	transitionSide   = 10 // ticks, before it and from it on
)

// Preview shows the next count ticks after that time, and what the coming transition of the zone does to them.
func (t *Timetable) Preview(after time.Time, count int) Preview {
	p := Preview{Location: t.Location()}
	for last := after; len(p.Ticks) < count; {
		tick, ok := t.Next(last)
		if !ok {
			break
		}
		p.Ticks = append(p.Ticks, t.upcoming(tick))
		last = tick.At
	}
	if len(p.Ticks) > 0 {
		p.Transition = t.transition(after)
	}
	return p
}

// upcoming adds the notes to a tick.
func (t *Timetable) upcoming(tick Tick) Upcoming {
	var notes []string
	for _, r := range t.rules {
		if r, ok := r.(cronRule); ok {
			notes = append(notes, r.note(tick.At.Unix()))
		}
	}
	if x := t.exclusionOf(tick.At); x != nil {
		notes = append(notes, "excluded by "+x.text)
	}
	return Upcoming{Tick: tick.At, Excluded: tick.Excluded, Note: joinNotes(notes)}
}

// joinNotes leaves out what is empty or has been said.
func joinNotes(notes []string) string {
	var said []string
	for _, note := range notes {
		if note != "" && !strings.Contains(strings.Join(said, "; "), note) {
			said = append(said, note)
		}
	}
	return strings.Join(said, "; ")
}

// note says what the zone's transitions do to the rule's tick at that instant, if it has one there.
func (r cronRule) note(instant int64) string {
	s := r.zone.at(instant)
	if instant == s.start {
		if note := r.noteMoved(s); note != "" {
			return note
		}
	}
	wall := instant + s.offset
	next := r.zone.at(s.end)
	if s.end+next.offset <= wall && r.zone.reach(wall) == instant && r.matches(wall) {
		return fmt.Sprintf("%s comes twice that day: runs the first time only", clockText(wall, wall))
	}
	return ""
}

// noteMoved names the wall times that a jump at the start of s leaves out, and which therefore run there.
func (r cronRule) noteMoved(s *stretch) string {
	from, to := r.zone.shown(s.start-1)+1, s.start+s.offset
	first, ok := r.expression.next(from - 1)
	if !ok || first >= to {
		return ""
	}
	second, ok := r.expression.next(first)
	if !ok || second >= to {
		return fmt.Sprintf("%s does not exist that day: runs when the clock jumps to %s",
			clockText(first, to), clockText(to, first))
	}
	return fmt.Sprintf("%s and others do not exist that day: run once, when the clock jumps to %s",
		clockText(first, to), clockText(to, first))
}

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
func (t *Timetable) around(at time.Time) []Upcoming {
	line := Timeline{{Table: t}}
	span := transitionAround
	before, more := line.Ticks(at.Add(-span-1), at.Add(-1), transitionSide)
	for ; more; before, more = line.Ticks(at.Add(-span-1), at.Add(-1), transitionSide) {
		span /= 2
	}
	since, _ := line.Ticks(at.Add(-1), at.Add(transitionAround), transitionSide)
	var list []Upcoming
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
