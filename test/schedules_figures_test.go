package test

import (
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
)

// aftermath is how long after the loss of a leader its consequences are looked for.
const aftermath = 15 * time.Second

// lateness is of ticks that ran: until they were decided, by the ledger, and until their handler was called, by the
// handlers' own record.
type lateness struct{ decided, called []time.Duration }

// logFigures says how it went: in quiet times, and for ticks about the crash and the clean stop. Ticks that a pause held
// up and those that wait for each other say nothing about that.
func (v *verdict) logFigures(accounts []account, changes int, killed, stopped time.Time) {
	var quiet, crash, stop lateness
	for _, a := range accounts {
		if a.overlap == wire.OverlapQueue {
			continue
		}
		for _, e := range a.ledger {
			if e.Task == nil || a.rested(e.Tick.Time) {
				continue
			}
			l := &quiet
			switch {
			case near(e.Tick.Time, killed):
				l = &crash
			case near(e.Tick.Time, stopped):
				l = &stop
			}
			l.decided = append(l.decided, time.Duration(e.LateMs)*time.Millisecond)
			l.called = append(l.called, v.far[*e.Task][0].at.Sub(e.Tick.Time))
		}
	}
	v.t.Logf("%d definitions changed, %d ticks accounted for, %d left to a pause: %v; %d tasks, %d of them with more than one attempt",
		changes, v.ticks, v.pending, v.outcomes, v.named, v.again)
	v.t.Logf("late in quiet times:        %s", quiet)
	v.t.Logf("late about the crash:       %s", crash)
	v.t.Logf("late about the clean stop:  %s", stop)
}

// near also takes in what was about to run just then.
func near(at, event time.Time) bool {
	return at.After(event.Add(-time.Second)) && at.Before(event.Add(aftermath))
}

func (l lateness) String() string {
	return "decided " + spread(l.decided) + "; called " + spread(l.called)
}

func spread(all []time.Duration) string {
	if len(all) == 0 {
		return "none"
	}
	slices.Sort(all)
	at := func(share float64) string {
		return all[int(share*float64(len(all)-1))].Round(time.Millisecond).String()
	}
	return "p50 " + at(.5) + ", p99 " + at(.99) + ", max " + at(1)
}
