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
	Left    int              // number of ticks that were left alone: they had a task or wait for their turn
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
