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

// HoldPause is the time after which a leader looks again at a schedule whose ticks it holds back, since their queue is full.
const HoldPause = time.Second

// CatchUpPace is the time between the tasks of two misfires of one schedule. It keeps policy all from flooding the workers.
const CatchUpPace = time.Second

// Limits on the state of a schedule. Of the history and the ledger, the oldest entries are deleted.
const (
	LiveLimit             = 10_000              // tasks that have not ended, with any overlap policy
	StopLimit             = 200                 // tasks that one run of a script stops with overlap replace
	WaitingLimit          = 100                 // ticks that wait with overlap queue
	HistoryLimit          = 20                  // revisions, including the current one
	UndecidedHistoryLimit = 500                 // the same, while the cursor has not reached the end of their span
	LedgerLimit           = 10_000              // records
	LedgerHorizon         = 90 * 24 * time.Hour // the age of a record
	AskedFor              = time.Hour           // how long a request with a key returns what the first one has run
	AskedLimit            = 1000                // such keys of a schedule that are remembered, the newest
	EndsChunk             = 25                  // ends of runs that are written together
	EndsChunks            = 4                   // full chunks of ends, before the one that grows
	DaysLimit             = 90                  // days with counts of what became of ticks
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
