// Package schedule knows when schedules tick, and what is to be done about the ticks that are due. It is pure: it
// reads no clock and no Redis; the same input gives the same answer on every node.
//
// From the bottom up:
//   - a Spec says in a person's words at which times (cron expressions, intervals, exclusions, a time zone);
//   - Compile makes a Timetable of it, which answers the next tick after any instant;
//   - a Timeline strings the timetables together that were in force one after the other;
//   - MakePlan decides what becomes of the ticks that are due (fire, or record why not);
//   - Check compares afterwards what should have happened with the ledger.
package schedule

import (
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// Rule is one way to name times. Exactly one of the two is set.
type Rule struct {
	Cron  string        // an expression of 5, 6 or 7 fields, or a descriptor such as @daily
	Every time.Duration // an interval, counted from the schedule's anchor
}

// Spec says at which times a schedule ticks.
type Spec struct {
	Rules    []Rule        // the union of their times
	Exclude  []string      // dates, ranges of dates, or cron expressions: ticks that do not run
	Timezone string        // IANA name; "" is UTC
	StartAt  time.Time     // no tick before; it is also the anchor of intervals; zero: from the creation on
	EndAt    time.Time     // no tick after; zero: without end
	Jitter   time.Duration // each tick's task is due up to this much after the tick
}

// MisfirePolicy says what becomes of ticks that nobody could fire in time.
type MisfirePolicy string

// The misfire policies. A tick is a misfire once it is more than OnTime late, or was due during a pause.
const (
	MisfireSkip MisfirePolicy = "skip" // none of them runs
	MisfireOnce MisfirePolicy = "once" // the newest one runs for all of them, if it is within the window
	MisfireAll  MisfirePolicy = "all"  // those within the window run, the newest Max of them, oldest first
)

// Misfire is what becomes of ticks that nobody could fire in time. Zero values mean the defaults.
type Misfire struct {
	Policy MisfirePolicy
	Window time.Duration // how late a tick may be and still run
	Max    int           // of policy all: how many run at most
}

// Overlap says what becomes of a tick while a task of the same schedule has not ended, anywhere in the cluster.
type Overlap string

// The overlap policies.
const (
	OverlapAllow   Overlap = "allow"   // its task is created all the same
	OverlapSkip    Overlap = "skip"    // it does not run
	OverlapQueue   Overlap = "queue"   // it waits for its turn, behind up to WaitingLimit others
	OverlapReplace Overlap = "replace" // it cancels what has not ended and runs when that has stopped
)

// Definition is what somebody asks for. Zero values mean the defaults.
type Definition struct {
	task.Ref
	Spec
	MaxRuns        int // ticks that may run, before the schedule ends; 0: without limit
	Misfire        Misfire
	Overlap        Overlap
	PauseOnFailure int // tasks in a row that failed, after which the schedule pauses; 0: never
	Owner          string
	Description    string
	Labels         map[string]string
	Task           task.Definition // what every tick runs; its id is the tick's, its time too
}

// Schedule is a definition with its state, as Redis holds it. Times are Redis's, in whole ms.
type Schedule struct {
	Definition
	Revision  int       // counts the changes of the definition, from 1
	CreatedAt time.Time // the anchor of intervals, where there is no StartAt
	UpdatedAt time.Time // since when this revision decides about ticks
	Cursor    time.Time // what becomes of ticks up to this one has been decided
	PausedAt  time.Time // zero: not paused
	PauseNote string    // who paused it, and why
	LastPause Span      // the last pause that was ended by a resume: ticks in it are misfires
	EndedAt   time.Time // the cursor at which no tick was left; zero: there are more
	Runs      int       // ticks that ran
	Failures  int       // tasks that failed since the last one that did not
	Live      int       // tasks that have not ended
	Waiting   int       // ticks that wait for those (overlap queue and replace)
	KnownFrom time.Time // the ledger has forgotten what was before; zero: nothing
}

// Span is the time after From, up to and including Until.
type Span struct{ From, Until time.Time }

// Contains says whether at is in the span.
func (s Span) Contains(at time.Time) bool { return at.After(s.From) && !at.After(s.Until) }

// Revision is one state of a definition that was in force: it decided about the ticks after From, up to and
// including Until (zero: it still does).
type Revision struct {
	Number int
	Span
	Definition Definition
}
