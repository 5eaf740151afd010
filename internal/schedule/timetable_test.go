package schedule

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

var nightly = task.Ref{Namespace: "default", ID: "nightly"}

func mustTime(t *testing.T, text string) time.Time {
	t.Helper()
	if text == "" {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func cronSpec(expressions ...string) Spec {
	var s Spec
	for _, text := range expressions {
		s.Rules = append(s.Rules, Rule{Cron: text})
	}
	return s
}

func everySpec(intervals ...time.Duration) Spec {
	var s Spec
	for _, d := range intervals {
		s.Rules = append(s.Rules, Rule{Every: d})
	}
	return s
}

func (s Spec) with(change func(*Spec)) Spec {
	change(&s)
	return s
}

func TestTimetable_Ticks(t *testing.T) {
	t.Parallel()
	const created = "2026-11-21T10:00:00.5Z"
	at := func(text string) time.Time { return mustTime(t, text) }
	for name, c := range map[string]struct {
		spec  Spec
		after string
		want  []string // "!": excluded; "end": nothing more
	}{
		"every counts from the creation": {everySpec(7 * time.Second), "2026-11-21T10:00:00.5Z",
			[]string{"2026-11-21T10:00:07.5Z", "2026-11-21T10:00:14.5Z"}},
		"every ticks at its anchor": {everySpec(7 * time.Second), "2026-11-21T10:00:00.4999Z",
			[]string{"2026-11-21T10:00:00.5Z", "2026-11-21T10:00:07.5Z"}},
		"every counts backwards as well, for a backfill": {everySpec(time.Hour), "2026-11-21T08:00:00Z",
			[]string{"2026-11-21T08:00:00.5Z"}},
		"every counts from start_at where there is one": {
			everySpec(250 * time.Millisecond).with(func(s *Spec) { s.StartAt = at("2026-12-01T00:00:00.1Z") }), "",
			[]string{"2026-12-01T00:00:00.1Z", "2026-12-01T00:00:00.35Z"}},
		"both ends count": {
			cronSpec("0 * * * *").with(func(s *Spec) {
				s.StartAt, s.EndAt = at("2026-12-01T01:00:00Z"), at("2026-12-01T02:00:00Z")
			}), "",
			[]string{"2026-12-01T01:00:00Z", "2026-12-01T02:00:00Z", "end"}},
		"a union ticks once where rules meet": {
			Spec{Rules: []Rule{{Cron: "0 * * * *"}, {Cron: "0,30 10 * * *"}, {Every: time.Hour}},
				StartAt: at("2026-12-01T09:30:00Z")}, "",
			[]string{"2026-12-01T09:30:00Z", "2026-12-01T10:00:00Z", "2026-12-01T10:30:00Z", "2026-12-01T11:00:00Z"}},
		"dates are excluded in the zone": {
			cronSpec("0 */12 * * *").with(func(s *Spec) {
				s.Timezone, s.Exclude = "Asia/Shanghai", []string{"2026-12-25"}
			}), "2026-12-24T10:00:00Z",
			[]string{"2026-12-24T16:00:00Z!", "2026-12-25T04:00:00Z!", "2026-12-25T16:00:00Z"}},
		"ranges of dates include both": {
			cronSpec("0 0 * * *").with(func(s *Spec) { s.Exclude = []string{"2026-12-30/2027-01-01"} }), "2026-12-28T12:00:00Z",
			[]string{"2026-12-29T00:00:00Z", "2026-12-30T00:00:00Z!", "2026-12-31T00:00:00Z!", "2027-01-01T00:00:00Z!",
				"2027-01-02T00:00:00Z"}},
		"an exclusion of five fields covers the whole minute": {
			everySpec(20 * time.Second).with(func(s *Spec) {
				s.StartAt, s.Exclude = at("2026-12-01T00:00:30.2Z"), []string{"1 * * * *"}
			}), "",
			[]string{"2026-12-01T00:00:30.2Z", "2026-12-01T00:00:50.2Z", "2026-12-01T00:01:10.2Z!", "2026-12-01T00:01:30.2Z!",
				"2026-12-01T00:01:50.2Z!", "2026-12-01T00:02:10.2Z"}},
		"an exclusion of six fields covers the second": {
			everySpec(500 * time.Millisecond).with(func(s *Spec) {
				s.StartAt, s.Exclude = at("2026-12-01T00:00:00Z"), []string{"1 * * * * *"}
			}), "",
			[]string{"2026-12-01T00:00:00Z", "2026-12-01T00:00:00.5Z", "2026-12-01T00:00:01Z!", "2026-12-01T00:00:01.5Z!",
				"2026-12-01T00:00:02Z"}},
		"what does not exist runs at the jump, and what comes twice the first time": {
			cronSpec("30 1,2 * * *").with(func(s *Spec) { s.Timezone = "America/New_York" }), "2026-03-08T00:00:00Z",
			[]string{"2026-03-08T06:30:00Z", "2026-03-08T07:00:00Z", "2026-03-09T05:30:00Z", "2026-03-09T06:30:00Z"}},
		"what comes twice runs the first time only": {
			cronSpec("*/30 1,2 * * *").with(func(s *Spec) { s.Timezone = "America/New_York" }), "2026-11-01T00:00:00Z",
			[]string{"2026-11-01T05:00:00Z", "2026-11-01T05:30:00Z", "2026-11-01T07:00:00Z", "2026-11-01T07:30:00Z"}},
		"in the hour that comes again nothing minutely runs": {
			cronSpec("*/30 * * * *").with(func(s *Spec) { s.Timezone = "America/New_York" }), "2026-11-01T05:10:00Z",
			[]string{"2026-11-01T05:30:00Z", "2026-11-01T07:00:00Z"}},
		"an interval knows no zones": {
			everySpec(30 * time.Minute).with(func(s *Spec) {
				s.Timezone, s.StartAt = "America/New_York", at("2026-11-01T05:30:00Z")
			}), "",
			[]string{"2026-11-01T05:30:00Z", "2026-11-01T06:00:00Z", "2026-11-01T06:30:00Z"}},
		"half an hour in Lord Howe": {
			cronSpec("*/15 2 * * *").with(func(s *Spec) { s.Timezone = "Australia/Lord_Howe" }), "2026-10-03T15:20:00Z",
			[]string{"2026-10-03T15:30:00Z", "2026-10-03T15:45:00Z", "2026-10-04T15:00:00Z"}},
		"a day that Apia skipped runs at its end": {
			cronSpec("0 9,17 * * *").with(func(s *Spec) { s.Timezone = "Pacific/Apia" }), "2011-12-29T20:00:00Z",
			[]string{"2011-12-30T03:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T19:00:00Z", "2011-12-31T03:00:00Z"}},
		"a day that Kwajalein had twice runs once": {
			cronSpec("0 12 * * *").with(func(s *Spec) { s.Timezone = "Pacific/Kwajalein" }), "1969-09-29T00:00:00Z",
			[]string{"1969-09-29T01:00:00Z", "1969-09-30T01:00:00Z", "1969-10-02T00:00:00Z"}},
		"nothing after the year 9999": {cronSpec("@yearly"), "9998-06-01T00:00:00Z", []string{"9999-01-01T00:00:00Z", "end"}},
	} {
		table, err := Compile(c.spec, nightly, at(created))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		after := at(c.after)
		for range c.want {
			tick, ok := table.Next(after)
			if !ok {
				got = append(got, "end")
				break
			}
			mark := ""
			if tick.Excluded {
				mark = "!"
			}
			got = append(got, tick.At.Format(time.RFC3339Nano)+mark)
			after = tick.At
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s:\n got %v\nwant %v", name, got, c.want)
		}
	}
}

func TestCompile_RefusesAnInvalidSpecWithTheField(t *testing.T) {
	t.Parallel()
	at := func(text string) time.Time { return mustTime(t, text) }
	minutely := cronSpec("* * * * *")
	for _, c := range []struct {
		spec        Spec
		field, want string
	}{
		{Spec{}, "cron", "give cron, every or specs"},
		{Spec{Rules: []Rule{{}}}, "cron", "give cron, every or specs"},
		{Spec{Rules: []Rule{{Cron: "* * * * *"}, {}}}, "specs[1]", "give cron or every"},
		{Spec{Rules: []Rule{{Cron: "* * * * *", Every: time.Hour}}}, "every", "give cron or every, not both"},
		{cronSpec("* 25 * * *"), "cron", "hour: 25 is more than 23"},
		{cronSpec("* * * * *", "* 25 * * *"), "specs[1].cron", "hour: 25 is more than 23"},
		{cronSpec("0 0 30 2 *"), "cron", "never ticks"},
		{everySpec(50 * time.Millisecond), "every", "50ms is too short, at least 100ms"},
		{everySpec(-time.Hour), "every", "-1h0m0s is too short"},
		{everySpec(100*time.Millisecond + 1), "every", "not a whole number of milliseconds"},
		{everySpec(IntervalLimit + time.Second), "every", "is too long, at most"},
		{everySpec(time.Hour, time.Millisecond), "specs[1].every", "1ms is too short"},
		{everySpec(make([]time.Duration, 21)...), "specs", "has 21 entries, at most 20"},
		{minutely.with(func(s *Spec) { s.Timezone = "Europe/Bärlin" }), "timezone", "is not the name of a time zone"},
		{minutely.with(func(s *Spec) { s.Timezone = "Local" }), "timezone", "is not the name of a time zone"},
		{minutely.with(func(s *Spec) { s.Timezone = "right/Europe/Berlin" }), "timezone", "is not the name"},
		{minutely.with(func(s *Spec) { s.Timezone = "../../etc/passwd" }), "timezone", "is not the name of a time zone"},
		{minutely.with(func(s *Spec) { s.Exclude = []string{"2026-02-29"} }), "exclude[0]", `"2026-02-29" is not a date`},
		{minutely.with(func(s *Spec) { s.Exclude = []string{""} }), "exclude[0]", `"" is not a date`},
		{minutely.with(func(s *Spec) { s.Exclude = []string{"2026-12-24", "2027-01-02/2026-12-24"} }), "exclude[1]",
			"the end 2026-12-24 is before the beginning 2027-01-02"},
		{minutely.with(func(s *Spec) { s.Exclude = []string{"* 25 * * *"} }), "exclude[0]", "hour: 25 is more than 23"},
		{minutely.with(func(s *Spec) { s.Exclude = []string{"* * * * *"} }), "exclude[0]", "excludes every tick"},
		{everySpec(time.Hour).with(func(s *Spec) { s.Exclude = []string{"* * * * * *"} }), "exclude[0]", "excludes every tick"},
		{cronSpec("0 2 * * MON", "0 3 L * *").with(func(s *Spec) { s.Exclude = []string{"* 2-3 * * *"} }), "exclude[0]",
			"excludes every tick"},
		{minutely.with(func(s *Spec) { s.Exclude = make([]string, 201) }), "exclude", "has 201 entries, at most 200"},
		{cronSpec("0 0 0 1 1 * 2030").with(func(s *Spec) { s.Exclude = []string{"2030-01-01"} }), "exclude",
			"excludes every tick"},
		{minutely.with(func(s *Spec) { s.Jitter = -1 }), "jitter", "must be 0s to 24h0m0s"},
		{minutely.with(func(s *Spec) { s.Jitter = JitterLimit + 1 }), "jitter", "must be 0s to 24h0m0s"},
		{minutely.with(func(s *Spec) { s.Jitter = 1 }), "jitter", "is not a whole number of milliseconds"},
		{minutely.with(func(s *Spec) { s.StartAt, s.EndAt = at("2026-01-02T00:00:00Z"), at("2026-01-01T00:00:00Z") }), "end_at",
			"2026-01-01T00:00:00Z is before start_at"},
		{cronSpec("0 0 1 1 *").with(func(s *Spec) { s.StartAt, s.EndAt = at("2026-01-02T00:00:00Z"), at("2026-12-01T00:00:00Z") }),
			"end_at", "2026-12-01T00:00:00Z leaves no tick after start_at"},
		{cronSpec("0 0 0 1 1 * 2030").with(func(s *Spec) { s.EndAt = at("2029-01-01T00:00:00Z") }), "end_at", "leaves no tick"},
		{cronSpec("0 0 0 1 1 * 2030").with(func(s *Spec) { s.StartAt = at("2031-01-01T00:00:00Z") }), "cron", "never ticks after"},
		{minutely.with(func(s *Spec) { s.StartAt = time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC) }), "start_at", "must be 1 to 9999"},
		{minutely.with(func(s *Spec) { s.EndAt = time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC) }), "end_at", "must be 1 to 9999"},
	} {
		_, err := Compile(c.spec, nightly, time.Time{})
		var refused *task.Error
		if !errors.As(err, &refused) || refused.Code != task.CodeInvalid || refused.Field != c.field ||
			!strings.Contains(refused.Message, c.want) {
			t.Errorf("%+v: %v; want %s: %s", c.spec, err, c.field, c.want)
		}
	}
}

