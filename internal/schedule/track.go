package schedule

import (
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// Track is what became of the ticks of a schedule, as far as that is kept. It outlives the tasks.
type Track struct {
	Since       time.Time // ends are kept from this time on; zero: no node of this release has looked at the schedule
	Ends        []End     // of the newest runs, the oldest end first: at least 100, if there were as many
	Days        []Day     // the newest 90 days that have counts, the oldest first; not in lists
	SucceededAt time.Time // when the newest success ended; zero: none is known
	MissedAt    time.Time // the newest tick that was missed; zero: none is known
}

// End is how a run ended: the task of a tick, or of a trigger. A run that is retried by hand ends more than once.
type End struct {
	Name     string     // of the tick or the trigger
	Tick     time.Time  // of that name, in whole ms
	State    task.State // that of a task that has ended; Scheduled: the run had ended, and somebody retried it
	Attempts int
	At       time.Time     // when it ended, or was retried
	Ran      bool          // an attempt was running when it ended
	Took     time.Duration // by that attempt
}

// StartedAt is when the last attempt began; zero if none was running.
func (e End) StartedAt() time.Time {
	if !e.Ran {
		return time.Time{}
	}
	return e.At.Add(-e.Took)
}

// Day is how many ticks of a day came to what: by Result, none of which is 0.
type Day struct {
	Date   time.Time // midnight in UTC
	Counts map[Result]int
}

// LastEnd returns the newest end of a run that was not retried since. ok is false if none is known.
func (t Track) LastEnd() (_ End, ok bool) {
	return t.lastEnd(func(e End) bool { return true })
}

// lastEnd is LastEnd for ends that match.
func (t Track) lastEnd(matches func(End) bool) (_ End, ok bool) {
	var again []string
	for _, e := range slices.Backward(t.Ends) {
		switch {
		case e.State == task.Scheduled:
			again = append(again, e.Name)
		case matches(e) && !slices.Contains(again, e.Name):
			return e, true
		}
	}
	return End{}, false
}

// FailingSince returns when the first of Failures ended, as far as the ends tell that were read. If it is older than
// these, the time is that of the last success or the last pause: it ended later. Zero: nothing is known.
func (s Schedule) FailingSince() time.Time {
	var first time.Time
	row := 0
	for _, e := range slices.Backward(s.Track.Ends) {
		if row == s.Failures || e.State == task.Succeeded {
			return first
		}
		if e.State == task.Failed {
			first, row = e.At, row+1
		}
	}
	after := s.Track.SucceededAt
	if s.LastPause.Until.After(after) { // a resume begins another row
		after = s.LastPause.Until
	}
	if row == s.Failures || after.IsZero() || !first.IsZero() && first.Before(after) {
		return first
	}
	return after
}

// Condition is what is wrong with the runs of a schedule.
type Condition string

// The conditions.
const (
	Failing Condition = "failing" // of its runs that have succeeded or failed, the newest one has failed
	Missing Condition = "missed"  // a tick of the last 24 h was missed, whether or not it was backfilled since
	Stale   Condition = "stale"   // it has not succeeded for a time since a tick was due
)

// Conditions lists every condition.
var Conditions = []Condition{Failing, Missing, Stale}

// Times that conditions refer to.
const (
	MissedFor  = 24 * time.Hour // how long a missed tick makes its schedule one that misses ticks
	StaleAfter = 24 * time.Hour // the default of the time without a success
)

// Has reports whether a schedule is in a condition at that time of Redis. staleAfter is for Stale.
func (s Schedule) Has(c Condition, now time.Time, staleAfter time.Duration) bool {
	switch c {
	case Failing:
		return s.failing()
	case Missing:
		return !s.Track.MissedAt.IsZero() && now.Sub(s.Track.MissedAt) <= MissedFor
	case Stale:
		return s.stale(now, staleAfter)
	}
	return false
}

// ConditionsAt returns the conditions that a schedule is in at that time of Redis.
func (s Schedule) ConditionsAt(now time.Time) []Condition {
	var all []Condition
	for _, c := range Conditions {
		if s.Has(c, now, StaleAfter) {
			all = append(all, c)
		}
	}
	return all
}

// failing also asks the count of failures, which nodes of earlier releases keep, too. A resume sets that to 0.
func (s Schedule) failing() bool {
	last, ok := s.Track.lastEnd(func(e End) bool { return e.State != task.Cancelled })
	return s.Failures > 0 || ok && last.State == task.Failed
}

// stale reports whether a tick was due for that long, and nothing has succeeded since. It looks at ticks after the
// last success, the last change of the definition and the last pause: what was due before is no longer expected.
func (s Schedule) stale(now time.Time, after time.Duration) bool {
	if s.Track.Since.IsZero() || !s.PausedAt.IsZero() || !s.EndedAt.IsZero() {
		return false
	}
	since := s.Track.Since
	for _, at := range []time.Time{s.Track.SucceededAt, s.UpdatedAt, s.LastPause.Until} {
		if at.After(since) {
			since = at
		}
	}
	if now.Sub(since) <= after { // no tick after it was due for that long: most schedules need no timetable
		return false
	}
	table, err := Compile(s.Spec, s.Ref, s.CreatedAt)
	if err != nil {
		return false
	}
	due, _ := table.nextRun(since, nextLimit)
	return !due.IsZero() && now.Sub(due) > after
}
