package schedule

import (
	"fmt"
	"strings"
	"time"
)

// nextLimit is how many steps NextTick takes to find a tick that is not excluded. A step passes over a day, an hour or a minute
// that an exclusion contains as a whole.
const nextLimit = 10_000

// NextTick returns the next tick that is not excluded. It returns false if none follows, if the schedule is paused or has
// ended, and if none was found in 10,000 steps.
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
	if s.LastPause.Until.After(after) { // ticks of the pause are misfires
		after = s.LastPause.Until
	}
	at, _ := table.nextRun(after, nextLimit)
	return at, !at.IsZero()
}

// nextRun returns the first tick after the given time that is not excluded, the zero time if it does not find one in so many
// steps. more: there may be one after them.
func (t *Timetable) nextRun(after time.Time, steps int) (at time.Time, more bool) {
	for range steps {
		at, ok := t.next(after)
		if !ok {
			return time.Time{}, false
		}
		x := t.exclusionOf(at)
		if x == nil {
			return at, true
		}
		after = t.endOf(x, at).Add(-1)
	}
	return time.Time{}, true
}

// endOf returns a time after a tick up to which an exclusion, which contains the tick, contains every instant: the end of the
// day, the hour, the minute or the second.
func (t *Timetable) endOf(x *exclusion, tick time.Time) time.Time {
	s := t.zone.at(tick.Unix())
	_, into := divide(tick.Unix()+s.offset, x.unit())
	return time.Unix(min(tick.Unix()-into+x.unit(), s.end), 0)
}

// UpcomingTick is a tick in the future, with a note for people.
type UpcomingTick struct {
	Tick     time.Time
	Excluded bool
	Note     string // what is unusual, such as "02:30 does not exist that day: runs when the clock jumps to 03:00"; "": nothing
}

// NextTicks holds the next ticks of a timetable and the next transition of its zone.
type NextTicks struct {
	Location   *time.Location
	Ticks      []UpcomingTick // the earliest first
	Transition *Transition    // nil if there are no ticks, if they do not depend on the zone, or if none comes within a year
}

// NextTicks returns the next count ticks after the given time, excluded or not, and the next transition of the zone.
func (t *Timetable) NextTicks(after time.Time, count int) NextTicks {
	next := NextTicks{Location: t.Location()}
	for last := after; len(next.Ticks) < count; {
		tick, ok := t.Next(last)
		if !ok {
			break
		}
		next.Ticks = append(next.Ticks, t.upcoming(tick))
		last = tick.At
	}
	if len(next.Ticks) > 0 {
		next.Transition = t.transition(after)
	}
	return next
}

// upcoming adds the note to a tick.
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

// joinNotes joins the notes. It leaves out empty ones and repetitions.
func joinNotes(notes []string) string {
	var kept []string
	for _, note := range notes {
		if note != "" && !strings.Contains(strings.Join(kept, "; "), note) {
			kept = append(kept, note)
		}
	}
	return strings.Join(kept, "; ")
}

// note describes how a transition of the zone affects the tick of the rule at an instant. It returns "" if no transition
// does, or if the rule has no tick then.
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

// noteMoved names the wall times of the rule that the clock skips at the start of s: their tick is at that instant. It
// returns "" if there are none.
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
