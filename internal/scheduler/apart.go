package scheduler

import (
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/lua"
)

const (
	// apartSaid is how many names that nobody serves are remembered of a partition: enough to look whether one of asynq's
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
	seen  string   // what was served when a claim last looked at all names; "": the next claim looks
	names []string // some of the names that nobody serves

	tried   string    // what was served when claims last began to look at tasks without a name; "": they look again
	at      time.Time // of that
	unnamed string    // where they go on; "" if they came to the end
	paused  time.Time // when they looked at a part
}

// apartIn returns what is known of a partition. The caller holds the mutex.
func (q *quotas) apartIn(p int) *apart {
	a := q.apart[p]
	if a == nil {
		a = &apart{}
		q.apart[p] = a
	}
	return a
}

// reserve says what a claim is to look at.
func (a *apart) reserve(r *partition.Quotas, now time.Time) {
	r.Known = len(a.names) > 0 && a.seen == r.Served
	a.seen = r.Served
	if a.unnamed != "" && a.tried != r.Served { // what the looks have passed may be served now
		a.tried = ""
	}
	switch {
	case a.goesOn(now):
		r.Unnamed = a.unnamed
	case a.unnamed == "" && a.mayTry(r.Served, now):
		r.Unnamed, a.tried, a.at = lua.FirstUnnamed, r.Served, now
	}
}

// note records what a claim has found.
func (a *apart) note(r partition.Quotas, o outcome, now time.Time) {
	if o.backlog == nil { // it may have put tasks under further names, and looked or not
		a.forget()
		return
	}
	if !r.Known {
		a.names = nil
	}
	for _, name := range o.apart {
		if len(a.names) < apartSaid && !slices.Contains(a.names, name) {
			a.names = append(a.names, name)
		}
	}
	if r.Unnamed != "" {
		a.unnamed, a.paused = o.unnamed, now
	}
}

// forget has claims look at all names and all tasks again.
func (a *apart) forget() { a.seen, a.tried, a.unnamed = "", "", "" }

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
	return a.goesOn(now) || len(a.names) > 0 && (a.seen != served || a.unnamed == "" && a.mayTry(served, now))
}

// lookAgain has the next claim in a partition look at all names.
func (q *quotas) lookAgain(p int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.apartIn(p).seen = ""
}

// tookBack has the next claim in a partition look at all names and all tasks: some may wait there again.
func (q *quotas) tookBack(p int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.apartIn(p).forget()
}

// wakeApart wakes the terms of partitions in which tasks wait that nobody served. The caller holds the mutex.
func (q *quotas) wakeApart() {
	for p, a := range q.apart {
		if len(a.names) > 0 {
			signal(q.s.roomWakes[p])
		}
	}
}

// namesApart returns some names with waiting tasks in a partition that nobody serves.
func (q *quotas) namesApart(p int) []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.apartIn(p).names)
}
