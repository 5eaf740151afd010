package layout

import (
	"time"

	"github.com/dts-sched/dts/internal/clock"
)

// Limits of lists that filter what they read. Beyond the budget and the time a page ends early, with a cursor.
const (
	ScanChunk  = 500    // entries that are read at least when a list reads on
	ScanBudget = 20_000 // entries read in one request

	// PageTime is how long one request goes on reading, so that it is answered within half a second. Most pages take some
	// ms. A request that is cut off after 30 s has done all its work for nothing, and is made again.
	PageTime = 400 * time.Millisecond

	scanMost = 5000 // entries that are read at once
	setsRead = 8    // sets for each entry that a list asks for when it reads on, as a look at them costs the most
)

// Scan says how many entries a list reads at once, and when a page ends early.
type Scan struct {
	next, more, seen int
	limit            time.Duration
	began            time.Time
}

// NewScan begins a page of limit rows from that many sets of entries. first: it is the first page, often the only one.
func (l *Layout) NewScan(limit, sets int, first bool) *Scan {
	s := &Scan{next: limit, more: min(scanMost, sets/setsRead), limit: l.PageTime, began: clock.Now()}
	if !first {
		s.next = max(limit, s.more)
	}
	return s
}

// Next is how many entries to read now: more each time. Each time costs a look at all sets, and there may be thousands
// of them.
func (s *Scan) Next() int {
	n := min(s.next, ScanBudget-s.seen)
	s.next = max(ScanChunk, s.more, min(scanMost, 2*s.next))
	return n
}

// Read counts entries that were read.
func (s *Scan) Read(entries int) { s.seen += entries }

// Over reports whether the page is to end. Ask it when the list has gone on by an entry: a page must do so.
func (s *Scan) Over() bool { return s.seen >= ScanBudget || clock.Since(s.began) >= s.limit }

// Until returns how long to go through the entries that were read just now: to the end of the page's time, and at
// least for a quarter of that, as reading them may have taken long, and would again for the next page.
func (s *Scan) Until() time.Time {
	end, least := s.began.Add(s.limit), clock.Now().Add(s.limit/4)
	if end.After(least) {
		return end
	}
	return least
}
