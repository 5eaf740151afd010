package schedule

import (
	"fmt"
	"strings"
	"time"
)

// nextLimit is how many excluded ticks are passed over in search of one that runs.
const nextLimit = 10_000

// NextTick is the next tick that will run; false if there is none, while the schedule is paused, and where more than
// 10,000 excluded ones come first.
func (s Schedule) NextTick() (time.Time, bool) {
	if !s.PausedAt.IsZero() || !s.EndedAt.IsZero() {
		return time.Time{}, false
	}
	table, err := Compile(s.Spec, s.Ref, s.CreatedAt)
	if err != nil {
		return time.Time{}, false
	}
	after := s.Cursor
	if s.UpdatedAt.After(after) {
		after = s.UpdatedAt
	}
	if s.LastPause.Until.After(after) { // those of the pause are misfires
		after = s.LastPause.Until
	}
	for range nextLimit {
		tick, ok := table.Next(after)
		if !ok || !tick.Excluded {
			return tick.At, ok
		}
		after = tick.At
	}
	return time.Time{}, false
}

// UpcomingTick is a tick that is yet to come, with what a person should know about it.
type UpcomingTick struct {
	Tick     time.Time
	Excluded bool
	Note     string // "" for most; "02:30 does not exist that day: runs when the clock jumps to 03:00"
}

// NextTicks is what a timetable is going to do.
type NextTicks struct {
	Location   *time.Location
	Ticks      []UpcomingTick
	Transition *Transition // the next one within a year, if the ticks depend on the zone; nil if there is none
}

// NextTicks shows the next count ticks after that time, and what the coming transition of the zone does to them.
func (t *Timetable) NextTicks(after time.Time, count int) NextTicks {
	p := NextTicks{Location: t.Location()}
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
func (t *Timetable) upcoming(tick Tick) UpcomingTick {
	var notes []string
	for _, r := range t.rules {
		if r, ok := r.(cronRule); ok {
			notes = append(notes, r.note(tick.At.Unix()))
		}
	}
	if x := t.exclusionOf(tick.At); x != nil {
		notes = append(notes, "excluded by "+x.text)
	}
	return UpcomingTick{Tick: tick.At, Excluded: tick.Excluded, Note: joinNotes(notes)}
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
	if s.end+next.offset <= wall && r.zone.instantOf(wall) == instant && r.matches(wall) {
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
