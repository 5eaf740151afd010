package schedule

import (
	"testing"
	"time"
)

func TestOverlooked(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.January, 2, 15, 0, 0, 0, time.UTC)
	ago := func(hours int) time.Time { return now.Add(time.Duration(-hours) * time.Hour) }
	entry := func(hours int, o Outcome, reason string) Entry {
		return Entry{Tick: ago(hours), Outcome: o, Reason: reason}
	}
	missed := entry(3, Missed, "not fired in time; misfires do not run")
	paused := entry(2, Missed, "paused; a later tick runs for all")
	for name, c := range map[string]struct {
		entries []Entry
		at      time.Time
		want    time.Time // zero for none
	}{
		"missed":                        {[]Entry{missed}, ago(3), ago(3)},
		"of a pause":                    {[]Entry{paused}, ago(2), time.Time{}},
		"of a pause after one":          {[]Entry{paused, entry(3, Fired, ""), missed}, ago(2), ago(3)},
		"backfilled":                    {[]Entry{entry(3, Backfilled, "")}, ago(3), time.Time{}},
		"backfilled, and one before":    {[]Entry{entry(2, Backfilled, ""), missed}, ago(2), ago(3)},
		"its record is forgotten":       {nil, ago(3), ago(3)},
		"only older records are there":  {[]Entry{entry(9, Fired, "")}, ago(3), ago(3)},
		"too long ago":                  {[]Entry{entry(25, Missed, "not fired in time")}, ago(25), time.Time{}},
		"a pause, and one too long ago": {[]Entry{paused, entry(25, Missed, "not fired in time")}, ago(2), time.Time{}},
		"nothing missed":                {nil, time.Time{}, time.Time{}},
		"for a pause that a queue held": {[]Entry{entry(2, Missed, "the queue was full; more than 1h late")}, ago(2), ago(2)},
	} {
		if got := Overlooked(c.entries, c.at, now); !got.Tick.Equal(c.want) {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
}

// The reason of a plan is what Overlooked looks for.
func TestOverlooked_KnowsTheReasonOfAPlan(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.January, 2, 15, 0, 0, 0, time.UTC)
	tick := Tick{At: now.Add(-time.Minute)}
	for _, m := range []Misfire{{Policy: MisfireSkip}, {Policy: MisfireOnce}, {Policy: MisfireAll, Max: 1}} {
		a := Agenda{Misfire: m, Now: now, LastPause: Span{From: now.Add(-time.Hour), Until: now}}
		reason := a.whyMissed(tick, misfireRange{0, 0})
		entries := []Entry{{Tick: tick.At, Outcome: Missed, Reason: reason}}
		if got := Overlooked(entries, tick.At, now); !got.Tick.IsZero() {
			t.Errorf("%q is an alarm", reason)
		}
	}
}
