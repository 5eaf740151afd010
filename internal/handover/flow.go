package handover

import "time"

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
	turns              // who waits
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

// portions returns what may be claimed at once of a partition: of the tasks without a fair key, and of those of the
// keys that have something to get.
//
// If only tasks without a key wait, that is an equal share with the other partitions whose tasks have waited as long,
// up to the time from which others have waited; and none while others have waited longer. If fair keys wait, each gets
// its turns, and what comes new waits for its own.
func (f *flow) portions(p int, r *rooms) (Quota, map[Fair]Quota) {
	switch {
	case len(f.order) == 0:
		return Quota{Number: min(f.free, LeastAhead)}, nil
	case !f.alone():
		return f.shares(p, r)
	case !contains(f.plain.first(), p):
		return Quota{}, nil
	}
	first := f.plain.first()
	equal := (f.free + f.reserved + len(first) - 1) / len(first)
	return Quota{Number: min(f.free, equal, ClaimLimit), UpTo: f.plain.upTo(p), inTurn: len(f.keyed) > 0}, nil
}

// shares is portions while tasks with fair keys or limits wait. If none of them has room in its limits, others that
// come have what is free.
func (f *flow) shares(p int, r *rooms) (Quota, map[Fair]Quota) {
	numbers := make(map[Fair]int)
	most, planned := min(f.free, ClaimLimit), 0
	if most > 0 {
		f.plan(f.free, r.again(), func(t *turn, partition int) bool {
			planned++
			if partition == p {
				numbers[t.Fair]++
				most--
			}
			return most > 0
		})
	}
	keyed := make(map[Fair]Quota, len(numbers))
	for fair, n := range numbers {
		keyed[fair] = Quota{Number: n, UpTo: f.of(fair).upTo(p), inTurn: true}
	}
	own := keyed[Fair{}]
	delete(keyed, Fair{})
	if len(f.plain.line) == 0 && most > 0 && planned < f.free {
		own.Number = min(f.free-planned, LeastAhead)
	}
	return own, keyed
}

// part returns for how many tasks each partition may ask limits: an equal share of the room, rounded up. Of what is
// reserved, claims mostly take little.
func (f *flow) part() int {
	partitions := 0
	for _, keys := range f.in {
		partitions += min(keys, 1)
	}
	partitions = max(partitions, 1)
	return (f.free + f.reserved + partitions - 1) / partitions
}

// comes reports whether the tasks of a partition may be claimed next.
func (f *flow) comes(p int) bool {
	if f.alone() {
		return contains(f.plain.first(), p)
	}
	return f.waits(p)
}

// wake adds the partitions whose tasks may be claimed next, or need slots of limits that nobody asks for.
func (f *flow) wake(partitions map[int]bool, r *rooms) {
	if f.alone() {
		for _, w := range f.plain.first() {
			partitions[w.partition] = true
		}
		return
	}
	f.plan(max(f.free, LeastAhead), r.again(), func(_ *turn, p int) bool {
		partitions[p] = true
		return true
	})
	f.wakeLimited(partitions, r)
}

// wakeLimited adds the partitions whose tasks need slots of limits that nobody asks for. A leader asks for none, and
// leaves the line, while there is no room for what it would claim.
func (f *flow) wakeLimited(partitions map[int]bool, r *rooms) {
	for _, t := range f.order {
		if f.free > 0 && t.limits != nil {
			r.asks(t, partitions)
		}
	}
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
