// Package schedule computes when schedules tick and decides what happens to ticks that are due. It is pure: it reads no
// clock and no Redis, and the same input gives the same result on every node.
//
// From the bottom up:
//   - Spec: the times as a person writes them (cron expressions, intervals, exclusions, a time zone).
//   - Timetable: a compiled Spec, which returns the next tick after any instant.
//   - Timeline: the timetables of all revisions of a schedule, each with the span in which it defines the ticks.
//   - MakePlan decides each due tick: it fires, or the ledger records why it does not.
//   - Audit compares the ticks that the definitions name with the ledger.
package schedule

import (
	"time"
)

// Rule defines ticks by a cron expression or by an interval. Exactly one field is set.
type Rule struct {
	Cron  string        // an expression of 5, 6 or 7 fields, or a descriptor such as @daily
	Every time.Duration // an interval in whole ms, counted from the StartAt or else the CreatedAt of the schedule
}

// Spec defines the ticks of a schedule.
type Spec struct {
	Rules    []Rule        // the schedule ticks at the union of their times
	Exclude  []string      // dates, ranges of dates or cron expressions: ticks at these times do not run
	Timezone string        // an IANA name, for cron expressions and exclusions; "" is UTC
	StartAt  time.Time     // no tick comes before; intervals count from it; zero: none
	EndAt    time.Time     // no tick comes after; zero: none
	Jitter   time.Duration // the task of each tick is due less than this after the tick
}

// MisfirePolicy selects the misfires that run.
type MisfirePolicy string

// The misfire policies. A tick is a misfire if it is more than OnTime late, or was due during a pause.
const (
	MisfireSkip MisfirePolicy = "skip" // no misfire runs
	MisfireOnce MisfirePolicy = "once" // the newest misfire runs for all of them, if it is within the window and no later tick runs
	MisfireAll  MisfirePolicy = "all"  // the newest Max misfires within the window run, the oldest of them first
)

// Misfire defines what happens to misfires. Zero values mean the defaults.
type Misfire struct {
	Policy MisfirePolicy
	Window time.Duration // how late a misfire may be and still run, in whole ms
	Max    int           // the greatest number of misfires that run by policy all
}

// Overlap defines what happens to a tick while a task of the same schedule has not ended, anywhere in the cluster.
type Overlap string

// The overlap policies.
const (
	OverlapAllow   Overlap = "allow"   // the tick runs
	OverlapSkip    Overlap = "skip"    // the tick does not run
	OverlapQueue   Overlap = "queue"   // the tick waits until the tasks before it have ended; at most WaitingLimit ticks wait
	OverlapReplace Overlap = "replace" // the tasks are cancelled, and the tick runs when they have ended
)

// Schedule is a definition with its state. Times are in whole ms, and by the clock of Redis.
type Schedule struct {
	Definition
	Revision       int       // the number of the revision, from 1; every change of the definition adds 1
	CreatedAt      time.Time // intervals count from it if StartAt is zero
	UpdatedAt      time.Time // this revision defines the ticks after this time
	By             string    // who put this revision; "" if nobody knows
	Cursor         time.Time // all ticks up to this time are decided
	PausedAt       time.Time // zero: not paused
	PausedBy       string    // who paused it; "" if nobody knows
	PauseNote      string    // why
	LastPause      Span      // the last pause that a resume ended; ticks in it are misfires
	EndedAt        time.Time // the cursor when the schedule ended; zero: it has not ended
	Runs           int       // ticks that have a task or wait for one; manual runs and backfills do not count
	Failures       int       // tasks in a row that failed, up to the last one that ended
	Live           int       // tasks that have not ended
	Waiting        int       // ticks that wait for those to end (overlap queue and replace)
	ForgottenUntil time.Time // the ledger lacks records up to this time; zero: it lacks none

	Track      Track        // what became of its ticks
	Recent     []TickResult // the newest ticks and runs by hand, the oldest first
	Conditions []Condition  // what is wrong with its runs
	Retry      Retry        // the first of its live tasks that is tried again after a failure
	LastMissed Entry        // in the condition Missing: the newest tick that was missed, without a reason if it is forgotten
	Overlooked Entry        // in that condition: the newest such tick that nobody knows of; zero for none
}

// Span is the time after From, up to and including Until.
type Span struct{ From, Until time.Time }

// Contains reports whether at is in the span.
func (s Span) Contains(at time.Time) bool { return at.After(s.From) && !at.After(s.Until) }

// Revision is one version of the definition of a schedule. It defines the ticks in its span; a zero Until means that the
// span has no end.
type Revision struct {
	Number int
	Span
	Definition Definition
	By         string // who put it; "" if nobody knows
}
