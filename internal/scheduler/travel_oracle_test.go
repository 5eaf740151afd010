package scheduler

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/testkit"
)

// oracle is a schedule as somebody with a wall clock and much patience sees it: it walks through the time minute by
// minute, looks at the clock, and knows nothing of how package schedule computes. It understands cron expressions of
// five plain fields (numbers, *, ranges, steps, lists), and excluded dates.
type oracle struct {
	cron    []string
	every   time.Duration
	anchor  time.Time // of every
	zone    string
	exclude []string // dates
}

// ticks lists the ticks after from, up to and including until; excluded ones are marked. A wall time that the clock
// jumps over comes at the jump, and one that it shows twice comes the first time.
func (o oracle) ticks(t *testing.T, from, until time.Time) (ticks []time.Time, excluded map[time.Time]bool) {
	t.Helper()
	zone, err := time.LoadLocation(o.zone)
	testkit.Must(t, err)
	found := make(map[time.Time]bool)
	if o.every > 0 {
		for at := o.anchor; !at.After(until); at = at.Add(o.every) {
			if at.After(from) {
				found[at.UTC()] = true
			}
		}
	}
	// A wall clock's face as a time that never jumps: the same digits, read as UTC.
	face := func(at time.Time) time.Time {
		in := at.In(zone)
		return time.Date(in.Year(), in.Month(), in.Day(), in.Hour(), in.Minute(), 0, 0, time.UTC)
	}
	start := from.Truncate(time.Minute)
	shown := face(start.Add(-3 * day))
	for at := start.Add(-3 * day); !at.After(until); at = at.Add(time.Minute) {
		for shown.Before(face(at)) {
			shown = shown.Add(time.Minute)
			if o.named(shown) && at.After(from) {
				found[at.UTC()] = true
			}
		}
	}
	excluded = make(map[time.Time]bool)
	for at := range found {
		excluded[at] = slices.Contains(o.exclude, at.In(zone).Format(time.DateOnly))
	}
	return slices.SortedFunc(maps.Keys(found), time.Time.Compare), excluded
}

// named says whether one of the expressions names a minute.
func (o oracle) named(wall time.Time) bool {
	return slices.ContainsFunc(o.cron, func(expression string) bool {
		f := strings.Fields(expression)
		dom, dow := in(f[2], wall.Day(), 1, 31), in(f[4], int(wall.Weekday()), 0, 6) || in(f[4], int(wall.Weekday())+7, 0, 7)
		days := dom && dow
		if f[2] != "*" && f[4] != "*" {
			days = dom || dow
		}
		return days && in(f[0], wall.Minute(), 0, 59) && in(f[1], wall.Hour(), 0, 23) && in(f[3], int(wall.Month()), 1, 12)
	})
}

// in says whether a field of an expression names a value.
func in(field string, value, low, high int) bool {
	for item := range strings.SplitSeq(field, ",") {
		span, step, stepped := strings.Cut(item, "/")
		first, last, ranged := strings.Cut(span, "-")
		from, to := low, high
		if span != "*" {
			from, to = atoi(first), atoi(first)
			if stepped {
				to = high
			}
		}
		if ranged {
			to = atoi(last)
		}
		if by := max(atoi(step), 1); value >= from && value <= to && (value-from)%by == 0 {
			return true
		}
	}
	return false
}

func atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil && s != "" {
		panic(fmt.Sprintf("%q is not a number", s))
	}
	return n
}

// What the oracle itself says of the nights on which it matters, by hand.
func TestOracle_KnowsItsClocks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		o           oracle
		from, until string
		want        string
	}{
		{"a time that is jumped over comes at the jump", oracle{cron: []string{"30 2 * * *"}, zone: "America/New_York"},
			"2026-03-07T12:00Z", "2026-03-10T12:00Z", "2026-03-08T07:00Z 2026-03-09T06:30Z 2026-03-10T06:30Z"},
		{"several that are jumped over come once", oracle{cron: []string{"*/20 2 * * *"}, zone: "Europe/Berlin"},
			"2026-03-29T00:00Z", "2026-03-29T12:00Z", "2026-03-29T01:00Z"},
		{"what is shown twice comes once", oracle{cron: []string{"30 1 * * *"}, zone: "America/New_York"},
			"2026-10-31T12:00Z", "2026-11-02T12:00Z", "2026-11-01T05:30Z 2026-11-02T06:30Z"},
		{"an hour shown twice counts once", oracle{cron: []string{"0 * * * *"}, zone: "Europe/Berlin"},
			"2026-10-24T22:30Z", "2026-10-25T03:30Z", "2026-10-24T23:00Z 2026-10-25T00:00Z 2026-10-25T02:00Z 2026-10-25T03:00Z"},
		{"half an hour is jumped over", oracle{cron: []string{"15 2 * * *"}, zone: "Australia/Lord_Howe"},
			"2026-10-02T12:00Z", "2026-10-04T15:00Z", "2026-10-02T15:45Z 2026-10-03T15:30Z"},
		{"both day fields together mean either", oracle{cron: []string{"0 12 13 * 5"}, zone: "UTC"},
			"2026-03-01T00:00Z", "2026-03-16T00:00Z", "2026-03-06T12:00Z 2026-03-13T12:00Z"},
		{"an interval knows no zone", oracle{every: 5 * time.Hour, anchor: at("2026-03-07T12:00Z"), zone: "America/New_York"},
			"2026-03-07T12:00Z", "2026-03-08T09:00Z", "2026-03-07T17:00Z 2026-03-07T22:00Z 2026-03-08T03:00Z 2026-03-08T08:00Z"},
	} {
		ticks, _ := c.o.ticks(t, at(c.from), at(c.until))
		var got []string
		for _, tick := range ticks {
			got = append(got, tick.Format("2006-01-02T15:04Z"))
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s: %s, want %s", c.name, text, c.want)
		}
	}
}

// at reads a time.
func at(text string) time.Time {
	t, err := time.Parse("2006-01-02T15:04Z", text)
	if err != nil {
		panic(err)
	}
	return t
}
