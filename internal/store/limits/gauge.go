package limits

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/dts-sched/dts/internal/clock"
)

// gauge is how many tasks wait in a queue, as far as this process knows.
type gauge struct {
	counts singleflight.Group // one count for all who call meanwhile

	mu       sync.Mutex
	count    int       // tasks that waited at the last count
	at       time.Time // when that began; zero: never
	took     time.Duration
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

// pauseAfter returns the pause between the beginnings of two counts, if the first one took that long.
func pauseAfter(took time.Duration) time.Duration {
	return min(max(countTimes*took, countPause), countLongest)
}

// recount counts again, unless the last count was a moment ago, and returns how many tasks wait or come; false if that
// is not known, as read fails or ctx ends. All who call meanwhile wait for the same count, but nobody for one that
// follows a count which failed.
func (g *gauge) recount(ctx context.Context, read func(patience time.Duration) (int, bool)) (int, bool) {
	g.mu.Lock()
	recent, fails := !g.at.IsZero() && clock.Since(g.at) < pauseAfter(g.took), !g.failed.IsZero()
	var counted <-chan singleflight.Result
	if !recent && (!fails || clock.Since(g.failed) >= countRetry) {
		counted = g.counts.DoChan("", func() (any, error) { g.recountNow(read); return nil, nil })
	}
	g.mu.Unlock()
	if fails {
		return 0, false
	}
	if counted != nil {
		select {
		case <-counted:
		case <-ctx.Done():
			return 0, false
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.count + g.reserved + g.arrived, g.failed.IsZero()
}

func (g *gauge) recountNow(read func(patience time.Duration) (int, bool)) {
	g.mu.Lock()
	before, patience := g.arrived, timeout
	if g.at.IsZero() && g.failed.IsZero() {
		patience = firstTimeout
	}
	g.mu.Unlock()
	start := clock.Now()
	count, known := read(patience)
	g.mu.Lock()
	defer g.mu.Unlock()
	if known {
		g.count, g.at, g.took, g.failed = count, start, clock.Since(start), time.Time{}
		g.arrived -= before // Redis had them when it counted
	} else {
		g.failed = clock.Now()
	}
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
