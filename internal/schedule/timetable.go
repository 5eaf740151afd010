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
	zone       *zone
	rules      []rule
	exclusions []exclusion
	name       string    // of the schedule
	start, end time.Time // zero: none
	jitter     int       // ms
}

// rule is one way to name times. Its next is the first of them after an instant.
type rule interface {
	next(after time.Time) (time.Time, bool)
}

// cronRule is an expression, read in a zone.
type cronRule struct {
	*expression
	zone *zone
}

func (r cronRule) next(after time.Time) (time.Time, bool) {
	wall, ok := r.expression.next(r.zone.shown(after.Unix()))
	if !ok {
		return time.Time{}, false
	}
	return time.Unix(r.zone.instantOf(wall), 0).UTC(), true
}

// everyRule is the instants that are a multiple of an interval away from an anchor, before it too. It knows no zone.
type everyRule struct{ interval, anchor int64 } // ms, Unix ms

func (r everyRule) next(after time.Time) (time.Time, bool) {
	n, _ := divide(after.UnixMilli()-r.anchor, r.interval)
	return time.UnixMilli(r.anchor + (n+1)*r.interval).UTC(), true
}

// The times between which something can tick. Names of ticks have four digits for the year.
var (
	beginOfTime = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	endOfTime   = time.Date(endOfYears+1, 1, 1, 0, 0, 0, 0, time.UTC).Add(-maxOffset * time.Second)
)

// Location is the zone in which the schedule's expressions and exclusions are read.
func (t *Timetable) Location() *time.Location { return t.zone.loc }

// Next is the first tick after that time; false if there is none any more.
func (t *Timetable) Next(after time.Time) (Tick, bool) {
	at, ok := t.next(after)
	if !ok {
		return Tick{}, false
	}
	return Tick{At: at, Excluded: t.exclusionOf(at) != nil}, true
}

func (t *Timetable) next(after time.Time) (time.Time, bool) {
	if after.Before(t.start) {
		after = t.start.Add(-1) // a tick at the start counts
	}
	if after.Before(beginOfTime) {
		after = beginOfTime
	}
	if !after.Before(endOfTime) {
		return time.Time{}, false
	}
	var first time.Time
	for _, r := range t.rules {
		if at, ok := r.next(after); ok && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	if first.IsZero() || first.After(endOfTime) || !t.end.IsZero() && first.After(t.end) {
		return time.Time{}, false
	}
	return first, true
}

// exclusionOf is the exclusion that covers a tick, by what the zone's clock shows then; nil if none does.
func (t *Timetable) exclusionOf(at time.Time) *exclusion {
	if len(t.exclusions) == 0 {
		return nil
	}
	wall := t.zone.wall(at.Unix())
	for i := range t.exclusions {
		if t.exclusions[i].covers(wall) {
			return &t.exclusions[i]
		}
	}
	return nil
}

// Offset is how long after that tick its task is due: the jitter, the same whenever it is asked for.
func (t *Timetable) Offset(tick time.Time) time.Duration {
	if t.jitter == 0 {
		return 0
	}
	return time.Duration(draw(t.jitter, "jitter", t.name, TickName(tick))) * time.Millisecond
}

// runsAfter says whether a tick that is not excluded comes after that time, as far as can be told by looking at
// the next ones: where more than a thousand in a row are excluded, it believes that there is one.
func (t *Timetable) runsAfter(after time.Time) bool {
	for range 1000 {
		tick, ok := t.Next(after)
		if !ok || !tick.Excluded {
			return ok
		}
		after = tick.At
	}
	return true
}

// Fires refuses a timetable that has no tick left after that time, or only excluded ones. A schedule that has come
// to its end can still be read; it makes no sense to ask for one.
func (t *Timetable) Fires(after time.Time) error {
	if _, ok := t.next(after); !ok {
		if !t.end.IsZero() {
			return task.Invalid("end_at", "no tick is left between %s and %s", stamp(after), stamp(t.end))
		}
		return task.Invalid(t.ruleField(), "no tick is left after %s", stamp(after))
	}
	if !t.runsAfter(after) {
		return task.Invalid("exclude", "every tick that is left after %s is excluded", stamp(after))
	}
	return nil
}

func (t *Timetable) ruleField() string {
	if len(t.rules) > 1 {
		return "specs"
	}
	if _, ok := t.rules[0].(everyRule); ok {
		return "every"
	}
	return "cron"
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
