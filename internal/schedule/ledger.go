package schedule

import (
	"fmt"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// Outcome is what became of a tick.
type Outcome string

// The outcomes. Every tick has one record; that of one that waited or was replaced changes with what becomes of it.
const (
	Fired          Outcome = "fired"           // its task was created
	SkippedOverlap Outcome = "skipped_overlap" // a task of the schedule had not ended
	Missed         Outcome = "missed"          // nobody could fire it in time, and the misfire policy said no
	Excluded       Outcome = "excluded"        // an exclusion covers it
	Queued         Outcome = "queued"          // it waits for the end of the task before it
	Replaced       Outcome = "replaced"        // a later tick took its place; its task, if it had one, was cancelled
	Triggered      Outcome = "triggered"       // not a tick: somebody ran the schedule by hand
	Backfilled     Outcome = "backfilled"      // its task was created afterwards, because somebody asked for it
)

// Outcomes lists them all.
var Outcomes = []Outcome{Fired, SkippedOverlap, Missed, Excluded, Queued, Replaced, Triggered, Backfilled}

// Entry is the record of one tick.
type Entry struct {
	Name      string // what stands behind the "@" in the id of its task
	Tick      time.Time
	Outcome   Outcome
	Reason    string
	HasTask   bool          // a task was created
	Late      time.Duration // from the tick to the decision
	DecidedAt time.Time
	Revision  int // of the schedule, at the decision
}

// TaskID is the id of the tick's task; "" if none was created.
func (e Entry) TaskID(scheduleID string) string {
	if !e.HasTask {
		return ""
	}
	return scheduleID + "@" + e.Name
}

const (
	tickLayout   = "20060102T150405Z"
	tickLayoutMS = "20060102T150405.000Z"
	manualLayout = "20060102T150405.000000Z" + ManualSuffix // with µs, so that no two are the same
)

// ManualSuffix ends the names of runs that somebody asked for by hand.
const ManualSuffix = "-manual"

// TickName is a nominal time as ids of tasks have it: 20260102T150405Z, or 20260102T150405.250Z.
func TickName(tick time.Time) string {
	tick = tick.UTC()
	if tick.Nanosecond() < int(time.Millisecond) {
		return tick.Format(tickLayout)
	}
	return tick.Format(tickLayoutMS)
}

// ManualName is the name of a run that somebody asked for by hand at that time.
func ManualName(at time.Time) string { return at.UTC().Format(manualLayout) }

// ParseTickName reads what TickName and ManualName write.
func ParseTickName(name string) (tick time.Time, manual bool, _ error) {
	if at, err := time.Parse(manualLayout, name); err == nil {
		return at, true, nil
	}
	at, err := time.Parse(tickLayout, name) // which accepts a fraction, too
	if err != nil || TickName(at) != name {
		return time.Time{}, false, fmt.Errorf("%q does not name a tick", name)
	}
	return at, false, nil
}

// OfTask is the schedule that created a task, and the name of the tick; ok is false if none did.
func OfTask(ref task.Ref) (schedule, tick string, ok bool) { return strings.Cut(ref.ID, "@") }
