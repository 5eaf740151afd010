package schedule

import (
	"time"
)

// Report is the result of an audit: what should have happened in a time, compared with what the ledger says.
type Report struct {
	From, Until    time.Time // both included
	Expected       int       // ticks that the definitions of the time name, and that are decided or should be
	Accounted      int       // of these, how many have a record
	Outcomes       map[Outcome]int
	Gaps           []time.Time // expected, without a record
	Strays         []Entry     // recorded, though no definition names them, or twice
	Pending        int         // named ticks whose time has come and which are not decided yet, as during a pause
	ForgottenUntil time.Time   // up to here ledger or history have forgotten what was; the audit begins after it; zero: nothing
	Proved         bool        // every expected tick has exactly one record, and nothing was forgotten
}

// AuditLimit is the number of ticks one audit compares at most.
const AuditLimit = 100_000

// Evidence is what an audit needs to know.
type Evidence struct {
	Timeline    Timeline
	Entries     []Entry // of the time, in any order
	From, Until time.Time
	Cursor, Now time.Time
	KnownFrom   time.Time // the ledger has forgotten what was before; zero: nothing
	Paused      bool      // nobody is to decide about ticks after the cursor
}

// Audit compares. more is true if there are more than AuditLimit ticks: then the report is not to be used.
func Audit(e Evidence) (_ Report, more bool) {
	r := Report{From: e.From, Until: e.Until, Outcomes: make(map[Outcome]int)}
	after := e.From.Add(-time.Millisecond)
	if known := e.knownFrom(); known.After(after) {
		r.ForgottenUntil, after = known, known
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
	for _, entry := range e.Entries {
		if entry.Tick.After(after) && !entry.Tick.After(e.Until) && (entry.manual() || !entry.Tick.After(e.Cursor)) {
			r.count(entry, expected, e.Timeline)
		}
	}
	for _, t := range ticks {
		if expected[TickName(t.At)] {
			r.Gaps = append(r.Gaps, t.At)
		}
	}
	r.Proved = len(r.Gaps) == 0 && len(r.Strays) == 0 && r.ForgottenUntil.IsZero()
	return r, more
}

// count takes a record's tick off what is expected.
func (r *Report) count(entry Entry, expected map[string]bool, l Timeline) {
	r.Outcomes[entry.Outcome]++
	switch {
	case expected[entry.Name]:
		delete(expected, entry.Name)
		r.Accounted++
	case entry.manual() || entry.Outcome == Backfilled && !entry.Tick.After(l[0].From): // from before there was a definition
	default:
		r.Strays = append(r.Strays, entry)
	}
}

func (e Entry) manual() bool {
	_, manual, err := ParseTickName(e.Name)
	return err == nil && manual
}

// knownFrom is the time up to which nothing can be said.
func (e Evidence) knownFrom() time.Time {
	known := e.KnownFrom
	if horizon := e.Now.Add(-LedgerHorizon); e.From.Before(horizon) && horizon.After(known) {
		known = horizon
	}
	return known
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
