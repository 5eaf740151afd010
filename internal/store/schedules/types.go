package schedules

import (
	"time"

	"github.com/dts-sched/dts/internal/schedule"
)

// Filter narrows a list. Empty fields match everything, but for the namespace, which is always one.
type Filter struct {
	Namespace string
	Paused    *bool
	Owner     string
	Labels    map[string]string // the schedule has all of them, and maybe others
}

// Page is a part of a list. NextCursor is empty on the last one.
type Page struct {
	Schedules  []schedule.Schedule
	NextCursor string
}

// Backfilled is the answer to a backfill.
type Backfilled struct {
	Entries []schedule.Entry // the ticks that got their task, oldest first
	Left    int              // ticks of the range that had run
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
