package cluster

import (
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/clock"
)

// A process that was stopped may beat again before its timers fire.
func TestGuard_LateBeatDoesNotProlongTrustThatHasEnded(t *testing.T) {
	t.Parallel()
	g := newGuard(time.Hour)
	g.extend(clock.Now())
	before, stop := g.watch(t.Context())
	defer stop()
	g.until = clock.Now().Add(-time.Second) // the timer, of an hour, will not fire

	g.extend(clock.Now())

	<-before.Done()
	after, stop := g.watch(t.Context())
	defer stop()
	if after.Err() != nil {
		t.Error("the new beat is not trusted")
	}
	g.cut()
	<-after.Done()
}

func TestGuard_TrustCountsFromTheStartOfTheBeat(t *testing.T) {
	t.Parallel()
	g := newGuard(time.Hour)
	g.extend(clock.Now().Add(-2 * time.Hour))
	guarded, stop := g.watch(t.Context())
	defer stop()
	<-guarded.Done()
}
