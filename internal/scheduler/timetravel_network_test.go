package scheduler

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/testkit"
)

// troubles is what can happen between a leader and Redis.
var troubles = map[string]struct{ begin, end func(*way) }{
	"is cut off":                       {(*way).interrupt, (*way).mend},
	"is heard late":                    {(*way).hold, (*way).release},
	"is heard late of what it decided": {snap("fire"), (*way).release},
	"is heard late of what it claimed": {snap("claim"), (*way).release},
	"is heard by nobody in the end":    {snap("fire"), func(w *way) { w.interrupt(); w.mend() }},
}

// snap waits until a leader is about to run a script. One that does not lead any more waits in vain.
func snap(script string) func(*way) {
	return func(w *way) {
		select {
		case <-w.lay(script, sendLate):
		case <-time.After(5 * time.Second):
			w.hold()
		}
	}
}

// A leader cannot reach Redis for some time, shorter or longer than its lease; then it can again, and what it sent in
// between may arrive then, when another one leads, or when the schedule is another one. Each tick is decided once.
func TestTravel_ALeaderCutOffForAWhileDoublesNothing(t *testing.T) {
	testkit.NotQuick(t)
	for _, name := range testkit.Sample(t, 1, slices.Sorted(maps.Keys(troubles))) {
		trouble := troubles[name]
		t.Run("it "+name, func(t *testing.T) {
			t.Parallel()
			from := at("2026-03-08T06:50Z")
			travel(t, from, quick, func(v *voyage) {
				random := rand.New(rand.NewPCG(7, 7)) //nolint:gosec // what is random can be repeated
				v.start()
				v.start()
				until := from.Add(testkit.Amount(4*time.Minute, 6*time.Minute))
				d := schedule.Definition{
					Spec: cron("*/2 * * * * *"), Overlap: schedule.OverlapAllow,
					Misfire: schedule.Misfire{Policy: schedule.MisfireAll, Window: time.Hour},
				}
				s := v.put("s", d)
				for clock.Until(until) > time.Minute {
					leader := v.leads()
					v.pass(time.Duration(random.IntN(8000)) * time.Millisecond)
					start := clock.Now()
					trouble.begin(leader.way)
					lasts := time.Duration(random.IntN(20000)) * time.Millisecond
					if random.IntN(2) == 0 {
						lasts = time.Duration(random.IntN(3000)) * time.Millisecond
						d.Description += "." // a new revision
						v.put("s", d)
					}
					v.pass(lasts)
					trouble.end(leader.way)
					v.gaps = append(v.gaps, gap{start, clock.Now().Add(quick.takeover())})
				}
				v.until(until.Add(time.Second))
				ticks := every(from.Add(2*time.Second), until.Add(time.Second), 2*time.Second)
				s.matches(ticks)
				s.late(time.Minute) // catching up
			})
		})
	}
}
