package schedule

import (
	"slices"
	"time"
)

// Report is the result of an audit, which compares the ticks that the definitions of a schedule name with its ledger.
type Report struct {
	From, Until    time.Time       // the audited range, both included
	Expected       int             // ticks in the range that must have a record
	Accounted      int             // expected ticks that have one
	Outcomes       map[Outcome]int // the records in the range, by outcome
	Gaps           []time.Time     // expected ticks without a record
	Strays         []Entry         // records of ticks that no definition names, and second records of a tick
	Pending        int             // due ticks that are not decided yet and need no record, as during a pause
	ForgottenUntil time.Time       // ledger or history are incomplete up to this time, and the audit begins after it; zero: complete
	Losses         []Loss          // when Redis has lost writes in the range, earliest first: ticks of these times may have fired twice
	Warnings       []string        // what cannot be read, and the holes of the timeline in the range: sentences without a full stop
	Proved         bool            // no gaps, no strays, no losses, no warnings, and ForgottenUntil is zero
}

// Loss is a span of time from which Redis has lost writes that it had acknowledged, as a failover to a replica that is behind does.
type Loss struct{ From, Until time.Time }

// LossesLimit is how many losses are kept of each partition, the newest ones.
const LossesLimit = 100

// AuditLimit is the greatest number of ticks that one audit compares.
const AuditLimit = 100_000

// Evidence is the input of Audit.
type Evidence struct {
	Timeline       Timeline  // must not be empty
	Entries        []Entry   // the records of the range, in any order
	From, Until    time.Time // the range, both included
	Cursor, Now    time.Time // ticks up to Cursor are decided
	ForgottenUntil time.Time // the ledger lacks records up to this time; zero: it lacks none
	Paused         bool      // the schedule is paused: ticks after Cursor are not decided
	Losses         []Loss    // those that are known, in any order
	Unreadable     []string  // what of the evidence cannot be read, in sentences; nil: all can be read
}

// Audit compares the ticks of the timeline with the entries. A tick after the cursor is expected to have a record once it is
// more than OnTime late, unless the schedule is paused. more is true if there are more than AuditLimit ticks; the report is
// invalid then.
func Audit(e Evidence) (_ Report, more bool) {
	r := Report{From: e.From, Until: e.Until, Outcomes: make(map[Outcome]int)}
	after := e.From.Add(-time.Millisecond)
	if forgotten := e.forgottenUntil(); forgotten.After(after) {
		r.ForgottenUntil, after = forgotten, forgotten
	}
	ticks, more := e.Timeline.Ticks(after, earlier(e.Until, e.Now), AuditLimit)
	expected := make(map[string]bool, len(ticks))
	for _, t := range ticks {
		if t.At.After(e.Cursor) && (e.Paused || e.Now.Sub(t.At) <= OnTime) {
			r.Pending++
			continue
		}
		expected[TickName(t.At)] = true
	}
	r.Expected = len(expected)
	holes := e.Timeline.Holes()
	for _, entry := range e.Entries {
		if entry.Tick.After(after) && !entry.Tick.After(e.Until) && (entry.manual() || !entry.Tick.After(e.Cursor)) {
			r.count(entry, expected, e.Timeline[0].From, holes)
		}
	}
	for _, t := range ticks {
		if expected[TickName(t.At)] {
			r.Gaps = append(r.Gaps, t.At)
		}
	}
	r.Losses, r.Warnings = e.lossesAfter(after), e.warningsAfter(after, holes)
	r.Proved = len(r.Losses)+len(r.Gaps)+len(r.Strays)+len(r.Warnings) == 0 && r.ForgottenUntil.IsZero()
	return r, more
}

// count adds one record to the report, and removes its tick from the expected ones. Records of manual runs need no tick in
// the timeline, and neither do those in its holes and backfilled ticks from before first, that of the first definition.
func (r *Report) count(entry Entry, expected map[string]bool, first time.Time, holes []Hole) {
	r.Outcomes[entry.Outcome]++
	switch {
	case expected[entry.Name]:
		delete(expected, entry.Name)
		r.Accounted++
	case entry.manual() || entry.Outcome == Backfilled && !entry.Tick.After(first):
	case slices.ContainsFunc(holes, func(h Hole) bool { return h.Contains(entry.Tick) }):
	default:
		r.Strays = append(r.Strays, entry)
	}
}

// manual reports whether the record is that of a manual run.
func (e Entry) manual() bool {
	_, manual, err := ParseTickName(e.Name)
	return err == nil && manual
}

// forgottenUntil returns the time up to which records may be missing, or zero if the ledger lacks none.
func (e Evidence) forgottenUntil() time.Time {
	forgotten := e.ForgottenUntil
	if horizon := e.Now.Add(-LedgerHorizon); e.From.Before(horizon) && horizon.After(forgotten) {
		forgotten = horizon
	}
	return forgotten
}

// lossesAfter returns the losses that touch the range after a time, earliest first.
func (e Evidence) lossesAfter(after time.Time) []Loss {
	var found []Loss
	for _, l := range e.Losses {
		if l.Until.After(after) && !l.From.After(e.Until) {
			found = append(found, l)
		}
	}
	slices.SortFunc(found, func(a, b Loss) int { return a.From.Compare(b.From) })
	return found
}

// warningsAfter returns what cannot be read, and the holes of the timeline that touch the range after a time.
func (e Evidence) warningsAfter(after time.Time, holes []Hole) []string {
	warnings := slices.Clone(e.Unreadable)
	for _, hole := range holes {
		if hole.Until.After(after) && hole.From.Before(e.Until) {
			warnings = append(warnings, hole.String())
		}
	}
	return warnings
}

// earlier returns the earlier of two times.
func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
