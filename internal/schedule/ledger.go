package schedule

import (
	"fmt"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// Outcome is the result of a tick in the ledger.
type Outcome string

// The outcomes. Every tick has one record. The outcome of a tick that waits, or whose task is replaced, changes in that
// record.
const (
	Fired          Outcome = "fired"           // the task of the tick was created
	SkippedOverlap Outcome = "skipped_overlap" // a task of the schedule had not ended, or a limit is reached
	Missed         Outcome = "missed"          // a misfire that does not run by the misfire policy, or a tick after max_runs was reached, or all ticks of a Hole
	Excluded       Outcome = "excluded"        // an exclusion covers it
	Queued         Outcome = "queued"          // the tick waits until earlier tasks of the schedule have ended
	Replaced       Outcome = "replaced"        // a later tick or manual run took the place of the tick; its task, if it had one, was cancelled
	Triggered      Outcome = "triggered"       // a manual run, not a tick
	Backfilled     Outcome = "backfilled"      // the task of the tick was created later, by a backfill
)

// Outcomes lists every outcome.
var Outcomes = []Outcome{Fired, SkippedOverlap, Missed, Excluded, Queued, Replaced, Triggered, Backfilled}

// Entry is the record of one tick, or of one manual run, in the ledger.
type Entry struct {
	Name      string // from TickName or ManualName: the part of the task's id behind the "@"
	Tick      time.Time
	Outcome   Outcome
	Reason    string        // why, for people; "" if the tick fired on time
	HasTask   bool          // a task was created
	Late      time.Duration // from the tick to the decision, in whole ms
	DecidedAt time.Time
	Revision  int // the revision of the schedule at the decision
}

// TaskID returns the id of the task, "<schedule>@<name>", or "" if none was created.
func (e Entry) TaskID(scheduleID string) string {
	if !e.HasTask {
		return ""
	}
	return scheduleID + "@" + e.Name
}

const (
	tickLayout   = "20060102T150405Z"
	tickLayoutMS = "20060102T150405.000Z"
	manualLayout = "20060102T150405.000000Z" + ManualSuffix // µs make the names of manual runs differ
)

// ManualSuffix is the end of the name of every manual run: one that a client triggered.
const ManualSuffix = "-manual"

// TickName returns the name of a tick, as it stands in the id of its task: 20260102T150405Z, or 20260102T150405.250Z if it
// has milliseconds.
func TickName(tick time.Time) string {
	tick = tick.UTC()
	if tick.Nanosecond() < int(time.Millisecond) {
		return tick.Format(tickLayout)
	}
	return tick.Format(tickLayoutMS)
}

// ManualName returns the name of the manual run that a client triggered at the given time: 20260102T150405.123456Z-manual.
func ManualName(at time.Time) string { return at.UTC().Format(manualLayout) }

// ParseTickName parses a name from TickName or ManualName. manual is true for a manual run; tick is then the time at which
// it was triggered.
func ParseTickName(name string) (tick time.Time, manual bool, _ error) {
	if strings.HasSuffix(name, ManualSuffix) {
		if at, err := time.Parse(manualLayout, name); err == nil {
			return at, true, nil
		}
	}
	at, err := time.Parse(tickLayout, name) // accepts a fraction, too
	if err != nil || TickName(at) != name {
		return time.Time{}, false, fmt.Errorf("%q is not the name of a tick; want a name such as %s", name, tickLayout)
	}
	return at, false, nil
}

// OfTask returns the id of the schedule that created a task and the name of the tick or manual run. ok is false if no
// schedule created the task.
func OfTask(ref task.Ref) (scheduleID, name string, ok bool) { return ref.Tick() }
