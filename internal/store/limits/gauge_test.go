package limits

import (
	"context"
	"sync"
	"testing"
	"time"

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

func (g *gauge) counts() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.counting != nil
}

// While a server is silent, a count takes its time and fails.
func TestGauge_HasNobodyWaitTwiceForASilentServer(t *testing.T) {
	t.Parallel()
	var g gauge
	var callers sync.WaitGroup
	s := newServer()
	fails := func() {
		if _, known := g.recount(t.Context(), countPause, s.count); known {
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
	testkit.Eventually(t, "the count ends", func() bool { return !g.counts() })

	retry()
	s.answers <- 7
	testkit.Eventually(t, "the server answers", func() bool {
		n, known := g.recount(t.Context(), time.Hour, s.count)
		return known && n == 7
	})
}

// What was counted is for the others, too.
func TestGauge_DoesNotHoldACallerThatGivesUp(t *testing.T) {
	t.Parallel()
	var g gauge
	s := newServer()
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan bool)
	go func() { _, known := g.recount(ctx, countPause, s.count); gone <- known }()
	testkit.Receive(t, s.asked, "the count")
	cancel()
	if testkit.Receive(t, gone, "the answer to the caller that gave up") {
		t.Error("it is known how many tasks wait, before they were counted")
	}
	s.answers <- 7
	testkit.Eventually(t, "the count ends", func() bool { return !g.counts() })
	if n, known := g.recount(t.Context(), time.Hour, s.count); n != 7 || !known {
		t.Errorf("7 tasks wait, and it is %d, %t", n, known)
	}
}