func TestCompile_ReadsWhatIsOverThoughItIsRefused(t *testing.T) {
	t.Parallel()
	now := mustTime(t, "2026-11-21T00:00:00Z")
	for _, c := range []struct {
		spec        Spec
		field, want string
	}{
		{cronSpec("* * * * *"), "", ""},
		{cronSpec("0 0 0 1 1 * 2025"), "cron", "no tick is left after 2026-11-21T00:00:00Z"},
		{cronSpec("0 0 0 1 1 * 2025", "0 0 0 1 1 * 2024"), "specs", "no tick is left"},
		{everySpec(time.Hour).with(func(s *Spec) { s.EndAt = now }), "end_at", "leaves no tick after"},
		{cronSpec("0 0 0 1 * * 2026").with(func(s *Spec) { s.Exclude = []string{"2026-12-01"} }), "exclude", "is excluded"},
	} {
		table, err := Compile(c.spec, nightly, now)
		if err != nil {
			t.Errorf("%+v: %v", c.spec, err)
			continue
		}
		var refused *task.Error
		err = table.Fires(now)
		if c.want == "" && err == nil {
			continue
		}
		if !errors.As(err, &refused) || refused.Field != c.field || !strings.Contains(refused.Message, c.want) {
			t.Errorf("%+v: %v; want %s: %s", c.spec, err, c.field, c.want)
		}
	}
}

