package schedule

import (
	"cmp"
	"time"
)

// Defaults, for what a definition leaves out.
const (
	DefaultMisfire = MisfireOnce
	DefaultWindow  = time.Hour
	DefaultMax     = 100 // misfires that run by policy all
	DefaultOverlap = OverlapSkip
)

// OnTime is how late a tick may be fired and still count as on time, so that the policy for misfires is not asked:
// a leader that dies is replaced within it.
const OnTime = 15 * time.Second

// CatchUpPace is the time between two misfires of one schedule that run, so that catching up does not flood.
const CatchUpPace = time.Second

// Limits on what may be asked for.
const (
	IDLimit          = 160                    // characters; a tick's task has the tick behind it
	RulesLimit       = 20                     // rules of one schedule
	ExcludeLimit     = 200                    // exclusions of one schedule
	ExpressionLimit  = 200                    // characters of a cron expression or exclusion
	IntervalMin      = 100 * time.Millisecond // of every
	IntervalLimit    = 10 * 365 * 24 * time.Hour
	JitterLimit      = 24 * time.Hour
	WindowLimit      = 365 * 24 * time.Hour
	MaxLimit         = 1000 // misfires that run
	MaxRunsLimit     = 1_000_000_000
	FailuresLimit    = 1000 // of pause_on_failure
	NoteLimit        = 500  // bytes of a pause's note
	DescriptionLimit = 1000 // bytes
	BackfillLimit    = 1000 // ticks of one backfill
)

// Limits on what a schedule leaves behind.
const (
	LiveLimit             = 10_000              // tasks that have not ended, whatever the overlap policy
	WaitingLimit          = 100                 // ticks that wait by overlap queue
	HistoryLimit          = 20                  // revisions, the present one included
	UndecidedHistoryLimit = 500                 // ... and up to so many, while ticks of their time are not decided
	LedgerLimit           = 10_000              // records, the newest
	LedgerHorizon         = 90 * 24 * time.Hour // older records are forgotten
)

// WithDefaults is m with every default filled in.
func (m Misfire) WithDefaults() Misfire {
	return Misfire{
		Policy: cmp.Or(m.Policy, DefaultMisfire),
		Window: cmp.Or(m.Window, DefaultWindow),
		Max:    cmp.Or(m.Max, DefaultMax),
	}
}

// EffectiveOverlap is the policy that applies.
func (d Definition) EffectiveOverlap() Overlap { return cmp.Or(d.Overlap, DefaultOverlap) }
