package chaos

import (
	"cmp"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/store/layout"
)

// startsWithin is how much longer than tasks without limits a task may wait while all of its limits have free slots,
// and nothing happens to anybody. On a busy machine, all of them wait.
const startsWithin = 3 * time.Second

// bindsWithin is how long after its answer a change of a limit applies everywhere, and what was handed over before has
// begun.
const bindsWithin = 12 * time.Second

// limited is a task that may have limits.
type limited struct {
	id     string
	cost   int       // slots of each limit, and tokens
	limits []string  // their names
	ready  time.Time // since then it may begin; zero: it is not known
	place  *place    // nil: it may run anywhere
	calls  []call
	ended  []wire.Attempt // its history
	p      *past          // what happened to its partition; nil: all that happened
}

// hold is a time in which a task held slots for certain.
type hold struct {
	span

	task string
	cost int
	lost bool // Redis may have lost its start
}

// ruled is what a limit allows since some moment of a time.
type ruled struct {
	span
	rule

	name string
}

// judgeLimits: never do tasks of a limit that run hold more slots than it has, as seen by the handlers. No more start
// than its rate allows. No task waits long while all of its limits have free slots. What Redis has lost excuses what
// docs/limits.md says.
func judgeLimits(tasks []limited, p *past) (v verdict) {
	holds, takes := make(map[string][]hold), make(map[string][]taken)
	for _, t := range tasks {
		for i, c := range t.calls {
			if held, known := c.within(t.ended, p); known {
				for _, name := range t.limits {
					holds[name] = append(holds[name], hold{held, t.id, t.cost, t.mayHaveLost(c)})
				}
			}
			for _, name := range t.limits {
				takes[name] = append(takes[name], taken{span{t.dueBefore(i), c.begin}, t.cost})
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(holds)) {
		v = append(v, judgeHolds(name, holds[name], p)...)
		v = append(v, judgeRate(name, takes[name], p)...)
	}
	longest := startsWithin
	for _, t := range tasks {
		if waits, known := t.waits(p); known && len(t.limits) == 0 {
			longest = max(longest, startsWithin+waits.until.Sub(waits.from))
		}
	}
	u := use{holds, waitersOf(tasks), p}
	for _, t := range tasks {
		v = append(v, t.judgeWait(longest, u)...)
	}
	return v
}

// rulesAt returns the rules that may apply to a limit at a time: the newest one, those that it replaced lately, and
// those that apply again as Redis has lost the change.
func (p *past) rulesAt(name string, at time.Time) (all []rule) {
	var own []ruled
	for _, r := range p.rules {
		if r.name == name && !r.from.After(at) {
			own = append(own, r)
		}
	}
	if kind, _, _ := strings.Cut(name, ":"); len(own) == 0 && !strings.HasSuffix(name, "*") {
		return p.rulesAt(kind+":*", at)
	}
	for i, r := range own {
		if !slices.ContainsFunc(own[i+1:], func(next ruled) bool { return p.hasBound(next.span, at) }) {
			all = append(all, r.rule)
		}
	}
	return all
}

// hasBound reports whether a change of a limit applies everywhere by a time: nothing happened that delays it.
func (p *past) hasBound(change span, at time.Time) bool {
	bound := change.until.Add(bindsWithin)
	return !at.Before(bound) && !p.disturbs(span{change.from.Add(-begunWithin), bound})
}

// slotsAt returns the fewest and the most slots that a limit may have at a time.
func (p *past) slotsAt(name string, at time.Time) (least, most int) {
	for i, r := range p.rulesAt(name, at) {
		if most = max(most, r.slots); i == 0 || r.slots < least {
			least = r.slots
		}
	}
	return least, most
}

// judgeHolds: at no time do tasks hold more slots of a limit than it has.
func judgeHolds(name string, all []hold, p *past) (v verdict) {
	most := func(at time.Time) int {
		_, slots := p.slotsAt(name, at)
		return slots
	}
	for _, over := range exceeding(all, most) {
		if at := last(over).from; !p.mayExceed(name, over, at) {
			v.add("the limit %s has %d slots, and tasks held %d at %s: %s",
				name, most(at), used(over), at.UTC().Format(stamp), tasksOf(over))
		}
	}
	return v
}

// exceeding returns the holds at each time at which one began, and then more slots were held than there are.
func exceeding(all []hold, slots func(at time.Time) int) (times [][]hold) {
	slices.SortFunc(all, func(a, b hold) int { return a.from.Compare(b.from) })
	var open []hold
	for _, h := range all {
		open = slices.DeleteFunc(open, func(o hold) bool { return !o.until.After(h.from) })
		open = append(open, h)
		if used(open) > slots(h.from) {
			times = append(times, slices.Clone(open))
		}
	}
	return times
}

// last is the hold that began last.
func last(open []hold) hold { return open[len(open)-1] }

// used is how many slots are held. Those of a task whose start Redis has lost do not count until a worker tells of it.
func used(holds []hold) (n int) {
	for _, h := range holds {
		if !h.lost {
			n += h.cost
		}
	}
	return n
}

func tasksOf(holds []hold) (ids []string) {
	for _, h := range holds {
		ids = append(ids, h.task)
	}
	return ids
}

// mayHaveLost reports whether Redis may have lost that an attempt was handed over, or that it began.
func (t limited) mayHaveLost(c call) bool {
	return t.p != nil && t.p.isLossy(span{t.p.given(c), c.begin})
}

// leads is how long it takes until another member leads the partitions of one that has died, and has told all homes.
const leads = 10 * time.Second

// mayExceed reports whether a limit may be exceeded at a time: Redis has lost writes of its home, or of the partition
// of one of its tasks, and a member was late or dead then, until it has told what it knows, or another one has.
func (p *past) mayExceed(name string, open []hold, at time.Time) bool {
	return slices.ContainsFunc(p.lost, func(l loss) bool {
		isOfTask := func(h hold) bool { return l.concerns(partitionOf(h.task)) }
		if l.from.After(at) || !l.concerns(homeOf(name)) && !slices.ContainsFunc(open, isOfTask) {
			return false
		}
		telling := span{l.from, l.until.Add(aftermath)}
		return slices.ContainsFunc(p.harms, func(h harm) bool {
			isLate := h.name != losing && h.name != draining
			return isLate && h.overlaps(telling) && at.Before(h.until.Add(leads))
		})
	})
}

// taken are the tokens of an attempt, which it took at some moment of a time.
type taken struct {
	span

	tokens int
}

// dueBefore returns the earliest time at which the nth call can have been handed over: after the one before it had
// begun; zero if that is not known.
func (t limited) dueBefore(n int) time.Time {
	if n > 0 {
		return t.calls[n-1].begin
	}
	return t.ready
}

// judgeRate: in no time are more tokens taken than the burst and what flows in. What Redis has lost can give back the
// tokens of the lost time, and a burst.
func judgeRate(name string, all []taken, p *past) (v verdict) {
	rules := p.rulesAt(name, never)
	if len(rules) == 0 || rules[0].rate == 0 {
		return nil
	}
	all = slices.DeleteFunc(slices.Clone(all), func(t taken) bool { return t.from.IsZero() || p.isLossy(t.span) })
	slices.SortFunc(all, func(a, b taken) int { return a.until.Compare(b.until) })
	for _, first := range all {
		tokens := 0
		for _, t := range all {
			if t.from.Before(first.from) {
				continue
			}
			tokens += t.tokens
			in := span{first.from, t.until}
			if allowed := rules[0].tokensIn(in) + float64(rules[0].burst*p.losses(in)); float64(tokens) > allowed {
				v.add("the limit %s allows %.1f tokens from %s, and %d were taken", name, allowed, in, tokens)
				return v
			}
		}
	}
	return v
}

// tokensIn is how many tokens can be taken in a time. The clocks of this process and of Redis differ by slack at most.
func (r rule) tokensIn(s span) float64 {
	const slack = 50 * time.Millisecond
	return float64(r.burst) + float64(r.rate)*(s.until.Sub(s.from)+slack).Seconds()
}

// losses counts how often Redis has lost writes until the end of a time, and not long before it.
func (p *past) losses(s span) (n int) {
	for _, l := range p.lost {
		if s.overlaps(span{l.from, l.until.Add(leads)}) {
			n++
		}
	}
	return n
}

// homeOf is the partition that counts the slots of a limit.
func homeOf(name string) int {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(name)) // never fails
	return int(hash.Sum32() % layout.DefaultPartitions)
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

// waiter is a task that may wait for a limit.
type waiter struct {
	span

	cost  int
	wider []string // the limits of the task that are asked for after this one
}

// waitersOf returns for each limit the tasks that may wait for it.
func waitersOf(tasks []limited) map[string][]waiter {
	all := make(map[string][]waiter)
	for _, t := range tasks {
		if len(t.calls) == 0 {
			continue
		}
		names := slices.SortedFunc(slices.Values(t.limits), func(a, b string) int {
			return cmp.Compare(orderOf(a), orderOf(b))
		})
		for i, name := range names {
			waits := span{t.ready, t.calls[len(t.calls)-1].begin}
			all[name] = append(all[name], waiter{waits, t.cost, names[i+1:]})
		}
	}
	return all
}

// orderOf is a text that sorts limits as leaders ask for them: those of keys are narrower than those of types.
func orderOf(name string) string { return strings.Replace(name, "type:", "~type:", 1) }

// use is how the limits of a round were used.
type use struct {
	holds   map[string][]hold // by limit
	waiters map[string][]waiter
	past    *past
}

// free is how many slots of a limit nobody holds at a time, at least.
func (u use) free(name string, at time.Time) int {
	free, _ := u.past.slotsAt(name, at)
	for _, h := range u.holds[name] {
		if h.contains(at) {
			free -= h.cost
		}
	}
	return free
}

// judgeWait: the task begins soon when its limits have free slots. A rate may hold it up.
func (t limited) judgeWait(longest time.Duration, u use) (v verdict) {
	waits, known := t.waits(u.past)
	rated := slices.ContainsFunc(t.limits, func(name string) bool { return limits[name].rate > 0 })
	if !known || rated || len(t.limits) == 0 {
		return nil
	}
	if free := t.longestFree(waits, u); free > longest {
		v.add("%s waited from %s, and its limits had free slots for %s of that", t.id, waits, free.Round(time.Millisecond))
	}
	return v
}

// longestFree returns the longest part of a wait in which each limit of the task had a free slot.
func (t limited) longestFree(waits span, u use) (longest time.Duration) {
	changes := []time.Time{waits.from, waits.until}
	for _, s := range t.changes(u) {
		for _, at := range []time.Time{s.from, s.until} {
			if waits.contains(at) {
				changes = append(changes, at)
			}
		}
	}
	slices.SortFunc(changes, time.Time.Compare)
	since := waits.from
	for i, at := range changes[:len(changes)-1] {
		if middle := at.Add(changes[i+1].Sub(at) / 2); !t.hasRoom(middle, u) {
			since = changes[i+1]
		}
		longest = max(longest, changes[i+1].Sub(since))
	}
	return longest
}

// changes returns the times whose begins and ends may change whether the limits of the task have room.
func (t limited) changes(u use) (all []span) {
	names := slices.Clone(t.limits)
	for _, name := range t.limits {
		for _, w := range u.waiters[name] {
			all = append(all, w.span)
			names = append(names, w.wider...)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		for _, h := range u.holds[name] {
			all = append(all, h.span)
		}
	}
	return all
}

// hasRoom reports whether each limit of the task had free slots for it at a time. What a task of a greater cost waits
// for is kept for it. A task that waits for a wider limit keeps what it has of the narrower ones.
func (t limited) hasRoom(at time.Time, u use) bool {
	known := make(map[string]int)
	free := func(name string) int {
		if _, is := known[name]; !is {
			known[name] = u.free(name, at)
		}
		return known[name]
	}
	for _, name := range t.limits {
		kept, cost := 0, t.cost
		for _, w := range u.waiters[name] {
			if !w.contains(at) {
				continue
			}
			cost = max(cost, w.cost)
			if slices.ContainsFunc(w.wider, func(wider string) bool { return free(wider) < w.cost }) {
				kept += w.cost
			}
		}
		if cost > free(name)-kept {
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
