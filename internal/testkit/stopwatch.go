package testkit

import (
	"sync"
	"testing"
	"time"
)

const (
	stride    = 10 * time.Millisecond // for which the stopwatch sleeps, again and again
	timerSlip = time.Millisecond      // by which it wakes up later on a machine that has nothing else to do
)

// Stopwatch measures time without that in which whoever was ready to run waited for a processor. So a limit on what it measures is one on
// what is tested, and not on the load of the machine. If what is tested takes all processors by itself, that is left out, too.
type Stopwatch struct {
	start time.Time

	mu    sync.Mutex
	begin time.Time // of the stride that is under way
	lost  time.Duration
}

// StartStopwatch starts a stopwatch, which runs until the test ends.
func StartStopwatch(t testing.TB) *Stopwatch {
	t.Helper()
	w, stop := startStopwatch()
	t.Cleanup(stop)
	return w
}

// startStopwatch starts a stopwatch, which runs until stop is called.
func startStopwatch() (w *Stopwatch, stop func()) {
	now := time.Now()
	w = &Stopwatch{start: now, begin: now}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTimer(stride)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
				w.step(time.Now())
				tick.Reset(stride)
			}
		}
	}()
	return w, func() { close(end); <-ended }
}

// step ends a stride, and begins the next one.
func (w *Stopwatch) step(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost += w.late(now)
	w.begin = now
}

// late returns how much longer than a stride the one that is under way has taken. The caller holds mu.
func (w *Stopwatch) late(now time.Time) time.Duration {
	if late := now.Sub(w.begin) - stride; late > timerSlip {
		return late
	}
	return 0
}

// Elapsed returns how long the stopwatch has run.
func (w *Stopwatch) Elapsed() time.Duration {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	return now.Sub(w.start) - w.lost - w.late(now)
}

// Lost returns how much time the stopwatch has left out.
func (w *Stopwatch) Lost() time.Duration {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lost + w.late(now)
}
