package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Action is what a plan decides about a tick.
type Action string

// The actions. ActMiss and ActExclude are also the outcomes that the ledger records for them.
const (
	ActFire    Action = "fire" // the tick runs, if the overlap policy allows it
	ActMiss           = Action(Missed)
	ActExclude        = Action(Excluded)
)

// planLimit is the number of ticks that one plan decides. If misfires run, and the first of them is within the limit, the
// plan decides up to the last of them.
const planLimit = 500

// Agenda is the state of a schedule with due ticks: the input of MakePlan.
type Agenda struct {
	Timeline  Timeline
	Present   *Timetable // of the current revision
	Misfire   Misfire
	Cursor    time.Time // all ticks up to this time are decided
	Now       time.Time // of Redis
	LastPause Span      // ticks in it are misfires
	Done      bool      // the schedule has ended: no further tick runs
	Held      string    // why ticks up to HeldUntil were held back, for the ledger; "" if they were not
	HeldUntil time.Time
	Skipped   []Span // times that the clock of Redis jumped over
}

// Decision is the decision about one tick.
type Decision struct {
	Tick   time.Time
	Action Action
	Due    time.Time     // when the task is due; see also Delay
	Delay  time.Duration // the task is due no sooner than this long after the decision is applied
	Reason string        // for the ledger; "" if the tick fires on time
}

// OnTime reports whether the tick fires and is not a misfire.
func (d Decision) OnTime() bool { return d.Action == ActFire && d.Reason == "" }

// Plan holds the decisions about the due ticks of a schedule. A hole of the timeline has one decision, at its end: that its
// ticks are missed.
type Plan struct {
	Decisions []Decision // in the order of the ticks
	Upto      time.Time  // the new cursor: ticks up to this time are decided by the plan
	Next      time.Time  // the first tick after Upto; zero: no further ticks
	Forgotten time.Time  // ticks up to this time get no record, because the ledger cannot hold so many; zero: all get one
	Holes     []Hole     // of the timeline that end after the former cursor, up to Upto
}

// MakePlan decides the ticks after the cursor, up to now. If they are many, it decides the first of them only, and Next is in
// the past. To plan again with Upto as the cursor leads to the same decisions as one plan without that limit.
func MakePlan(a Agenda) Plan {
	if a.Done {
		return Plan{Upto: a.Cursor}
	}
	p := Plan{Upto: a.Now}
	if a.Now.Before(a.Cursor) { // the clock of Redis was set back: decide no tick a second time
		p.Upto = a.Cursor
	}
	ticks, from := a.newest()
	if from.After(a.Cursor) {
		p.Forgotten = from
	}
	misfires := a.misfires(ticks)
	caughtUp := a.catchUp(ticks, misfires)
	upto := len(ticks)
	if upto > planLimit {
		upto = planLimit
		if caughtUp.first < planLimit {
			upto = max(planLimit, caughtUp.last+1)
		}
		p.Upto = ticks[upto-1].At
	}
	for i, tick := range ticks[:upto] {
		p.Decisions = append(p.Decisions, a.decide(tick, misfires[i], caughtUp, i))
	}
	p.missHoles(a)
	if next, ok := a.Timeline.Next(p.Upto); ok {
		p.Next = next.At
	}
	return p
}

// missHoles adds the decisions about the holes of the timeline, so that the ledger tells of them.
func (p *Plan) missHoles(a Agenda) {
	for _, hole := range a.Timeline.Holes() {
		if !hole.Until.After(a.Cursor) || hole.Until.After(p.Upto) {
			continue
		}
		p.Holes = append(p.Holes, hole)
		p.Decisions = append(p.Decisions, Decision{Tick: hole.Until, Action: ActMiss, Due: hole.Until, Reason: hole.String()})
	}
	if len(p.Holes) > 0 {
		slices.SortStableFunc(p.Decisions, func(a, b Decision) int { return a.Tick.Compare(b.Tick) })
	}
}

// newest returns the due ticks, and the time after which they are complete. That is the cursor, unless there are more ticks
// than LedgerLimit: then it is a later time, and older ticks are left out.
func (a Agenda) newest() ([]Tick, time.Time) {
	ticks, more := a.Timeline.Ticks(a.Cursor, a.Now, LedgerLimit)
	if !more {
		return ticks, a.Cursor
	}
	for span := time.Minute; ; span *= 2 {
		next, more := a.Timeline.Ticks(a.Now.Add(-span), a.Now, LedgerLimit)
		if more {
			return ticks, a.Now.Add(-span / 2)
		}
		ticks = next
	}
}

