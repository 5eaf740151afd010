package schedule

import (
	"fmt"
	"time"
)

// Action is what a leader does about a tick.
type Action string

// The actions; those that do not fire are outcomes in the ledger as they are.
const (
	ActFire    Action = "fire" // run it, if the overlap policy agrees
	ActMiss           = Action(Missed)
	ActExclude        = Action(Excluded)
)

// planLimit is how many ticks are decided in one go, unless misfires that run together are more.
const planLimit = 500

// Agenda is what a leader knows of a schedule whose time has come.
type Agenda struct {
	Timeline  Timeline
	Present   *Timetable // the one of the newest revision
	Misfire   Misfire
	Cursor    time.Time
	Now       time.Time // Redis's
	LastPause Span      // the last pause
	Done      bool      // no tick is to run any more
}

// Decision is what becomes of one tick.
type Decision struct {
	Tick   time.Time
	Action Action
	Due    time.Time     // of its task
	Delay  time.Duration // from the moment of the decision until the task is due at the earliest
	Reason string
}

// OnTime says whether the tick fires, and not as a misfire.
func (d Decision) OnTime() bool { return d.Action == ActFire && d.Reason == "" }

// Plan is what to do about a schedule now.
type Plan struct {
	Decisions []Decision // in the order of the ticks
	Upto      time.Time  // everything up to here is decided then
	Next      time.Time  // when to look again; zero: there is no tick any more
	Forgotten time.Time  // ticks up to here are so many that the ledger could not hold them: they get no record; zero: none
}

// MakePlan decides about the ticks after the cursor that are due. It may stop half-way, where there are many: Next is
// in the past then. Planning again from there comes to the same, as if it had been done at once.
func MakePlan(a Agenda) Plan {
	if a.Done {
		return Plan{Upto: a.Cursor}
	}
	p := Plan{Upto: a.Now}
	if a.Now.Before(a.Cursor) { // Redis's clock was set back: nothing is decided a second time
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
	if next, ok := a.Timeline.Next(p.Upto); ok {
		p.Next = next.At
	}
	return p
}

// newest is the ticks that are due, or the newest of them where they are more than a ledger holds, and the time from
// which on these are all.
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

// misfires says which of the ticks are misfires. An excluded one never is.
func (a Agenda) misfires(ticks []Tick) []bool {
	isMisfire := make([]bool, len(ticks))
	for i, t := range ticks {
		isMisfire[i] = !t.Excluded && (a.Now.Sub(t.At) > OnTime || a.LastPause.Contains(t.At))
	}
	return isMisfire
}

// misfireRange is which misfires run: those from first to last, by their place among the ticks.
type misfireRange struct{ first, last int }

func (a Agenda) catchUp(ticks []Tick, misfires []bool) misfireRange {
	m := a.Misfire.WithDefaults()
	want := map[MisfirePolicy]int{MisfireOnce: 1, MisfireAll: m.Max}[m.Policy]
	caughtUp := misfireRange{first: len(ticks), last: -1}
	for i := len(ticks) - 1; i >= 0 && want > 0; i-- {
		if !misfires[i] {
			continue
		}
		if a.Now.Sub(ticks[i].At) > m.Window {
			break
		}
		caughtUp.first, caughtUp.last = i, max(caughtUp.last, i)
		want--
	}
	return caughtUp
}

func (a Agenda) decide(t Tick, misfire bool, caughtUp misfireRange, i int) Decision {
	d := Decision{Tick: t.At, Action: ActFire, Due: t.At.Add(a.Present.Offset(t.At))}
	switch {
	case t.Excluded:
		d.Action, d.Reason = ActExclude, a.Timeline.whyExcluded(t.At)
	case misfire && i < caughtUp.first:
		d.Action, d.Reason = ActMiss, a.whyMissed(t, caughtUp)
	case misfire:
		d.Delay, d.Reason = time.Duration(i-caughtUp.first)*CatchUpPace, "misfire that runs late"
	}
	return d
}

// whyMissed says why a misfire does not run.
func (a Agenda) whyMissed(t Tick, caughtUp misfireRange) string {
	m := a.Misfire.WithDefaults()
	when := "nobody fired it in time"
	if a.LastPause.Contains(t.At) {
		when = "paused"
	}
	switch {
	case m.Policy == MisfireSkip:
		return when + "; misfires do not run"
	case a.Now.Sub(t.At) > m.Window:
		return fmt.Sprintf("%s; more than %s late", when, m.Window)
	case m.Policy == MisfireAll && caughtUp.last >= 0:
		return fmt.Sprintf("%s; only the newest %d run", when, m.Max)
	}
	return when + "; a later one runs for all"
}
