package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// several stands for the faults of a round that had more than one: how long each took to recover from cannot be told.
const several = "several"

// late is when a tick of a probe counts as late: on a busy machine one begins half a second after its time now and then, though nothing happened.
const late = time.Second

// steady is for how long ticks come in time once a fault is recovered from.
const steady = 5 * time.Second

// figures count rounds by deployment and fault, as docs/reliability.md has them.
type figures struct {
	mu   sync.Mutex
	rows map[row]*tally
}

type row struct{ deployment, fault string }

type tally struct {
	rounds, broken int // of this fault alone; with several, what broke a promise cannot be told
	among          int // rounds in which it was one of several
	recoveries     []time.Duration
}

func newFigures() *figures { return &figures{rows: make(map[row]*tally)} }

// none stands for the faults of a round that failed before it had a plan.
const none = "none"

// add counts a round, also one that ended before its time.
func (f *figures) add(deployment string, o *outcome, kept bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(o.plan) > 1 {
		f.of(deployment, several).count(kept)
		names := make(map[string]bool)
		for _, h := range o.plan {
			names[h.name] = true
		}
		for name := range names {
			f.of(deployment, name).among++
		}
		return
	}
	if len(o.plan) == 0 {
		f.of(deployment, none).count(kept)
		return
	}
	t := f.of(deployment, o.plan[0].name)
	t.count(kept)
	if len(o.probe) > 0 {
		took, _ := o.recovery()
		t.recoveries = append(t.recoveries, took)
	}
}

func (f *figures) of(deployment, fault string) *tally {
	r := row{deployment, fault}
	if f.rows[r] == nil {
		f.rows[r] = &tally{}
	}
	return f.rows[r]
}

func (t *tally) count(kept bool) {
	t.rounds++
	if !kept {
		t.broken++
	}
}

// recovery is how long it took until the ticks of all probes came in time again, for steady at least, after a fault of Redis was over or after another
// one began; and which tick was the last that came late. One that never ran is late until the next one of the probe comes or, if none does, until its end.
func (o *outcome) recovery() (took time.Duration, last string) {
	h := o.plan[0]
	from := o.begin.Add(h.after)
	normal := from.Add(h.lasts) // since when ticks may come in time again
	if h.harmRedis != nil {
		from = normal
	}
	for _, l := range o.lateTicks() {
		if l.tick.Sub(normal) > steady {
			break
		}
		if l.came.After(normal) {
			normal = l.came
		}
		if d := l.came.Sub(from); d > 0 && d >= took {
			took, last = d, l.id
		}
	}
	return took, last
}

// lateTick is a tick of a probe that came late.
type lateTick struct {
	id         string
	tick, came time.Time
}

// lateTicks are those of the round, in their order.
func (o *outcome) lateTicks() (all []lateTick) {
	for _, s := range o.probe {
		came := s.end
		for _, tick := range slices.Backward(s.expected()) {
			if calls := o.calls[s.idOf(tick)]; len(calls) > 0 {
				came = calls[0].begin
			}
			if came.Sub(tick) >= late {
				all = append(all, lateTick{s.idOf(tick), tick, came})
			}
		}
	}
	slices.SortFunc(all, func(a, b lateTick) int { return a.tick.Compare(b.tick) })
	return all
}

// String is a table in Markdown. Each row has the command for as many such rounds.
func (f *figures) String() string {
	var b strings.Builder
	b.WriteString("\n| fault | deployment | rounds | among several | checked | with violations | recovery, median | p99 | again |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, r := range slices.SortedFunc(maps.Keys(f.rows), func(a, b row) int { return strings.Compare(a.fault+a.deployment, b.fault+b.deployment) }) {
		t := f.rows[r]
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %s | %d | %s | %s | %s |\n",
			r.fault, r.deployment, t.rounds, t.among, r.checked(), t.broken, quantile(t.recoveries, 0.5), quantile(t.recoveries, 0.99), r.command(t.rounds))
	}
	return b.String()
}

// checked says which promises are checked in the rounds of a row.
func (r row) checked() string {
	if slices.Contains([]string{"standalone", "sentinel", "cluster"}, r.deployment) {
		return "all"
	}
	return "all but [losses](#what-can-be-lost)"
}

// command has that many rounds of a row; "" if there were none of this fault alone.
func (r row) command(rounds int) string {
	switch {
	case rounds == 0 || r.fault == none:
		return ""
	case r.fault == several:
		return fmt.Sprintf("`DEPLOYMENT=%s CHAOS_ROUNDS=%d make chaos`", r.deployment, rounds)
	}
	return fmt.Sprintf("`FAULT=%s DEPLOYMENT=%s CHAOS_ROUNDS=%d make chaos`", r.fault, r.deployment, rounds)
}

// quantile is a duration in tenths of a second, "" if there is none.
func quantile(all []time.Duration, q float64) string {
	if len(all) == 0 {
		return ""
	}
	slices.Sort(all)
	return fmt.Sprintf("%.1f s", all[min(len(all)-1, int(q*float64(len(all))))].Seconds())
}
