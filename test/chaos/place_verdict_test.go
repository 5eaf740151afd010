package chaos

import (
	"maps"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
)

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

// hasLostBefore reports whether Redis has lost anything until a time.
func (p *past) hasLostBefore(at time.Time) bool {
	return slices.ContainsFunc(p.lost, func(l loss) bool { return !l.from.After(at) })
}

// judgeNodes: at no time do tasks hold more slots of a member than it has, whatever Redis has lost.
func judgeNodes(tasks []limited, p *past) (v verdict) {
	holds := make(map[string][]hold)
	for _, t := range tasks {
		n := 1
		if t.place != nil {
			n = max(n, t.place.slots)
		}
		for _, c := range t.calls {
			if held, known := c.within(t.ended, p); known && len(c.members) > 0 {
				holds[c.members[0]] = append(holds[c.members[0]], hold{span: held, task: t.id, cost: n})
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(holds)) {
		for _, over := range exceeding(holds[name], func(time.Time) int { return concurrency[name] }) {
			v.add("%s has %d slots, and tasks held %d at %s: %s",
				name, concurrency[name], used(over), last(over).from.UTC().Format(stamp), tasksOf(over))
		}
	}
	return v
}

// movesWithin is how soon a task that moves must have a node that takes it. After that, it goes wherever it may run.
const movesWithin = 2 * time.Second

// judgeMoves: a task that was moved goes on elsewhere, on the node that was named, if one was.
func (t limited) judgeMoves(to string, p *past) (v verdict) {
	for i, a := range t.ended {
		if a.Outcome == nil || *a.Outcome != wire.OutcomeMoved || a.FinishedAt == nil {
			continue
		}
		from := slices.IndexFunc(t.calls, func(c call) bool { return c.attempt == a.Number && len(c.members) > 0 })
		next := slices.IndexFunc(t.calls, func(c call) bool { return c.attempt == i+2 && len(c.members) > 0 })
		if from < 0 || next < 0 {
			continue
		}
		left, c := t.calls[from].members[0], t.calls[next]
		gap := span{a.FinishedAt.Time, c.begin}
		if gap.until.Sub(gap.from) > movesWithin || p.isHarmed(span{t.calls[from].begin.Add(-aftermath), gap.until}) {
			continue
		}
		switch runs := c.members[0]; {
		case runs == left:
			v.add("%s was moved from %s, and goes on there: %s", t.id, left, c)
		case to != "" && runs != to:
			v.add("%s was moved from %s to %s, and goes on elsewhere: %s", t.id, left, to, c)
		}
	}
	return v
}

// isHarmed reports whether anything happened in a time.
func (p *past) isHarmed(s span) bool {
	return len(p.jumps) > 0 || slices.ContainsFunc(p.harms, func(h harm) bool { return h.overlaps(s) })
}

// asksToMove reports whether one of these members asked what it ran in a time to move: it was drained, or stopped.
func (p *past) asksToMove(members []string, lived span) bool {
	return slices.ContainsFunc(p.harms, func(h harm) bool {
		asks := slices.Contains([]string{draining, "stop", "rolling-restart"}, h.name)
		return asks && concerns(h, members) && h.overlaps(lived)
	})
}
