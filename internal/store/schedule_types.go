package store

import (
	"time"

	"github.com/dts-sched/dts/internal/schedule"
)

// PutOptions says when a definition may take the place of another one. The zero value: always.
type PutOptions struct {
	IfMatch  int   // the revision it may replace; 0: any, or none
	IfAbsent bool  // only create, replace nothing
	Paused   *bool // nil: as it was; a new schedule is not paused
	DryRun   bool  // only say what would come of it
}

// Put is the answer to a definition; to a dry run, what it would be.
type Put struct {
	Schedule schedule.Schedule
	Created  bool
	Changed  bool // a new revision came of it, as is always so where it was Created
	Switched bool // it was there, and was paused or resumed
}

// ScheduleFilter narrows a list. Empty fields match everything, but for the namespace, which is always one.
type ScheduleFilter struct {
	Namespace string
	Paused    *bool
	Owner     string
	Labels    map[string]string // the schedule has all of them, and maybe others
}

// SchedulePage is a part of a list. NextCursor is empty on the last one.
type SchedulePage struct {
	Schedules  []schedule.Schedule
	NextCursor string
}

// Backfilled is the answer to a backfill.
type Backfilled struct {
	Entries []schedule.Entry // the ticks that got their task, oldest first
	Left    int              // ticks of the range that had run
}

// DeleteTasks says what becomes of the tasks of a schedule that is deleted, as far as they have not ended.
type DeleteTasks string

// What may become of them.
const (
	DeleteWaiting DeleteTasks = "waiting" // those that have not begun are cancelled, running ones go on
	DeleteAll     DeleteTasks = "all"     // running ones are asked to stop as well
	DeleteNone    DeleteTasks = "none"    // all go on
)

// Deleted counts what became of them.
type Deleted struct {
	Cancelled int
	Stopping  int // ran, and were asked to stop
	Left      int // go on
}

// LedgerFilter narrows a ledger. The zero value matches everything.
type LedgerFilter struct {
	Since time.Time // ticks at this time or later
	Until time.Time // ticks at this time or earlier
	Gaps  bool      // only ticks that did not run though nothing excluded them: missed, skipped_overlap, replaced
}

// LedgerPage is a part of a ledger, newest first. NextCursor is empty on the last one.
type LedgerPage struct {
	Entries    []schedule.Entry
	KnownFrom  time.Time // the ledger has forgotten what was before; zero: nothing
	NextCursor string
}
