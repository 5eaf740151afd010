package handover

import (
	"slices"
	"time"
)

const (
	// ClaimLimit is the most tasks that a claim takes.
	ClaimLimit = 256
	// LeastAhead is how many deliveries may wait in a queue that is served, however few slots its workers have, and how
	// many tasks of a queue without a backlog a claim may take.
	LeastAhead = 16
	// rateWindow is the least time over which the rate of a queue is measured.
	rateWindow = 100 * time.Millisecond
	// OrderSlack is by how much tasks of a lane in several partitions may start out of the order of their due times.
	OrderSlack = 100 * time.Millisecond
)

// flow is what is known of a lane that has a backlog, or whose queue was more than half full a moment ago.
type flow struct {
	line     []waiting // the partitions in which tasks wait, by how long they have
	free     int       // tasks that may be claimed, beyond those that are reserved
	reserved int       // tasks that terms may be claiming at the moment
	asked    time.Time // when Redis was asked for free, and the workers for word; zero: ask again
	used     time.Time // when deliveries were handed over last
	apart    int       // of a queue: waiting deliveries at the last look that count for lanes and not for the queue
	ended    int64     // deliveries that had ended in the queue at the time measured
	measured time.Time
	rate     float64 // deliveries that end in a second

	full  bool      // there was no room when this was last known
	since time.Time // when there was room again; zero if there always was, as far as known
	word  time.Time // when somebody said that there may be room; zero if nobody has since the last look
}

// waiting is a partition in which tasks wait, and when the first of them was due: zero if that is not known.
type waiting struct {
	partition int
	oldest    time.Time
}

// wait puts a partition into the line. Those of which it is not known since when they wait come first.
func (f *flow) wait(p int, oldest time.Time) {
	f.leave(p)
	at := slices.IndexFunc(f.line, func(w waiting) bool { return w.oldest.After(oldest) })
	if at < 0 {
		at = len(f.line)
	}
	f.line = slices.Insert(f.line, at, waiting{p, oldest})
}

func (f *flow) leave(p int) {
	f.line = slices.DeleteFunc(f.line, func(w waiting) bool { return w.partition == p })
}

func (f *flow) waits(p int) bool { return contains(f.line, p) }

func contains(line []waiting, p int) bool {
	return slices.ContainsFunc(line, func(w waiting) bool { return w.partition == p })
}

// first returns the partitions whose tasks have waited longest, within OrderSlack.
func (f *flow) first() []waiting {
	n := 0
	for n < len(f.line) && !f.line[n].oldest.After(f.line[0].oldest.Add(OrderSlack)) {
		n++
	}
	return f.line[:n]
}

// portion is how many tasks of a partition may be claimed at once. If tasks of it wait, that is an equal share with the
// other partitions whose tasks have waited as long, up to the time from which others have waited; and none while others
// have waited longer.
func (f *flow) portion(p int) Quota {
	if len(f.line) == 0 {
		return Quota{Number: min(f.free, LeastAhead)}
	}
	first := f.first()
	if !contains(first, p) {
		return Quota{}
	}
	equal := (f.free + f.reserved + len(first) - 1) / len(first)
	quota := Quota{Number: min(f.free, equal, ClaimLimit)}
	for _, other := range f.line {
		if other.partition != p && !other.oldest.IsZero() {
			quota.UpTo = other.oldest.Add(OrderSlack)
			break
		}
	}
	return quota
}

// forgetAsked has the next look ask Redis, as there may be room.
func (f *flow) forgetAsked(now time.Time) {
	f.asked = time.Time{}
	if f.word.IsZero() {
		f.word = now
	}
}

// begin returns since when there is the room that a look has found: since the word of it or, without one, since the
// look was asked for.
func (f *flow) begin(now time.Time) time.Time {
	at := f.word
	if at.IsZero() {
		at = f.asked
	}
	if at.IsZero() {
		at = now
	}
	f.word = time.Time{}
	return at
}

// fill notes that there is no room. What was said before is no word of the next one.
func (f *flow) fill() { f.full, f.word = true, time.Time{} }

// noteRoom notes whether there is room, and at what time. Before, tasks have waited for the workers.
func (f *flow) noteRoom(at time.Time) {
	switch has := f.free+f.reserved > 0; {
	case !has:
		f.fill()
	case f.full:
		f.full, f.since = false, at
	}
}

// measure updates the rate of a queue.
func (f *flow) measure(look Look, now time.Time) {
	passed := now.Sub(f.measured)
	if passed < rateWindow {
		return
	}
	if !f.measured.IsZero() {
		f.rate = float64(max(look.Ended-f.ended, 0)) / passed.Seconds()
	}
	f.ended, f.measured = look.Ended, now
}