func TestJitter_IsStableAndSpread(t *testing.T) {
	t.Parallel()
	compile := func(jitter time.Duration, ref task.Ref) *Timetable {
		table, err := Compile(everySpec(time.Second).with(func(s *Spec) { s.Jitter = jitter }), ref, time.Unix(0, 0))
		if err != nil {
			t.Fatal(err)
		}
		return table
	}
	begin := mustTime(t, "2026-11-21T00:00:00Z")
	if got := compile(time.Minute, nightly).Offset(begin); got != 53307*time.Millisecond {
		t.Errorf("the offset of a tick has changed: %s", got)
	}
	if got := compile(0, nightly).Offset(begin); got != 0 {
		t.Errorf("%s without jitter", got)
	}
	table, other := compile(10*time.Second, nightly), compile(10*time.Second, task.Ref{Namespace: "default", ID: "other"})
	var tenths [10]int
	same := 0
	for i := range 5000 {
		at := begin.Add(time.Duration(i) * time.Second)
		offset := table.Offset(at)
		if offset < 0 || offset >= 10*time.Second || offset%time.Millisecond != 0 || offset != table.Offset(at.Local()) {
			t.Fatalf("offset %s of %s", offset, at)
		}
		tenths[offset/time.Second]++
		if other.Offset(at) == offset {
			same++
		}
	}
	for i, n := range tenths {
		if n < 400 || n > 600 {
			t.Errorf("%d of 5000 ticks are %d s late", n, i)
		}
	}
	if same > 10 {
		t.Errorf("two schedules have the same offset %d times of 5000", same)
	}
}

