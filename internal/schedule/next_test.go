package schedule

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func preview(t *testing.T, s Spec, after string, count int) NextTicks {
	t.Helper()
	table, err := Compile(s, nightly, mustTime(t, "2026-01-01T00:00:00Z"))
	if err != nil {
		t.Fatal(err)
	}
	return table.NextTicks(mustTime(t, after), count)
}

func lines(list []UpcomingTick) string {
	var text []string
	for _, u := range list {
		line := u.Tick.Format("02T15:04:05")
		if u.Excluded {
			line += " excluded"
		}
		if u.Note != "" {
			line += " (" + u.Note + ")"
		}
		text = append(text, line)
	}
	return strings.Join(text, "\n")
}

func TestNextTicks_ExplainsTicks(t *testing.T) {
	t.Parallel()
	in := func(zone string, s Spec) Spec { return s.with(func(s *Spec) { s.Timezone = zone }) }
	for name, c := range map[string]struct {
		spec  Spec
		after string
		want  string
	}{
		"jump": {in("America/New_York", cronSpec("30 2 * * *")), "2026-03-07T00:00:00Z", `
07T07:30:00
08T07:00:00 (02:30 does not exist that day: runs when the clock jumps to 03:00)
09T06:30:00`},
		"jump over many": {in("America/New_York", cronSpec("*/20 2 8 3 *")), "2026-03-07T00:00:00Z", `
08T07:00:00 (02:00 and others do not exist that day: run once, when the clock jumps to 03:00)`},
		"nothing at the jump but what belongs there": {in("America/New_York", cronSpec("0 3 * * *")), "2026-03-08T00:00:00Z", `
08T07:00:00
09T07:00:00
10T07:00:00`},
		"fold": {in("America/New_York", cronSpec("30 1 * * *")), "2026-10-31T00:00:00Z", `
31T05:30:00
01T05:30:00 (01:30 comes twice that day: runs the first time only)
02T06:30:00`},
		"two rules, one note": {in("America/New_York", cronSpec("30 1 * * *", "30 1 1 * *")), "2026-11-01T00:00:00Z", `
01T05:30:00 (01:30 comes twice that day: runs the first time only)
02T06:30:00
03T06:30:00`},
		"half an hour": {in("Australia/Lord_Howe", cronSpec("15 2 * * *")), "2026-10-02T18:00:00Z", `
03T15:30:00 (02:15 does not exist that day: runs when the clock jumps to 02:30)
04T15:15:00
05T15:15:00`},
		"a day": {in("Pacific/Apia", cronSpec("0 9 * * *")), "2011-12-29T00:00:00Z", `
29T19:00:00
30T10:00:00 (2011-12-30 09:00 does not exist that day: runs when the clock jumps to 2011-12-31 00:00)
30T19:00:00`},
		"excluded": {cronSpec("0 0 * * *").with(func(s *Spec) { s.Exclude = []string{"2026-12-25"} }), "2026-12-24T12:00:00Z", `
25T00:00:00 excluded (excluded by 2026-12-25)
26T00:00:00
27T00:00:00`},
	} {
		p := preview(t, c.spec, c.after, strings.Count(c.want, "\n"))
		if got := "\n" + lines(p.Ticks); got != c.want {
			t.Errorf("%s: got %s\nwant %s", name, got, c.want)
		}
	}
}

func TestNextTicks_ShowsTheComingTransition(t *testing.T) {
	t.Parallel()
	p := preview(t, cronSpec("30 * * * *").with(func(s *Spec) { s.Timezone = "Europe/Berlin" }), "2026-10-01T00:00:00Z", 1)
	tr := p.Transition
	if tr == nil || tr.Before != 2*time.Hour || tr.After != time.Hour || !tr.At.Equal(mustTime(t, "2026-10-25T01:00:00Z")) {
		t.Fatalf("%+v", tr)
	}
	if want := "the clock goes back from 2026-10-25 03:00 to 02:00: times in between come twice, and their ticks run the first time only"; tr.Note != want {
		t.Errorf("got %s", tr.Note)
	}
	if got, want := "\n"+lines(tr.Ticks), `
24T22:30:00
24T23:30:00
25T00:30:00 (02:30 comes twice that day: runs the first time only)
25T02:30:00
25T03:30:00`; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	p = preview(t, cronSpec("30 * * * *").with(func(s *Spec) { s.Timezone = "Europe/Berlin" }), "2026-10-25T01:00:00Z", 1)
	if want := "the clock jumps from 2027-03-28 02:00 to 03:00: times in between do not exist, and their ticks run once, at the jump"; p.Transition.Note != want {
		t.Errorf("after the one, the next: %s", p.Transition.Note)
	}
}

