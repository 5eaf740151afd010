package schedule

import (
	"sync/atomic"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// Tick is one nominal time of a schedule, in UTC.
type Tick struct {
	At       time.Time
	Excluded bool // an exclusion covers it: it is recorded, but does not run
}

// Timetable computes when a schedule ticks. Compile builds it. It is immutable and safe for concurrent use.
type Timetable struct {
	zone       *zone
	rules      []rule
	exclusions []exclusion
	name       string                 // of the schedule, "namespace:id": the input of the hash behind H and the jitter
	start, end time.Time              // both included; zero: none
	jitter     int                    // ms
	recent     atomic.Pointer[dayOff] // the last result of dayOffOf, a cache: ticks come one after the other
}

// rule is one of the rules of a schedule. Its next returns the first tick of the rule after an instant, and false if there
// is none.
type rule interface {
	next(after time.Time) (time.Time, bool)
}

// cronRule is a cron expression in a time zone.
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

// everyRule ticks at every instant that is a multiple of interval (ms) after or before anchor (Unix ms). It does not depend
// on a time zone.
type everyRule struct{ interval, anchor int64 }

func (r everyRule) next(after time.Time) (time.Time, bool) {
	n, _ := divide(after.UnixMilli()-r.anchor, r.interval)
	return time.UnixMilli(r.anchor + (n+1)*r.interval).UTC(), true
}

// The times between which a tick can be: the name of a tick has four digits for the year.
var (
	beginOfTime = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	endOfTime   = time.Date(endOfYears+1, 1, 1, 0, 0, 0, 0, time.UTC).Add(-maxOffset * time.Second)
)

// Location returns the time zone of the expressions and exclusions.
func (t *Timetable) Location() *time.Location { return t.zone.loc }

// Next returns the first tick after the given time, excluded or not. It returns false if none follows.
func (t *Timetable) Next(after time.Time) (Tick, bool) {
	at, ok := t.next(after)
	if !ok {
		return Tick{}, false
	}
	return Tick{At: at, Excluded: t.exclusionOf(at) != nil}, true
}

// next is Next without a look at the exclusions.
func (t *Timetable) next(after time.Time) (time.Time, bool) {
	if after.Before(t.start) {
		after = t.start.Add(-1) // a tick exactly at the start counts
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

// Offset returns how long after a tick its task is due: from 0 to less than the jitter, in whole ms. It depends only on the
// name of the schedule and on the tick.
func (t *Timetable) Offset(tick time.Time) time.Duration {
	if t.jitter == 0 {
		return 0
	}
	return time.Duration(draw(t.jitter, "jitter", t.name, TickName(tick))) * time.Millisecond
}

// firesAfter reports whether a tick that is not excluded follows the given time. It looks for one in 1,000 steps, and returns
// true if it finds none and one may follow.
func (t *Timetable) firesAfter(after time.Time) bool {
	_, more := t.nextRun(after, 1000)
	return more
}

// Fires returns a *task.Error with CodeInvalid and the field if no tick, or no tick that is not excluded, follows the given
// time. Compile accepts such a timetable, so that a schedule that has ended can still be read; a new one is refused.
func (t *Timetable) Fires(after time.Time) error {
	if _, ok := t.next(after); !ok {
		if !t.end.IsZero() {
			return task.Invalid("end_at", "%s leaves no tick after %s; choose a later end", stamp(t.end), stamp(after))
		}
		return task.Invalid(t.ruleField(), "no tick is left after %s; name a time in the future", stamp(after))
	}
	if !t.firesAfter(after) {
		return task.Invalid("exclude", "every tick after %s is excluded; leave at least one that runs", stamp(after))
	}
	return nil
}

// ruleField returns the field that holds the rules, for errors about all of them.
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
