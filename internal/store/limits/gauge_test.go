package limits

import (
	"sync"
	"testing"

	"github.com/dts-sched/dts/internal/testkit"
)

// While a server is silent, a count takes its time and fails.
func TestGauge_HasOneCallerWaitForASilentServer(t *testing.T) {
	t.Parallel()
	var g gauge
	var reads sync.WaitGroup
	asked, silence := make(chan bool), make(chan bool)
	silent := func() (int, bool) { asked <- true; <-silence; return 0, false }
	fails := func() {
		if _, known := g.recount(countPause, silent); known {
			t.Error("a count that failed is known")
		}
	}

	for range 10 {
		reads.Go(fails)
	}
	testkit.Receive(t, asked, "the first count")
	silence <- true
	reads.Wait() // the others do not count, which would block for ever
	fails()

	g.failed = g.failed.Add(-countRetry)
	reads.Go(fails)
	testkit.Receive(t, asked, "another count")
	fails() // though somebody counts
	silence <- true
	reads.Wait()

	g.failed = g.failed.Add(-countRetry)
	for _, count := range []int{7, 8} {
		if n, known := g.recount(0, func() (int, bool) { return count, true }); n != count || !known {
			t.Errorf("the server answers %d, and it is %d, %t", count, n, known)
		}
	}
}
