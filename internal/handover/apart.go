package handover

import (
	"slices"
	"time"

	"github.com/dts-sched/dts/lua"
)

const (
	// apartSaid is how many lanes that nobody serves are remembered of a partition: enough to look whether one of asynq's
	// own servers serves them.
	apartSaid = 16
	// unnamedPause is the time between two looks at a part of the tasks without a name of their own. There may be a
	// million.
	unnamedPause = 100 * time.Millisecond
	// unnamedTime is the time after which claims look at them again, even if what is served has not changed: Redis may
	// have lost writes.
	unnamedTime = time.Hour
)

// apart is what the leader of a partition knows of the tasks there that nobody serves. They may have many names, and
// more of them have none of their own, so all stay in Redis: claims look at them only if what is served has changed.
type apart struct {
	known  bool      // a claim has looked at all names, and since then the planner has missed none
	looked time.Time // when a claim last looked at all names
	seen   string    // what was served then; "": the next claim looks
	lanes  []Lane    // some of those that nobody serves

	tried   string    // what was served when claims last began to look at tasks without a name; "": they look again
	at      time.Time // of that
	unnamed string    // where they go on; "" if they came to the end
	paused  time.Time // when they looked at a part
}

func (p *Planner) apartIn(partition int) *apart {
	a := p.apart[partition]
	if a == nil {
		a = &apart{}
		p.apart[partition] = a
	}
	return a
}

// grant says what a claim is to look at. Only the leader adds names, so one that has looked at all knows them, until
// what is served changes, or a call has no reply.
func (a *apart) grant(g *Grant, lookDue bool, now time.Time) {
	g.Known = a.known && a.seen == g.Served && !lookDue
	if !g.Known {
		a.looked = now
	}
	a.known, a.seen = true, g.Served
	if a.unnamed != "" && a.tried != g.Served { // what the looks have passed may be served now
		a.tried = ""
	}
	switch {
	case a.goesOn(now):
		g.Unnamed = a.unnamed
	case a.unnamed == "" && a.mayTry(g.Served, now):
		g.Unnamed, a.tried, a.at = lua.FirstUnnamed, g.Served, now
	}
}

// note records what a claim has found.
func (a *apart) note(g Grant, o Outcome, now time.Time) {
	if o.Backlog == nil { // it may have put tasks under further names, and looked or not
		a.forget()
		return
	}
	if !g.Known {
		a.lanes = nil
	}
	for _, lane := range o.Apart {
		lane = lane.pool()
		if len(a.lanes) < apartSaid && !slices.Contains(a.lanes, lane) {
			a.lanes = append(a.lanes, lane)
		}
	}
	if g.Unnamed != "" {
		a.unnamed, a.paused = o.Unnamed, now
	}
}

// forget has claims look at all names and all tasks again.
func (a *apart) forget() { a.known, a.seen, a.tried, a.unnamed = false, "", "", "" }

// goesOn reports whether it is time for the next part of a look at tasks without a name.
func (a *apart) goesOn(now time.Time) bool {
	return a.unnamed != "" && now.Sub(a.paused) >= unnamedPause
}

// mayTry reports whether some of the tasks without a name may be served by now.
func (a *apart) mayTry(served string, now time.Time) bool {
	return a.tried != served || now.Sub(a.at) >= unnamedTime
}

// due reports whether a claim is to look at names or tasks that nobody served, though no task is due.
func (a *apart) due(served string, now time.Time) bool {
	return a.goesOn(now) || len(a.lanes) > 0 && (a.seen != served || a.unnamed == "" && a.mayTry(served, now))
}

// untilLook is how long it takes until a claim in a partition is to look at all names again, though nothing is known to
// have changed: a repair may have added some, or Redis may have lost writes. Partitions differ by up to a quarter, so
// that they do not look at once. The first claim of a term looks anyway.
func (p *Planner) untilLook(partition int, now time.Time) time.Duration {
	looked := p.apartIn(partition).looked
	if looked.IsZero() {
		return p.o.Look
	}
	earlier := p.o.Look / 4 * time.Duration(partition%p.o.Partitions) / time.Duration(p.o.Partitions)
	return p.o.Look - earlier - now.Sub(looked)
}

// TookBack tells that claimed tasks wait in a partition again: the next claim looks at all names and all tasks.
func (p *Planner) TookBack(partition int) { p.apartIn(partition).forget() }

// wakeApart wakes the terms of partitions in which tasks wait that nobody served.
func (p *Planner) wakeApart() {
	for partition, a := range p.apart {
		if len(a.lanes) > 0 {
			p.wakes[partition] = true
		}
	}
}
