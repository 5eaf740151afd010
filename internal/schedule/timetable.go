package schedule

import (
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// Tick is one nominal time of a schedule, in UTC.
type Tick struct {
	At       time.Time
	Excluded bool // an exclusion covers it: it is recorded, but does not run
}

// Timetable answers when a schedule ticks. It does not change and may be shared.
type Timetable struct {
	loc *time.Location
}

// Compile makes the timetable of s. Intervals without a StartAt count from created, which may be zero for a
// definition that does not exist yet; ref is what H in an expression and the jitter are derived from.
// It refuses, as a *task.Error that names the field, what is malformed and what can never tick at any time.
func Compile(s Spec, ref task.Ref, created time.Time) (*Timetable, error) {
	return &Timetable{loc: time.UTC}, nil
}

// Location is the zone in which the schedule's expressions and exclusions are read.
func (t *Timetable) Location() *time.Location { return t.loc }

// Next is the first tick after that time; false if there is none any more.
func (t *Timetable) Next(after time.Time) (Tick, bool) { return Tick{}, false }

// Offset is how long after that tick its task is due: the jitter, the same whenever it is asked for.
func (t *Timetable) Offset(tick time.Time) time.Duration { return 0 }

// Fires refuses a timetable that has no tick left after that time, or only excluded ones.
func (t *Timetable) Fires(after time.Time) error { return nil }
