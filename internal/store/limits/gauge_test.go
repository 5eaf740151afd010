package limits

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/testkit"
)

// server is one that answers counts when it is told to: with a number, or if that is negative, with none.
type server struct {
	asked   chan time.Duration
	answers chan int
}

func newServer() *server { return &server{make(chan time.Duration), make(chan int)} }

func (s *server) count(patience time.Duration) (int, bool) {
	s.asked <- patience
	n := <-s.answers
	return n, n >= 0
}

// counted waits for the end of the count that is under way, and has no other one begin soon.
func (g *gauge) counted(t *testing.T) {
	t.Helper()
	testkit.Receive(t, g.counts.DoChan("", func() (any, error) { return nil, nil }), "the end of the count")
	g.mu.Lock()
	defer g.mu.Unlock()
	g.took = time.Hour
}

// While a server is silent, a count takes its time and fails.
func TestGauge_HasNobodyWaitTwiceForASilentServer(t *testing.T) {
	t.Parallel()
	var g gauge
	var callers sync.WaitGroup
	s := newServer()
	fails := func() {
		if _, known := g.recount(t.Context(), s.count); known {
			t.Error("a count that failed is known")
		}
	}
	for range 10 {
		callers.Go(fails)
	}
	if patience := testkit.Receive(t, s.asked, "the first count"); patience != firstTimeout {
		t.Errorf("the first count has %s", patience)
	}
	s.answers <- -1
	callers.Wait() // there is no other count, as nobody receives from asked
	fails()

	retry := func() {
		g.mu.Lock()
		g.failed = g.failed.Add(-countRetry)
		g.mu.Unlock()
		fails() // and does not wait
		if patience := testkit.Receive(t, s.asked, "another count"); patience != timeout {
			t.Errorf("another count has %s", patience)
		}
	}
	retry()
	fails() // though somebody counts
	s.answers <- -1
	g.counted(t)

	retry()
	s.answers <- 7
	g.counted(t)
	if n, known := g.recount(t.Context(), s.count); n != 7 || !known {
		t.Errorf("7 tasks wait, and it is %d, %t", n, known)
	}
}

// What was counted is for the others, too.
func TestGauge_DoesNotHoldACallerThatGivesUp(t *testing.T) {
	t.Parallel()
	var g gauge
	s := newServer()
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan bool)
	go func() { _, known := g.recount(ctx, s.count); gone <- known }()
	testkit.Receive(t, s.asked, "the count")
	cancel()
	if testkit.Receive(t, gone, "the answer to the caller that gave up") {
		t.Error("it is known how many tasks wait, before they were counted")
	}
	s.answers <- 7
	g.counted(t)
	if n, known := g.recount(t.Context(), s.count); n != 7 || !known {
		t.Errorf("7 tasks wait, and it is %d, %t", n, known)
	}
}

// Counts of a full queue take a 20th of the time at most. Those that take longer than half a second take more: else a
// queue that has room again would seem to be full for long.
func TestGauge_CountsLessOftenIfItTakesLong(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ took, pause time.Duration }{
		{0, 50 * time.Millisecond}, {time.Millisecond, 50 * time.Millisecond}, {100 * time.Millisecond, 2 * time.Second},
		{500 * time.Millisecond, 10 * time.Second}, {3 * time.Second, 10 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			var g gauge
			counts := 0
			count := func(time.Duration) (int, bool) {
				counts++
				return counts, clock.Sleep(t.Context(), c.took) == nil
			}
			began := clock.Now()
			for counts < 2 {
				g.recount(t.Context(), count)
				testkit.Must(t, clock.Sleep(t.Context(), time.Millisecond))
			}
			passed := clock.Since(began) - c.took // with the time that the second count took
			if off := passed - c.pause; off < 0 || off > 2*time.Millisecond {
				t.Errorf("after a count of %s, the next one began %s after it began, want %s", c.took, passed, c.pause)
			}
		})
	}
}
