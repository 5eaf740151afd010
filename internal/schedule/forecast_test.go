package schedule

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// Counting arithmetically gives what walking tick by tick gives.
func TestForecast_CountsTicks(t *testing.T) {
	t.Parallel()
	const seed, minutes = 11, 400
	rng := rand.New(rand.NewPCG(seed, seed))
	t.Logf("seed %d", seed)
	total := 0
	for n := range 400 {
		s := randomSpec(rng)
		s.Timezone = fortnightZones[n%len(fortnightZones)]
		switch rng.IntN(4) {
		case 0:
			s.Rules = s.Rules[:1]
			s.Rules[0] = Rule{Cron: randomOf(rng, "*/7 * * * * *", "0,30 30 * * * *", "5-50/5 */2 0-4 * * *", "0,30 59,0 2,3 * * *")}
		case 1:
			s.Rules = []Rule{{Every: time.Duration(1000+rng.IntN(200_000)) * time.Millisecond}}
		}
		table, err := Compile(s, nightly, anchorOfSpecs)
		if err != nil {
			continue // excludes itself
		}
		// Around the transitions of spring and autumn, from the middle of a minute.
		days := []string{"2026-03-08T04:00:07Z", "2026-03-29T00:00:31.5Z", "2026-11-01T04:00:59Z", "2026-10-25T00:00:00Z",
			"2026-04-04T13:00:01Z", "2026-10-03T13:00:01Z"}
		after := mustTime(t, days[n%len(days)])
		f := NewForecast(after, minutes)
		f.Add(nightly, table, after)
		got, err := f.Forecast(t.Context())
		testkit.Must(t, err)
		if want := walkForecast(table, after, minutes); !slices.Equal(got.PerMinute, want) {
			t.Fatalf("%+v after %s:\n got %v\nwant %v", s, after, got.PerMinute, want)
		}
		total += got.Total
	}
	if total < 50_000 {
		t.Errorf("%d ticks prove little", total)
	}
}

func walkForecast(table *Timetable, after time.Time, minutes int) []int {
	from := after.UTC().Truncate(time.Minute)
	perMinute := make([]int, minutes)
	for {
		tick, ok := table.Next(after)
		if !ok || !tick.At.Before(from.Add(time.Duration(minutes)*time.Minute)) {
			return perMinute
		}
		if !tick.Excluded {
			perMinute[int(tick.At.Sub(from).Minutes())]++
		}
		after = tick.At
	}
}

func TestForecast_NamesTheBusiestMinutes(t *testing.T) {
	t.Parallel()
	from := mustTime(t, "2026-11-21T23:50:30Z")
	f := NewForecast(from, 60)
	add := func(id, text string) {
		table, err := Compile(cronSpec(text), task.Ref{}, from)
		if err != nil {
			t.Fatal(err)
		}
		f.Add(task.Ref{Namespace: "default", ID: id}, table, from)
	}
	for i := range 7 {
		add(fmt.Sprintf("midnight-%d", i), "0 0 * * *")
	}
	add("often", "*/10 0 0 * * *")
	add("ticker", "30,45 * * * * *")
	got, err := f.Forecast(t.Context())
	testkit.Must(t, err)
	if got.Schedules != 9 || got.Total != 7+6+2*59+1 || got.PerMinute[0] != 1 || got.PerMinute[10] != 15 {
		t.Errorf("%+v", got)
	}
	hot := got.Hottest[0]
	if len(got.Hottest) != 10 || !hot.Minute.Equal(mustTime(t, "2026-11-22T00:00:00Z")) || hot.Fires != 15 {
		t.Errorf("%+v", got.Hottest)
	}
	want := "[{default:often 6} {default:ticker 2} {default:midnight-0 1} {default:midnight-1 1} {default:midnight-2 1}]"
	if fmt.Sprint(hot.Schedules) != want {
		t.Errorf("got %v", hot.Schedules)
	}
	if second := got.Hottest[1]; !second.Minute.Equal(mustTime(t, "2026-11-21T23:51:00Z")) || second.Fires != 2 {
		t.Errorf("equal minutes in their order: %+v", second)
	}
}

// heavy ticks each second, but for some seconds of days in other months.
func heavy(t *testing.T, every time.Duration, exclude string) *Timetable {
	t.Helper()
	s := Spec{Rules: []Rule{{Every: every}}}
	for i := range ExcludeLimit {
		s.Exclude = append(s.Exclude, fmt.Sprintf(exclude, i%28+1))
	}
	table, err := Compile(s, nightly, anchorOfSpecs)
	testkit.Must(t, err)
	return table
}

func TestForecast_TakesLittleForManyExclusions(t *testing.T) {
	t.Parallel()
	from := mustTime(t, "2026-11-21T23:50:30Z")
	table := heavy(t, time.Second, "0-58 * * %dW 1 *")
	f := NewForecast(from, 9*60) // to the next morning
	f.Add(nightly, table, from)
	if got, err := f.Forecast(t.Context()); err != nil || got.Total != 9*3600-30 {
		t.Errorf("%d ticks, %v", got.Total, err)
	}
	today := table.recent.Load() // which all ticks of a day share, so that each is compared with those few
	if today == nil || len(today.exclusions) > 0 || table.dayOffOf(today.day) != today {
		t.Errorf("the exclusions of the day are %+v", today)
	}
	if x := table.exclusionOf(mustTime(t, "2027-01-05T12:00:30Z")); x == nil || table.recent.Load() == today {
		t.Error("those of another day are the same")
	}
}

func TestForecast_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	from := mustTime(t, "2026-11-21T23:50:30Z")
	f := NewForecast(from, 168*60)
	f.Add(nightly, heavy(t, IntervalMin, "%d 59 23 * * *"), from) // takes seconds
	cause := errors.New("the client has gone")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, cause)
	defer cancel()
	if _, err := f.Forecast(ctx); !errors.Is(err, cause) {
		t.Errorf("the error is %v", err)
	}
	short := NewForecast(from, 10)
	short.Add(nightly, heavy(t, time.Second, "%d 59 23 * * *"), from)
	if _, err := short.Forecast(ctx); !errors.Is(err, cause) {
		t.Errorf("of a short one, the error is %v", err)
	}
}
