package schedule

import (
	"cmp"
	"container/heap"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// Merge returns the coming ticks of several schedules in order of time, and at the same time by name. Excluded ticks
// are left out. Add each schedule, and call Next for each tick; both may alternate.
type Merge struct{ heads heads }

// MergedTick is a tick of one of the schedules.
type MergedTick struct {
	UpcomingTick
	Ref         task.Ref // of the schedule
	Location    *time.Location
	Queue, Type string // of its task
}

// Add adds the ticks of a schedule after a time, up to its last run. found is false if it has none, or if 10,000 steps
// find none; more: there may be one after them. A schedule that is paused or has ended has none. Error: its definition
// names no times.
func (m *Merge) Add(s Schedule, after time.Time) (found, more bool, _ error) {
	if !s.PausedAt.IsZero() || !s.EndedAt.IsZero() {
		return false, false, nil
	}
	table, err := Compile(s.Spec, s.Ref, s.CreatedAt)
	if err != nil {
		return false, false, err
	}
	h := &head{ref: s.Ref, table: table, queue: cmp.Or(s.Task.Queue, task.DefaultQueue), kind: s.Task.Type, runs: -1}
	if s.MaxRuns > 0 {
		h.runs = max(0, s.MaxRuns-s.Runs)
	}
	if found, more = h.advance(after); found {
		heap.Push(&m.heads, h)
	}
	return found, more, nil
}

// Next removes and returns the first tick before a time; the zero time means no limit. It returns false if there is
// none.
func (m *Merge) Next(before time.Time) (MergedTick, bool) {
	if len(m.heads) == 0 || !before.IsZero() && !m.heads[0].at.Before(before) {
		return MergedTick{}, false
	}
	h := m.heads[0]
	tick := MergedTick{
		UpcomingTick: h.table.upcoming(Tick{At: h.at}), Ref: h.ref, Location: h.table.Location(),
		Queue: h.queue, Type: h.kind,
	}
	if found, _ := h.advance(h.at); found {
		heap.Fix(&m.heads, 0)
	} else {
		heap.Pop(&m.heads)
	}
	return tick, true
}

// Less reports whether a tick comes before another one.
func (t MergedTick) Less(other MergedTick) bool {
	return comesBefore(t.Tick, t.Ref, other.Tick, other.Ref)
}

// head is a schedule with its next tick.
type head struct {
	ref         task.Ref
	table       *Timetable
	queue, kind string
	at          time.Time
	runs        int // how many ticks it has from at on; negative: there is no limit
}

// advance goes to the first tick after a time.
func (h *head) advance(after time.Time) (found, more bool) {
	if h.runs == 0 {
		return false, false
	}
	h.runs--
	h.at, more = h.table.nextRun(after, nextLimit)
	return !h.at.IsZero(), more
}

// heads is a heap: the first one has the earliest tick.
type heads []*head

func (h heads) Len() int           { return len(h) }
func (h heads) Less(i, j int) bool { return comesBefore(h[i].at, h[i].ref, h[j].at, h[j].ref) }
func (h heads) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push adds a *head.
func (h *heads) Push(x any) { *h = append(*h, x.(*head)) } //nolint:forcetypeassert // only Add pushes

// Pop removes the last one.
func (h *heads) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// comesBefore reports whether a tick of a schedule comes before another one.
func comesBefore(at time.Time, ref task.Ref, otherAt time.Time, other task.Ref) bool {
	return cmp.Or(at.Compare(otherAt), cmp.Compare(ref.String(), other.String())) < 0
}
