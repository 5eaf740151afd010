package chaos

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/remote"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
)

const (
	// aftermath is how long after a fault an attempt may be lost by it: until connections are there again, and the lease of a run is over.
	aftermath = 5 * time.Second
	// lateAfter is how late a tick must be to be a misfire, as the manual says.
	lateAfter = 15 * time.Second
)

// past is what happened to a fleet and its Redis in a round. Verdicts go by it.
type past struct {
	mu      sync.Mutex // held by faults; what is judged is over
	harms   []harm
	lost    []loss
	jumps   []jump   // of the clock of Redis
	full    bool     // Redis had no memory for more, so history went early
	leaders []string // the members that can lead a partition
	drains  []drained
	rules   []ruled // of limits, in the order in which they were set
}

// loss is a time in which Redis accepted writes that it lost.
type loss struct {
	span

	partitions []int // whose writes; none: all
}

// concerns reports whether writes of a partition were lost.
func (l loss) concerns(partition int) bool {
	return len(l.partitions) == 0 || slices.Contains(l.partitions, partition)
}

// span is a time.
type span struct{ from, until time.Time }

func (s span) overlaps(o span) bool { return !s.until.Before(o.from) && !o.until.Before(s.from) }

func (s span) contains(at time.Time) bool { return s.overlaps(span{at, at}) }

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// harm is a fault that happened.
type harm struct {
	span

	name      string
	member    string // its name; "": Redis, or all members
	keepsRuns bool   // see fault
	away      bool   // see fault
}

func (p *past) addHarm(h harm) { p.change(func() { p.harms = append(p.harms, h) }) }

// addLoss notes that Redis has lost writes of some partitions, or of all if none are given.
func (p *past) addLoss(s span, partitions ...int) {
	p.change(func() { p.lost = append(p.lost, loss{s, partitions}) })
}

// of is what happened to a task or a schedule: what Redis has lost of other partitions does not concern it.
func (p *past) of(id string) *past {
	lost := slices.DeleteFunc(slices.Clone(p.lost), func(l loss) bool { return !l.concerns(partitionOf(id)) })
	return &past{
		harms: p.harms, lost: lost, jumps: p.jumps, full: p.full, leaders: p.leaders, drains: p.drains, rules: p.rules,
	}
}

func (p *past) addJump(j jump) { p.change(func() { p.jumps = append(p.jumps, j) }) }
func (p *past) fill()          { p.change(func() { p.full = true }) }

func (p *past) wasFull() (full bool) {
	p.change(func() { full = p.full })
	return full
}

// mayHaveLost reports whether Redis has lost writes of the partition of a task by now.
func (p *past) mayHaveLost(id string) (has bool) {
	p.change(func() {
		has = slices.ContainsFunc(p.lost, func(l loss) bool { return l.concerns(partitionOf(id)) })
	})
	return has
}

func (p *past) change(do func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	do()
}

// never is the end of what goes on.
var never = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// felt is the time in which a harm may have an effect on attempts.
func (h harm) felt() span { return span{h.from, h.until.Add(aftermath)} }

// excusesLost reports whether an attempt that one of these members ran, and that lived in a time, may be lost: something was done to the member,
// or Redis forgot something. If the members are not known, it may be any.
func (p *past) excusesLost(members []string, lived span) bool {
	return slices.ContainsFunc(p.harms, func(h harm) bool {
		return !h.keepsRuns && (h.member == "" || concerns(h, members)) && lived.overlaps(h.felt())
	})
}

// excusesLostOfAny is excusesLost for an attempt that any member may have run.
func (p *past) excusesLostOfAny(lived span) bool { return p.excusesLost(nil, lived) }

// excusesTimedOut reports whether the clock of Redis has jumped over the time in which a worker by HTTP may report on an attempt that lived in a time.
// Others have no such limit.
func (p *past) excusesTimedOut(members []string, lived span, timeout time.Duration) bool {
	byHTTP := len(members) != 1
	return byHTTP && slices.ContainsFunc(p.jumps, func(j jump) bool {
		return j.overlaps(lived) && lived.until.Sub(lived.from)+j.ahead.Abs() >= timeout+remote.Grace
	})
}

