package chaos

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
)

// startsWithin is how much longer than tasks without limits a task may wait while all of its limits have free slots,
// and nothing happens to anybody. On a busy machine, all of them wait.
const startsWithin = 3 * time.Second

// limited is a task with limits.
type limited struct {
	id    string
	slots map[string]int // by the names of its limits
	ready time.Time      // since then it may begin; zero: it is not known
	place *place         // nil: it may run anywhere
	calls []call
	ended []wire.Attempt // its history
}

// hold is a time in which a task held a slot for certain.
type hold struct {
	span

	task string
}

// judgeLimits: never do more tasks of a limit run than it has slots, as seen by the handlers. No task waits long
// while all of its limits have free slots. What Redis has lost excuses the time after that.
func judgeLimits(tasks []limited, p *past) (v verdict) {
	holds := make(map[string][]hold)
	slots := make(map[string]int)
	for _, t := range tasks {
		for _, c := range t.calls {
			if held, known := c.within(t.ended, p); known {
				for name, n := range t.slots {
					holds[name], slots[name] = append(holds[name], hold{held, t.id}), n
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(holds)) {
		v = append(v, judgeHolds(name, slots[name], holds[name], p)...)
	}
	longest := startsWithin
	for _, t := range tasks {
		if waits, known := t.waits(p); known && len(t.slots) == 0 {
			longest = max(longest, startsWithin+waits.until.Sub(waits.from))
		}
	}
	for _, t := range tasks {
		v = append(v, t.judgeWait(longest, holds, p)...)
	}
	return v
}

// judgeHolds: at no time hold more tasks a slot of a limit than it has.
func judgeHolds(name string, slots int, all []hold, p *past) (v verdict) {
	slices.SortFunc(all, func(a, b hold) int { return a.from.Compare(b.from) })
	var open []hold
	for _, h := range all {
		open = slices.DeleteFunc(open, func(o hold) bool { return !o.until.After(h.from) })
		open = append(open, h)
		if len(open) > slots && !p.hasLostBefore(h.from) {
			v.add("the limit %s has %d slots, and %d tasks ran at %s: %s",
				name, slots, len(open), h.from.UTC().Format(stamp), fmt.Sprint(tasksOf(open)))
		}
	}
	return v
}

func tasksOf(holds []hold) (ids []string) {
	for _, h := range holds {
		ids = append(ids, h.task)
	}
	return ids
}

// hasLostBefore reports whether Redis has lost anything until a time: then limits may be exceeded for a while.
func (p *past) hasLostBefore(at time.Time) bool {
	return slices.ContainsFunc(p.lost, func(l loss) bool { return !l.from.After(at) })
}

// waits returns the time in which the task could begin, and had not begun; false if that is not known, if it may not
// run anywhere, or if something happened then.
func (t limited) waits(p *past) (_ span, known bool) {
	if t.ready.IsZero() || t.place != nil || len(t.calls) == 0 {
		return span{}, false
	}
	waits := span{t.ready, later(t.ready, t.calls[0].begin)}
	return waits, !p.disturbs(span{waits.from.Add(-begunWithin), waits.until})
}

// judgeWait: the task begins soon when its limits have free slots.
func (t limited) judgeWait(longest time.Duration, holds map[string][]hold, p *past) (v verdict) {
	waits, known := t.waits(p)
	if !known || len(t.slots) == 0 {
		return nil
	}
	if free := t.longestFree(waits, holds); free > longest {
		v.add("%s waited from %s, and its limits had free slots for %s of that", t.id, waits, free.Round(time.Millisecond))
	}
	return v
}

// longestFree returns the longest part of a wait in which each limit of the task had a free slot.
func (t limited) longestFree(waits span, holds map[string][]hold) (longest time.Duration) {
	changes := []time.Time{waits.from, waits.until}
	for name := range t.slots {
		for _, h := range holds[name] {
			for _, at := range []time.Time{h.from, h.until} {
				if waits.contains(at) {
					changes = append(changes, at)
				}
			}
		}
	}
	slices.SortFunc(changes, time.Time.Compare)
	since := waits.from
	for i, at := range changes[:len(changes)-1] {
		if middle := at.Add(changes[i+1].Sub(at) / 2); !t.hasRoom(middle, holds) {
			since = changes[i+1]
		}
		longest = max(longest, changes[i+1].Sub(since))
	}
	return longest
}

// hasRoom reports whether each limit of the task had a free slot at a time.
func (t limited) hasRoom(at time.Time, holds map[string][]hold) bool {
	for name, slots := range t.slots {
		used := 0
		for _, h := range holds[name] {
			if h.contains(at) {
				used++
			}
		}
		if used >= slots {
			return false
		}
	}
	return true
}

// disturbs reports whether anything happened in a time that may have a task wait. Others take what a drained node does
// not.
func (p *past) disturbs(s span) bool {
	return slices.ContainsFunc(p.harms, func(h harm) bool { return h.name != draining && h.overlaps(s) })
}

// judgePlace: the task runs only on members where it may, and does not begin on one that has confirmed its cordon.
func (t limited) judgePlace(p *past) (v verdict) {
	for _, c := range t.calls {
		if len(c.members) == 0 {
			continue
		}
		runs := c.members[0]
		if t.place != nil && !slices.Contains(t.place.members, runs) {
			v.add("%s may run on %s, and ran on %s: %s", t.id, t.place.members, runs, c)
		}
		for _, d := range p.drains {
			begins := span{p.given(c), c.begin}
			if d.member == runs && d.from.Before(begins.from.Add(-beginTakes)) && d.until.After(begins.until) &&
				!p.hasLostBefore(c.begin) {
				v.add("%s began on %s, which had confirmed at %s that it begins nothing: %s",
					t.id, runs, d.from.UTC().Format(stamp), c)
			}
		}
	}
	return v
}

// beginTakes is how long after its begin an attempt may call its handler, on a busy machine.
const beginTakes = time.Second

func (p *past) addDrained(d drained) { p.change(func() { p.drains = append(p.drains, d) }) }
