package test

import (
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
)

// aftermath is how long after the loss of a leader its consequences are looked for.
const aftermath = 15 * time.Second

// logFigures says how it went: how late ticks were decided, by the ledger, and how late their handlers were called, by
// the handlers' own record. Ticks of pauses and those that wait for each other say nothing about that.
func (v *verdict) logFigures(accounts []account, changes int, killed, stopped time.Time) {
	var decided, called, afterKill, afterStop []time.Duration
	for _, a := range accounts {
		if a.overlap == client.OverlapQueue {
			continue
		}
		for _, e := range a.ledger {
			if e.Task == nil || e.Reason != nil {
				continue
			}
			late := time.Duration(e.LateMs) * time.Millisecond
			switch {
			case within(e.Tick, killed):
				afterKill = append(afterKill, late)
			case within(e.Tick, stopped):
				afterStop = append(afterStop, late)
			default:
				decided = append(decided, late)
				called = append(called, v.far[*e.Task][0].at.Sub(e.Tick))
			}
		}
	}
	v.t.Logf("%d definitions changed, %d ticks accounted for, %d left to a pause: %v; %d tasks, %d of them with more than one attempt",
		changes, v.ticks, v.pending, v.outcomes, v.named, v.again)
	v.t.Logf("decided late:           %s", spread(decided))
	v.t.Logf("handler called late:    %s", spread(called))
	v.t.Logf("decided after the kill: %s", spread(afterKill))
	v.t.Logf("after the clean stop:   %s", spread(afterStop))
}

func within(at, since time.Time) bool { return at.After(since) && at.Before(since.Add(aftermath)) }

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
