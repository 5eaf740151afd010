package limits

import (
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/clock"
)

// gauge is how many tasks wait in a queue, as far as this process knows.
type gauge struct {
	counting sync.Mutex // is held while Redis is asked

	mu       sync.Mutex
	count    int       // tasks that waited at the last count
	at       time.Time // when that began; zero: never
	failed   time.Time // when a later one failed; zero: none did
	reserved int       // let in, and perhaps not in Redis yet
	arrived  int       // let in, and in Redis since the last count began
}

// enter lets a task in if there is room by a count that is not older than age; 0 stands for any age.
func (g *gauge) enter(limit int, age time.Duration) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if age > 0 && (g.at.IsZero() || clock.Since(g.at) > age) || g.count+g.reserved+g.arrived >= limit {
		return false
	}
	g.reserved++
	return true
}

// recount counts again, unless that was done less than pause ago, and returns how many tasks wait or come; false if that is not known, as read fails.
// Nobody waits for a count that follows one which failed, but for the one who makes it, once in countRetry.
func (g *gauge) recount(pause time.Duration, read func() (int, bool)) (int, bool) {
	if !g.lock() {
		return 0, false
	}
	defer g.counting.Unlock()
	g.mu.Lock()
	recent, before := !g.at.IsZero() && clock.Since(g.at) < pause, g.arrived
	g.mu.Unlock()
	if !recent {
		start := clock.Now()
		count, known := read()
		if !known {
			g.fail()
			return 0, false
		}
		g.mu.Lock()
		g.count, g.at, g.failed = count, start, time.Time{}
		g.arrived -= before // Redis had them when it counted
		g.mu.Unlock()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.count + g.reserved + g.arrived, true
}

// fail notes that a count failed.
func (g *gauge) fail() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failed = clock.Now()
}

// lock locks counting, if the caller may count.
func (g *gauge) lock() bool {
	failed, fails := g.failing()
	switch {
	case !failed:
		g.counting.Lock()
	case fails || !g.counting.TryLock():
		return false
	}
	if _, fails := g.failing(); fails { // meanwhile
		g.counting.Unlock()
		return false
	}
	return true
}

// failing reports whether the last count failed, and whether that was so short a time ago that it is too early for another one.
func (g *gauge) failing() (failed, lately bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.failed.IsZero(), !g.failed.IsZero() && clock.Since(g.failed) < countRetry
}

// Place is a place in a queue that has a limit. nil is one in a queue that has none.
type Place struct{ gauge *gauge }

// Leave ends the reservation of a place. taken says that the task is in Redis, and waits in the queue now.
func (p *Place) Leave(taken bool) {
	if p == nil {
		return
	}
	p.gauge.mu.Lock()
	defer p.gauge.mu.Unlock()
	p.gauge.reserved--
	if taken {
		p.gauge.arrived++
	}
}