func TestNextTicks_OfATransitionIsShort(t *testing.T) {
	t.Parallel()
	p := preview(t, Spec{Rules: []Rule{{Cron: "* * * * * *"}, {Every: 100 * time.Millisecond}}, Timezone: "Europe/Berlin"},
		"2026-10-01T00:00:00Z", 1)
	before := 0
	for _, u := range p.Transition.Ticks {
		if u.Tick.Before(p.Transition.At) {
			before++
		}
	}
	if n := len(p.Transition.Ticks); n > 20 || before < 3 || n-before != 10 {
		t.Errorf("%d ticks, %d of them before the transition", n, before)
	}
}

func TestNextTicks_ShowsNoTransitionThatDoesNotMatter(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]Spec{
		"UTC":                     cronSpec("* * * * *"),
		"no daylight saving":      cronSpec("* * * * *").with(func(s *Spec) { s.Timezone = "Asia/Shanghai" }),
		"intervals know no zones": everySpec(time.Hour).with(func(s *Spec) { s.Timezone = "Europe/Berlin" }),
	} {
		if p := preview(t, s, "2026-10-01T00:00:00Z", 1); p.Transition != nil || len(p.Ticks) != 1 || p.Location == nil {
			t.Errorf("%s: %s", name, fmt.Sprint(p))
		}
	}
	over := cronSpec("0 0 0 1 1 * 2026").with(func(s *Spec) { s.Timezone = "Europe/Berlin" })
	if p := preview(t, over, "2026-10-01T00:00:00Z", 5); p.Transition != nil || p.Ticks != nil {
		t.Errorf("nothing to come: %+v", p)
	}
}

// A step over what is excluded must lead to the same tick as a walk from tick to tick.
func TestNextTick_PassesOverWhatIsExcluded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rules   []Rule
		exclude []string
		zone    string
	}{
		"two days of every 10s": {[]Rule{{Every: 10 * time.Second}}, []string{"* * * * WED,THU"}, ""},
		"weekends":              {[]Rule{{Every: 10 * time.Second}}, []string{"* * * * SAT,SUN"}, "Asia/Tokyo"},
		"half a second":         {[]Rule{{Every: 500 * time.Millisecond}}, []string{"0 * * * * *", "* 3-23 * * *", "*/2 * * * *"}, ""},
		"holidays":              {[]Rule{{Every: time.Minute}}, []string{"2026-11-24/2026-12-31", "* 9-17 * * *"}, "America/New_York"},
		"clock put forward":     {[]Rule{{Every: time.Minute}}, []string{"2026-03-29", "* 0-6 * * *"}, "Europe/Berlin"},
		"clock put back":        {[]Rule{{Cron: "*/10 * * * *"}}, []string{"* 0-1 * * *", "* * 25 10 *"}, "Australia/Lord_Howe"},
		"offset with minutes":   {[]Rule{{Every: 7 * time.Second}, {Cron: "@hourly"}}, []string{"* 1-22 * * *", "30-59 * * * *"}, "Asia/Kathmandu"},
	} {
		spec := Spec{Rules: c.rules, Exclude: c.exclude, Timezone: c.zone}
		table, err := Compile(spec, nightly, mustTime(t, "2026-01-01T00:00:00Z"))
		if err != nil {
			t.Fatal(err)
		}
		for _, from := range []string{"2026-11-25T00:00:00Z", "2026-03-28T22:30:00Z", "2026-10-24T13:00:00Z", "2026-11-27T23:59:59.999Z"} {
			after := mustTime(t, from)
			want, _ := table.Next(after)
			for want.Excluded {
				want, _ = table.Next(want.At)
			}
			s := Schedule{Definition: Definition{Ref: nightly, Spec: spec}, Cursor: after, CreatedAt: mustTime(t, "2026-01-01T00:00:00Z")}
			if got, ok := s.NextTick(); !ok || !got.Equal(want.At) {
				t.Errorf("%s: after %s comes %s, %t; want %s", name, from, got, ok, want.At)
			}
		}
	}
}
