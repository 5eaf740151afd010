package web

import (
	"net/http"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/clock"
)

// Each call takes a millisecond here, and all else takes no time.
func TestPages_TakeFewRoundTrips(t *testing.T) {
	const call = time.Millisecond
	for _, p := range pages {
		if p.costly {
			continue
		}
		inWorld(t, func(w *world) {
			w.busy()
			w.pack()
			address := p.address()
			w.get(address) // reads what all readers share
			w.delay.Store(int64(call))
			began, before := clock.Now(), w.calls.Load()
			answer := w.get(address)
			depth, calls := int(clock.Since(began)/call), w.calls.Load()-before
			w.delay.Store(0)
			t.Logf("%-32s %2d calls, %d one after the other", p.path, calls, depth)
			if answer.status != http.StatusOK || depth > p.trips {
				t.Errorf("%s: status %d after %d calls one after the other, want at most %d: its trips in the table pages",
					p.path, answer.status, depth, p.trips)
			}
		})
	}
}
