package bench

import (
	"math"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
)

// figures is the result of a measurement, as -o json prints it.
type figures struct {
	Name      string  `json:"name"` // the label bench of its tasks
	Queue     string  `json:"queue"`
	Delay     string  `json:"delay"`
	Rate      int     `json:"rate"`  // tasks per second that were wanted; 0 means as fast as possible
	Tasks     int     `json:"tasks"` // as many as were wanted
	Submitted int     `json:"submitted"`
	PerSecond float64 `json:"submitted_per_second"`

	Succeeded int `json:"succeeded"`
	Failed    int `json:"failed"`
	Cancelled int `json:"cancelled"`
	Unread    int `json:"unread"` // submitted, but not seen to end
	Early     int `json:"early"`  // started before they were due

	Lateness  *lateness `json:"lateness_ms,omitempty"` // left out if no task was started
	Histogram []bucket  `json:"histogram"`
}

// lateness is how long after their due times tasks were started, in ms. That many percent were not later.
type lateness struct {
	P50 int64 `json:"p50"`
	P90 int64 `json:"p90"`
	P99 int64 `json:"p99"`
	Max int64 `json:"max"`
}

// bucket counts the tasks whose lateness is within two numbers of ms, both included.
type bucket struct {
	From  int64 `json:"from_ms"`
	To    int64 `json:"to_ms"`
	Tasks int   `json:"tasks"`
}

// figures returns what is known by now.
func (m *measurement) figures() figures {
	t := m.tally
	t.mu.Lock()
	defer t.mu.Unlock()
	f := figures{
		Name: m.opts.Name, Queue: m.opts.Queue, Delay: m.opts.Delay.String(), Rate: m.opts.Rate,
		Tasks: m.opts.Tasks, Submitted: t.accepted,
		Succeeded: t.states[wire.StateSucceeded], Failed: t.states[wire.StateFailed], Cancelled: t.states[wire.StateCancelled],
	}
	if took := time.Duration(m.took.Load()); took > 0 {
		f.PerSecond = math.Round(float64(f.Submitted)/took.Seconds()*10) / 10
	}
	f.Unread = max(0, f.Submitted-f.Succeeded-f.Failed-f.Cancelled)
	late := slices.Sorted(slices.Values(t.late))
	f.Early, _ = slices.BinarySearch(late, 0)
	f.Histogram = bucketsOf(late)
	if len(late) > 0 {
		f.Lateness = &lateness{percentile(late, 50), percentile(late, 90), percentile(late, 99), late[len(late)-1]}
	}
	return f
}

// percentile returns the smallest of sorted values that at least p percent of them do not exceed.
func percentile(sorted []int64, p int) int64 {
	return sorted[max(1, (len(sorted)*p+99)/100)-1]
}

// bucketsOf returns the histogram of sorted values: 0, 1, 2 to 4, 5 to 9, 10 to 19, 20 to 49 and so on, from the first bucket
// that is not empty to the last. Negative values have a bucket of their own.
func bucketsOf(sorted []int64) []bucket {
	buckets := []bucket{}
	if len(sorted) == 0 {
		return buckets
	}
	early, _ := slices.BinarySearch(sorted, 0)
	if early > 0 {
		buckets = append(buckets, bucket{From: sorted[0], To: -1, Tasks: early})
	}
	from, left := int64(0), sorted[early:]
	for len(left) > 0 {
		next := after(from)
		count, _ := slices.BinarySearch(left, next)
		if count > 0 || len(buckets) > 0 {
			buckets = append(buckets, bucket{From: from, To: next - 1, Tasks: count})
		}
		from, left = next, left[count:]
	}
	return buckets
}

// after returns the next of the numbers 0, 1, 2, 5, 10, 20, 50 and so on.
func after(from int64) int64 {
	if from == 0 {
		return 1
	}
	first := from
	for first >= 10 {
		first /= 10
	}
	if first == 2 {
		return from / 2 * 5
	}
	return from * 2
}
