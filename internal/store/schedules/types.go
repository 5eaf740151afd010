package schedules

import (
	"time"

	"github.com/dts-sched/dts/internal/schedule"
)

// Filter narrows a list. Namespace is required; other fields match every schedule if they are empty.
type Filter struct {
	Namespace string
	Prefix    string // of the id
	Paused    *bool
	Owner     string
	Labels    map[string]string // the schedule has all of these; it may have others
	Workflow  string            // the id of the workflow that it runs

	Condition  schedule.Condition
	StaleAfter time.Duration // for the condition stale; 0: the default
}

// Page is a part of a list. NextCursor is "" on the last page.
type Page struct {
	Schedules  []schedule.Schedule
	NextCursor string
}

// Backfilled is the result of a backfill.
type Backfilled struct {
	Entries []schedule.Entry // the ticks that got a task, oldest first
	LastDue time.Time        // when the last of these tasks is due; zero if there are none
	Left    []LeftTick       // the ticks that were left alone, oldest first
}

// LeftTick is a tick that a backfill leaves alone: it has a task, or had one.
type LeftTick struct {
	Name  string
	Tick  time.Time
	Waits bool // it has no task yet, and waits for its turn
}

// TaskID returns the id of the task, "" if the tick has none yet.
func (l LeftTick) TaskID(scheduleID string) string {
	return schedule.Entry{Name: l.Name, HasTask: !l.Waits}.TaskID(scheduleID)
}

// Triggered is a run by hand, and what it replaces by the overlap policy.
type Triggered struct {
	schedule.Entry
	Replaces Replaced
}

// Replaced is what gives way to a run.
type Replaced struct {
	Tasks    int      // they are cancelled, or asked to stop
	Ticks    int      // that waited for their turn; they get no task
	Examples []string // names of the first 10 tasks
}

// LedgerFilter narrows a ledger. The zero value matches everything.
type LedgerFilter struct {
	Since   time.Time // ticks at this time or later
	Until   time.Time // ticks at this time or earlier
	HasTask bool      // only ticks whose task was created
	Gaps    bool      // only ticks that did not run although no rule excluded them: missed, skipped_overlap, replaced
}

// LedgerPage is a part of a ledger, newest first. NextCursor is "" on the last page.
type LedgerPage struct {
	Entries        []schedule.Entry
	ForgottenUntil time.Time // the ledger has forgotten records up to this time; zero if none
	NextCursor     string
}