func TestTimeline_ChangesTimetables(t *testing.T) {
	t.Parallel()
	at := func(text string) time.Time { return mustTime(t, "2026-11-21T"+text+"Z") }
	table := func(text string) *Timetable {
		table, err := Compile(cronSpec(text), nightly, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		return table
	}
	line := Timeline{
		{Span: Span{time.Time{}, at("02:00:00")}, Table: table("0 * * * *")},
		{Span: Span{at("02:00:00"), at("03:00:00")}, Table: table("20 * * * *")},
		{Span: Span{at("04:00:00"), time.Time{}}, Table: table("*/30 * * * *")},
	}
	ticks, more := line.Ticks(at("00:30:00"), at("05:00:00"), 10)
	var got []string
	for _, tick := range ticks {
		got = append(got, tick.At.Format("15:04"))
	}
	// The tick at the end of a span is the old timetable's; at its beginning there is none.
	if want := "[01:00 02:00 02:20 04:30 05:00]"; fmt.Sprint(got) != want || more {
		t.Errorf("got %v, more %t, want %s", got, more, want)
	}
	if ticks, more := line.Ticks(at("00:30:00"), at("02:00:00"), 2); len(ticks) != 2 || more {
		t.Errorf("all that there are: %v, more %t", ticks, more)
	}
	if ticks, more := line.Ticks(at("00:30:00"), at("05:00:00"), 2); len(ticks) != 2 || !more {
		t.Errorf("as many as are asked for: %v, more %t", ticks, more)
	}
	if tick, ok := (Timeline{}).Next(at("00:00:00")); ok {
		t.Errorf("an empty timeline ticks at %v", tick)
	}
}
