package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
)

// aForecast is an hour from 15:04 on, of minutes with that many ticks.
func aForecast(ticks func(minute int) int) client.Forecast {
	f := client.Forecast{From: now.Truncate(time.Minute), Schedules: 2, Hottest: []client.HotMinute{}}
	for i := range 60 {
		f.PerMinute = append(f.PerMinute, ticks(i))
		f.Total += f.PerMinute[i]
	}
	return f
}

func TestForecastIsDrawn(t *testing.T) {
	s := startStub(t)
	f := aForecast(func(minute int) int {
		switch {
		case minute == 26:
			return 80
		case minute%30 < 15:
			return 1
		}
		return 0
	})
	f.Hottest = []client.HotMinute{{Minute: f.From.Add(26 * time.Minute), Fires: 80, Schedules: []client.HotSchedule{
		{ID: "a", Namespace: "default", Fires: 60}, {ID: "b", Namespace: "other", Fires: 5},
	}}}
	s.on("GET /v1/forecast", 200, f)
	got := s.terminal().run(t, "schedule", "forecast", "--hours", "1")
	got.expect(t, 0, strings.Join([]string{
		"Ticks a minute in the next 1 hour",
		"",
		"80 │                          █",
		"   │                          █",
		"   │                          █",
		"   │                          █",
		"   │                          █",
		"   │                          █",
		"   │                          █",
		"   │▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁           █   ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁",
		" 0 └──────┬─────────┬─────────┬─────────┬─────────┬─────────┬───",
		"          16:10     16:20     16:30     16:40     16:50     17:00",
		"",
		"110 ticks of 2 schedules, 1.83 a minute on average. The fullest minutes:",
		"",
		"MINUTE                IN             TICKS  SCHEDULES",
		"2026-01-02 15:30:00Z  in 26 minutes  80     a 60, other/b 5, others 15",
		"",
		"The fullest minute has 43.6 times the ticks of an average one. Schedules that need no exact time are spread by an H in",
		"their cron expression ('H * * * *' is once an hour, at a minute of the schedule's own), or by --jitter.",
		"",
	}, "\n"), "")
	if got := s.last().line; got != "GET /v1/forecast?hours=1" {
		t.Error(got)
	}
}

func TestForecastOfNothing(t *testing.T) {
	s := startStub(t)
	s.on("GET /v1/forecast", 200, aForecast(func(int) int { return 0 }))
	s.terminal().run(t, "schedule", "forecast").expect(t, 0, "No tick of 2 schedules in the next 1 hour.\n", "")
}

func TestForecastInAPipe(t *testing.T) {
	s := startStub(t)
	f := aForecast(func(minute int) int { return minute % 2 })
	s.on("GET /v1/forecast", 200, f)
	got := s.pipe().run(t, "schedule", "forecast", "--all-namespaces")
	if want := "2026-01-02T15:04:00.000Z\t0\n2026-01-02T15:05:00.000Z\t1\n"; got.code != 0 || !strings.HasPrefix(got.out, want) || strings.Count(got.out, "\n") != 60 {
		t.Errorf("got %d\n%s", got.code, got.out)
	}
	if got := s.last().line; got != "GET /v1/forecast?namespace=%2A" {
		t.Error(got)
	}
	s.pipe().run(t, "schedule", "forecast", "-n", "*", "-o", "json").expect(t, 0, jsonOf(t, f)+"\n", "")
	if got := s.last().line; got != "GET /v1/forecast?namespace=%2A" {
		t.Error(got)
	}
}

func TestForecastAdvisesOnlyAgainstHerds(t *testing.T) {
	several := []client.HotSchedule{{ID: "a", Namespace: "default", Fires: 6}, {ID: "b", Namespace: "default", Fires: 4}}
	for name, c := range map[string]struct {
		hot, else_ int
		makers     []client.HotSchedule
		advised    bool
	}{
		"many at once of several schedules": {40, 1, several, true},
		"many at once of a single one":      {40, 1, several[:1], false},
		"about as many as ever":             {40, 30, several, false},
		"few":                               {9, 0, several, false},
	} {
		s := startStub(t)
		f := aForecast(func(minute int) int {
			if minute == 0 {
				return c.hot
			}
			return c.else_
		})
		f.Hottest = []client.HotMinute{{Minute: f.From, Fires: c.hot, Schedules: c.makers}}
		s.on("GET /v1/forecast", 200, f)
		if got := s.terminal().run(t, "schedule", "forecast"); strings.Contains(got.out, "--jitter") != c.advised {
			t.Errorf("%s:\n%s", name, got.out)
		}
	}
}

func TestAChartFitsItsWidth(t *testing.T) {
	for _, minutes := range []int{60, 24 * 60, 168 * 60} {
		for _, width := range []int{20, 40, 79, 80, 81, 120, 200} {
			for _, minuteOfDay := range []int{0, 1, 59, 901, 1439} {
				c := chart{from: time.Date(2026, 1, 2, 0, minuteOfDay, 0, 0, time.UTC), values: make([]int, minutes), width: width}
				c.values[minutes-1] = 1234
				bars := c.bars()
				if wide := len(bars) + c.margin(); wide > width && c.perBar() <= 360 {
					t.Errorf("%d minutes from minute %d on %d characters: %d", minutes, minuteOfDay, width, wide)
				}
				if bars[len(bars)-1] != 1234 {
					t.Errorf("the last bar is %d", bars[len(bars)-1])
				}
			}
		}
	}
}

func TestAChartShowsWhatIsNotNothing(t *testing.T) {
	for _, c := range []struct {
		value, peak int
		want        string // from below
	}{{0, 100, "        "}, {1, 100000, "▁       "}, {100, 100, "████████"}, {50, 100, "████    "}, {9, 128, "▄       "}} {
		var got strings.Builder
		for row := range chartRows {
			got.WriteRune(block(c.value, c.peak, row))
		}
		if got.String() != c.want {
			t.Errorf("%d of %d is %q, want %q", c.value, c.peak, got.String(), c.want)
		}
	}
}
