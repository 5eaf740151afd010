package scheduler

import (
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

const (
	// rateWindow is the least time over which the rate of a queue is measured.
	rateWindow = 100 * time.Millisecond
	// orderSlack is by how much tasks of a queue in several partitions may start out of the order of their due times.
	orderSlack = 100 * time.Millisecond
)

// flow is what this node knows of a queue, or of a lane, that has a backlog, or was more than half full a moment ago.
type flow struct {
	oldest   map[int]time.Time // by partition in which tasks wait: when the first of them was due; zero if that is not known
	free     int               // tasks that may be claimed, beyond those that are reserved
	reserved int               // tasks that terms may be claiming at the moment
	asked    time.Time         // when Redis was asked for free, and the workers for word; zero: ask again
	used     time.Time         // when deliveries were handed over last
	apart    int               // of a queue: waiting deliveries at the last look that count for lanes and not for the queue
	ended    int64             // deliveries that had ended in the queue at the time measured
	measured time.Time
	rate     float64 // deliveries that end in a second

	full  bool      // there was no room when this was last known
	since time.Time // when there was room again; zero if there always was, as far as known
	word  time.Time // when somebody said that there may be room; zero if nobody has since the last look
}

// forgetAsked has the next look ask Redis, as there may be room.
func (f *flow) forgetAsked() {
	f.asked = time.Time{}
	if f.word.IsZero() {
		f.word = clock.Now()
	}
}

// begin returns since when there is the room that a look has found: since the word of it or, without one, since the
// look was asked for.
func (f *flow) begin() time.Time {
	at := f.word
	if at.IsZero() {
		at = f.asked
	}
	if at.IsZero() {
		at = clock.Now()
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

func (f *flow) waits(p int) bool {
	_, waits := f.oldest[p]
	return waits
}

// portion is how many tasks of a partition may be claimed at once. If tasks of it wait, that is an equal share with the other
// partitions whose tasks have waited as long, up to the time from which others have waited; and none while others have waited
// longer.
func (f *flow) portion(p int) partition.Quota {
	if len(f.oldest) == 0 {
		return partition.Quota{Number: min(f.free, leastAhead)}
	}
	first := f.first()
	if !slices.Contains(first, p) {
		return partition.Quota{}
	}
	equal := (f.free + f.reserved + len(first) - 1) / len(first)
	quota := partition.Quota{Number: min(f.free, equal, claimLimit)}
	for other, at := range f.oldest {
		if at.IsZero() {
			at = f.oldest[p]
		}
		if other != p && !at.IsZero() && (quota.UpTo.IsZero() || at.Before(quota.UpTo)) {
			quota.UpTo = at
		}
	}
	if !quota.UpTo.IsZero() {
		quota.UpTo = quota.UpTo.Add(orderSlack)
	}
	return quota
}

// first returns the partitions whose tasks have waited longest, within orderSlack. Those of which that is not known count as
// the first.
func (f *flow) first() []int {
	var least time.Time
	for _, at := range f.oldest {
		if at.IsZero() {
			least = at
			break
		}
		if least.IsZero() || at.Before(least) {
			least = at
		}
	}
	var first []int
	for p, at := range f.oldest {
		if !at.After(least.Add(orderSlack)) {
			first = append(first, p)
		}
	}
	return first
}

// measure updates the rate of a queue.
func (f *flow) measure(look queue.Look) {
	now := clock.Now()
	passed := now.Sub(f.measured)
	if passed < rateWindow {
		return
	}
	if !f.measured.IsZero() {
		f.rate = float64(max(look.Ended-f.ended, 0)) / passed.Seconds()
	}
	f.ended, f.measured = look.Ended, now
}

// roomSince returns, for each of the deliveries that were claimed, since when its queue or lane has had room, as far as
// this node knows; the zero time if it always had.
func (q *quotas) roomSince(deliveries []task.Delivery) []time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	since := make([]time.Time, len(deliveries))
	if len(q.flows) == 0 {
		return since
	}
	for i, d := range deliveries {
		f := q.flows[lua.LaneName(d.Queue, d.Type)]
		if f == nil {
			f = q.flows[d.Queue]
		}
		if f != nil {
			since[i] = f.since
		}
	}
	return since
}