// misfires returns, for each tick, whether it is a misfire. An excluded tick is none.
func (a Agenda) misfires(ticks []Tick) []bool {
	isMisfire := make([]bool, len(ticks))
	for i, t := range ticks {
		isMisfire[i] = !t.Excluded && (a.Now.Sub(t.At) > OnTime || a.LastPause.Contains(t.At))
	}
	return isMisfire
}

// late returns how late a tick is. Time that the clock of Redis jumped over has not passed.
func (a Agenda) late(t Tick) time.Duration {
	late := a.Now.Sub(t.At)
	for _, s := range a.Skipped {
		late -= max(min(s.Until.Sub(s.From), s.Until.Sub(t.At)), 0)
	}
	return late
}

// isSkipped reports whether a misfire is one because the clock of Redis jumped over it, and for no other reason.
func (a Agenda) isSkipped(t Tick) bool { return a.late(t) <= OnTime && !a.LastPause.Contains(t.At) }

// misfireRange contains the misfires that run: those with an index from first to last, both included. If none runs, first is
// the number of ticks and last is -1.
type misfireRange struct{ first, last int }

// catchUp selects the misfires that run: the newest ones within the window, as many as the policy allows. With policy once,
// none runs if a later tick does, so that the overlap policy does not skip that tick in favour of an older one. Misfires that
// the clock of Redis jumped over do not count, up to as many as may run with policy all.
func (a Agenda) catchUp(ticks []Tick, misfires []bool) misfireRange {
	m := a.Misfire.WithDefaults()
	quota := map[MisfirePolicy]int{MisfireOnce: 1, MisfireAll: m.Max}[m.Policy]
	laterRuns := func() {
		if m.Policy == MisfireOnce {
			quota = 0
		}
	}
	caughtUp := misfireRange{first: len(ticks), last: -1}
	skipped := m.Max
	for i := len(ticks) - 1; i >= 0; i-- {
		switch {
		case ticks[i].Excluded:
			continue
		case !misfires[i]:
			laterRuns()
			continue
		case a.isSkipped(ticks[i]) && skipped > 0:
			skipped--
			laterRuns()
		case quota > 0 && a.late(ticks[i]) <= m.Window:
			quota--
		default:
			return caughtUp
		}
		caughtUp.first, caughtUp.last = i, max(caughtUp.last, i)
	}
	return caughtUp
}

// decide returns the decision about tick t, whose index is i.
func (a Agenda) decide(t Tick, misfire bool, caughtUp misfireRange, i int) Decision {
	d := Decision{Tick: t.At, Action: ActFire, Due: t.At.Add(a.Present.Offset(t.At))}
	switch {
	case t.Excluded:
		d.Action, d.Reason = ActExclude, a.Timeline.whyExcluded(t.At)
	case misfire && i < caughtUp.first:
		d.Action, d.Reason = ActMiss, a.whyMissed(t, caughtUp)
	case misfire:
		d.Delay, d.Reason = time.Duration(i-caughtUp.first)*CatchUpPace, "misfire, fired late"
		if a.isSkipped(t) {
			d.Reason = a.whySkipped(t)
		}
		if held := a.whyHeld(t); held != "" {
			d.Reason += "; " + held
		}
	}
	return d
}

// whySkipped returns the reason, for the ledger, why a tick is late that the clock of Redis jumped over: by how much it has jumped ahead since.
func (a Agenda) whySkipped(t Tick) string {
	by := time.Duration(0)
	for _, s := range a.Skipped {
		if s.Until.After(t.At) {
			by += s.Until.Sub(s.From)
		}
	}
	return fmt.Sprintf("the clock of Redis jumped ahead by %s", by.Round(time.Second))
}

// whyHeld returns why a tick was held back; "" if it was not.
func (a Agenda) whyHeld(t Tick) string {
	if t.At.After(a.HeldUntil) {
		return ""
	}
	return a.Held
}

// whyMissed returns the reason, for the ledger, why a misfire does not run.
func (a Agenda) whyMissed(t Tick, caughtUp misfireRange) string {
	m := a.Misfire.WithDefaults()
	cause := cmp.Or(a.whyHeld(t), "not fired in time")
	switch {
	case a.LastPause.Contains(t.At):
		cause = "paused"
	case a.isSkipped(t):
		cause = a.whySkipped(t)
	}
	switch {
	case m.Policy == MisfireSkip:
		return cause + "; misfires do not run"
	case a.late(t) > m.Window:
		return fmt.Sprintf("%s; more than %s late", cause, m.Window)
	case m.Policy == MisfireAll && caughtUp.last >= 0:
		return fmt.Sprintf("%s; only the newest %d run", cause, m.Max)
	}
	return cause + "; a later tick runs for all"
}
