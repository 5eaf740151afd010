package schedule

import "time"

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

// Preview shows the next count ticks after that time, and what the coming transition of the zone does to them.
func (t *Timetable) Preview(after time.Time, count int) Preview { return Preview{Location: t.loc} }
