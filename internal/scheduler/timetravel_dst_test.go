package scheduler

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/testkit"
)

// almanac is schedules that run through changes of the clocks.
var almanac = map[string]oracle{
	"new-york-night":  {cron: []string{"30 2 * * *"}, zone: "America/New_York"},
	"new-york-twice":  {cron: []string{"30 1 * * *"}, zone: "America/New_York"},
	"chicago-often":   {cron: []string{"*/20 1-2 * * *"}, zone: "America/Chicago"},
	"los-angeles":     {cron: []string{"0 */2 * * *"}, zone: "America/Los_Angeles"},
	"berlin-often":    {cron: []string{"*/15 2 * * *"}, zone: "Europe/Berlin"},
	"berlin-holidays": {cron: []string{"0 3 * * *", "30 14 * * 1-5"}, zone: "Europe/Berlin", exclude: []string{"2026-03-29", "2026-10-26"}},
	"london-sunday":   {cron: []string{"15 1 * * 0", "0 9 1 * 5"}, zone: "Europe/London"},
	"lord-howe":       {cron: []string{"15 2 * * *", "45 1 * * *"}, zone: "Australia/Lord_Howe"},
	"kathmandu":       {cron: []string{"5,35 6-8 * * *"}, zone: "Asia/Kathmandu"},
	"utc":             {cron: []string{"0 */6 * * *"}, zone: "UTC"},
	"steady":          {every: 7 * time.Hour},
}

// putAll creates the schedules of an almanac, so that every tick runs, however late.
func (v *voyage) putAll(book map[string]oracle) map[string]scheduled {
	v.t.Helper()
	all := make(map[string]scheduled)
	for id, o := range book {
		spec := schedule.Spec{Timezone: o.zone, Exclude: o.exclude}
		for _, expression := range o.cron {
			spec.Rules = append(spec.Rules, schedule.Rule{Cron: expression})
		}
		if o.every > 0 {
			spec.Rules = append(spec.Rules, schedule.Rule{Every: o.every})
		}
		all[id] = v.put(id, schedule.Definition{
			Spec: spec, Overlap: schedule.OverlapAllow, Misfire: schedule.Misfire{Policy: schedule.MisfireAll, Window: day},
		})
	}
	return all
}

// Up to two weeks around changes of the clocks. The short form takes one span: two days around its first change.
func TestTravel_WeeksOfSchedulesFireEachTickOnce(t *testing.T) {
	testkit.NotQuick(t)
	spans := map[string]struct{ from, short, until string }{
		"the clocks go forward in the US":                            {"2026-03-06T11:07Z", "2026-03-09T11:07Z", "2026-03-10T11:07Z"},
		"the clocks go forward in the EU, and back on Lord Howe":     {"2026-03-27T11:07Z", "2026-03-30T11:07Z", "2026-04-06T11:07Z"},
		"two weeks in which the clocks go back in the EU and the US": {"2026-10-22T11:07Z", "2026-10-26T11:07Z", "2026-11-05T11:07Z"},
	}
	for _, name := range testkit.Sample(t, 1, slices.Sorted(maps.Keys(spans))) {
		span := spans[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, until := at(span.short).Add(-2*day), at(span.short)
			if testkit.Long() {
				from, until = at(span.from), at(span.until)
			}
			travel(t, from, slow, func(v *voyage) {
				v.start()
				v.start()
				all := v.putAll(almanac)
				v.troubled(from, until)
				for id, o := range almanac {
					o.anchor = from
					ticks, excluded := o.ticks(t, from, until)
					all[id].accounted(ticks, func(tick time.Time) schedule.Outcome {
						if excluded[tick] {
							return schedule.Excluded
						}
						return schedule.Fired
					})
					all[id].late(3 * schedule.CatchUpPace)
				}
			})
		})
	}
}

// troubled lets the time pass, with a leader that goes or is killed every day, each in another way.
func (v *voyage) troubled(from, until time.Time) {
	v.t.Helper()
	for d := 0; ; d++ {
		next := from.Add(time.Duration(d) * 23 * time.Hour)
		if next.After(until.Add(-day)) {
			v.until(until.Add(30 * time.Second)) // what is due at the end has begun then
			return
		}
		v.until(next)
		switch leader := v.leads(); d % 6 {
		case 0:
			leader.stop()
		case 1:
			v.killed(leader)
		case 2: // it decided, and does not learn that it did
			v.trapped(leader, "fire", answerLost)
		case 3: // it decided, and nobody hears of it
			v.trapped(leader, "fire", sendLost)
		case 4:
			v.trapped(leader, "claim", answerLost)
		case 5:
			v.outage(90 * time.Minute)
			continue
		}
		v.start()
	}
}

// late checks that each tick's task began in time, or by so much later after a time without a leader.
func (s scheduled) late(pace time.Duration) {
	s.v.t.Helper()
	for _, r := range s.runs() {
		if latest := s.v.latest(r.tick); r.begun.After(latest.Add(pace)) {
			s.v.t.Errorf("%s ran the tick of %s %s late, want %s at most", s.ref.ID, r.tick, r.begun.Sub(r.tick), latest.Sub(r.tick))
		}
	}
}

// The task of a tick is due a while after it, each time another while, whoever leads; what is recorded is the tick.
func TestTravel_JitterDelaysTasksAndNotTicks(t *testing.T) {
	testkit.NotQuick(t)
	const jitter = 10 * time.Minute
	steady := rhythm{lease: 2 * time.Minute, beat: 40 * time.Second} // a takeover is shorter than the jitter of each tick
	from := at("2026-03-07T23:30Z")
	spec := cron("0 * * * *")
	spec.Jitter = jitter
	ticks := []string{"00:00 fired", "01:00 fired", "02:00 fired", "03:00 fired"}[:testkit.Amount(2, 4)]
	begun := make(map[time.Time]time.Time)
	for _, kills := range []bool{false, true} {
		travel(t, from, steady, func(v *voyage) {
			v.start()
			v.start()
			s := v.put("s", schedule.Definition{Spec: spec})
			for range ticks {
				v.until(clock.Now().Truncate(time.Hour).Add(time.Hour + time.Second)) // the tasks are there, and not due
				if kills {
					v.killed(v.leads())
					v.start()
				}
			}
			v.pass(jitter + time.Minute)
			s.recorded("15:04", ticks...)
			for _, r := range s.runs() {
				late := r.begun.Sub(r.tick)
				if late < 0 || late >= jitter+steady.takeover() || late%time.Minute == 0 {
					t.Errorf("the tick of %s began %s late, want less than %s", r.tick, late, jitter)
				}
				if before, ok := begun[r.tick]; ok && !before.Equal(r.begun) {
					t.Errorf("the tick of %s began at %s, and %s at another try", r.tick, before, r.begun)
				}
				begun[r.tick] = r.begun
			}
		})
	}
	if len(begun) != len(ticks) {
		t.Errorf("%d ticks ran, want %d", len(begun), len(ticks))
	}
}
