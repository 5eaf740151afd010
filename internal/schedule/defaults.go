package schedule

import (
	"cmp"
	"time"
)

// Defaults of fields that a definition leaves out.
const (
	DefaultMisfire = MisfireOnce
	DefaultWindow  = time.Hour // of Misfire.Window
	DefaultMax     = 100       // of Misfire.Max
	DefaultOverlap = OverlapSkip
)

// OnTime is how late a tick may fire without being a misfire. It is longer than it takes to replace a leader that died.
const OnTime = 15 * time.Second

// CatchUpPace is the time between the tasks of two misfires of one schedule. It keeps policy all from flooding the workers.
const CatchUpPace = time.Second

// Limits on a definition and on requests. What exceeds a limit is refused, and the error names the field.
const (
	IDLimit          = 160                    // characters of an id; the id of a task of the schedule is longer
	RulesLimit       = 20                     // rules of one schedule
	ExcludeLimit     = 200                    // exclusions of one schedule
	ExpressionLimit  = 200                    // characters of a cron expression or exclusion
	IntervalMin      = 100 * time.Millisecond // the shortest Rule.Every
	IntervalLimit    = 10 * 365 * 24 * time.Hour
	JitterLimit      = 24 * time.Hour
	WindowLimit      = 365 * 24 * time.Hour // of Misfire.Window
	MaxLimit         = 1000                 // of Misfire.Max
	MaxRunsLimit     = 1_000_000_000
	FailuresLimit    = 1000 // of PauseOnFailure
	NoteLimit        = 500  // bytes of the note of a pause
	DescriptionLimit = 1000 // bytes
	BackfillLimit    = 1000 // ticks of one backfill
)

// Limits on the state of a schedule. Of the history and the ledger, the oldest entries are deleted.
const (
	LiveLimit             = 10_000              // tasks that have not ended, with any overlap policy
	WaitingLimit          = 100                 // ticks that wait with overlap queue
	HistoryLimit          = 20                  // revisions, including the current one
	UndecidedHistoryLimit = 500                 // the same, while the cursor has not reached the end of their span
	LedgerLimit           = 10_000              // records
	LedgerHorizon         = 90 * 24 * time.Hour // the age of a record
)

// WithDefaults returns m with the defaults in place of zero values.
func (m Misfire) WithDefaults() Misfire {
	return Misfire{
		Policy: cmp.Or(m.Policy, DefaultMisfire),
		Window: cmp.Or(m.Window, DefaultWindow),
		Max:    cmp.Or(m.Max, DefaultMax),
	}
}

// EffectiveOverlap returns the overlap policy, or the default if there is none.
func (d Definition) EffectiveOverlap() Overlap { return cmp.Or(d.Overlap, DefaultOverlap) }
