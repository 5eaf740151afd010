package scheduler

import (
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/store/partition"
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