// partitionOf is the partition of a task or a schedule.
func partitionOf(id string) int {
	return int(uint32(layout.HashName("default", task.Ref{ID: id}.Root())) % layout.DefaultPartitions)
}

// isLossy reports whether Redis has lost writes of a time.
func (p *past) isLossy(s span) bool {
	return slices.ContainsFunc(p.lost, func(l loss) bool { return l.overlaps(s) })
}

// isTouched reports whether Redis may have lost something of a task: the begin or the end of a call, or what a client was told by
// the answer to a request. What must have become of such a task cannot be told.
func (p *past) isTouched(calls []call, answers []span) bool {
	for _, c := range calls {
		if c.end.IsZero() {
			c.end = never
		}
		if p.isLossy(span{p.given(c), c.end}) {
			return true
		}
	}
	return slices.ContainsFunc(answers, p.isLossy)
}

// excusesDouble reports whether an attempt may have begun twice, once before Redis lost its begin and once afterwards: the member that knew of the
// first one could not tell Redis. The handler may be called in the other order, if that member stood still.
func (p *past) excusesDouble(a, b call) bool {
	return p.lostBegin(a, b) || p.lostBegin(b, a)
}

// lostBegin reports whether Redis has lost the begin of a call, and not that of the other one, and nobody could tell it.
func (p *past) lostBegin(first, second call) bool {
	return slices.ContainsFunc(p.lost, func(l loss) bool {
		return p.given(first).Before(l.until) && second.begin.After(l.until) && p.silences(l.span, first.members)
	})
}

// lostRetry reports whether Redis has lost that a task which had ended was to begin again, and an attempt after that with
// it. Nobody can tell Redis of that attempt: it refuses what is said of a task that has ended.
func (p *past) lostRetry(first, second call) bool {
	return slices.ContainsFunc(p.lost, func(l loss) bool {
		return p.given(first).Before(l.until) && second.begin.After(l.until)
	})
}

// given returns the earliest time at which Redis may have written that the attempt of a call has begun: a member that stood still just before the
// call may have had the answer of Redis since then.
func (p *past) given(c call) time.Time {
	earliest := c.begin
	for _, h := range p.harms {
		if strings.HasPrefix(h.name, "freeze") && concerns(h, c.members) && c.begin.After(h.until.Add(-time.Second)) && c.begin.Before(h.until.Add(2*time.Second)) {
			earliest = earlier(earliest, h.from)
		}
	}
	return earliest
}

// concerns reports whether a harm was done to one of these members, or to any if they are not known.
func concerns(h harm, members []string) bool {
	return h.member != "" && (len(members) == 0 || slices.Contains(members, h.member))
}

// silences reports whether something was done to one of these members, or to any if they are not known, when Redis lost writes or just afterwards,
// so that it could not tell what it knows.
func (p *past) silences(loss span, members []string) bool {
	loss.until = loss.until.Add(aftermath)
	return slices.ContainsFunc(p.harms, func(h harm) bool { return concerns(h, members) && h.overlaps(loss) })
}

// silencesAny is silences for all members: whoever knew of it.
func (p *past) silencesAny(loss span) bool { return p.silences(loss, nil) }

// isTold reports whether Redis must know of a call, whatever it has lost: the one who made it lives, and nothing happened to that or to Redis, but
// that writes were lost.
func (p *past) isTold(c call) bool {
	if len(c.members) == 0 || c.end.IsZero() {
		return false
	}
	known := span{p.given(c), c.end.Add(aftermath)}
	harmed := slices.ContainsFunc(p.harms, func(h harm) bool {
		return (h.away && h.name != losing || concerns(h, c.members)) && known.overlaps(h.felt())
	})
	return !harmed && !slices.ContainsFunc(p.lost, func(l loss) bool { return p.silences(l.span, c.members) })
}

// String tells what happened, a line for each fault.
func (p *past) String() string {
	var text strings.Builder
	for _, h := range p.harms {
		fmt.Fprintf(&text, "%s to %s %s %s\n", h.from.UTC().Format(stamp), h.until.UTC().Format(stamp), h.name, h.member)
	}
	for _, l := range p.lost {
		fmt.Fprintf(&text, "%s to %s writes were lost, of the partitions %v (none: all)\n", l.from.UTC().Format(stamp), l.until.UTC().Format(stamp), l.partitions)
	}
	return text.String()
}
