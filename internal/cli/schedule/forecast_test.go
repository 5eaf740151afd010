package schedule_test

import (
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/clitest"
)

// aForecast is an hour from 15:04 on, of minutes with that many ticks.
func aForecast(ticks func(minute int) int) wire.Forecast {
	f := wire.Forecast{From: wire.At(clitest.Now.Truncate(time.Minute)), Schedules: 2, Hottest: []wire.HotMinute{}}
	for i := range 60 {
		f.PerMinute = append(f.PerMinute, ticks(i))
		f.Total += f.PerMinute[i]
	}
	return f
}

func TestForecast_DrawsAChart(t *testing.T) {
	s := clitest.Start(t)
	f := aForecast(func(minute int) int {
		switch {
		case minute == 26:
			return 80
		case minute%30 < 15:
			return 1
		}
		return 0
	})
	f.Hottest = []wire.HotMinute{{Minute: wire.At(f.From.Add(26 * time.Minute)), Fires: 80, Schedules: []wire.HotSchedule{
		{ID: "a", Namespace: "default", Fires: 60}, {ID: "b", Namespace: "other", Fires: 5},
	}}}
	s.On("GET /v1/forecast", 200, f)
	got := s.Terminal().Run(t, "schedule", "forecast", "--hours", "1")
	got.Expect(t, 0, strings.Join([]string{
		"Ticks per minute in the next 1 hour",
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
		"110 ticks of 2 schedules, 1.83 per minute on average. The fullest minutes:",
		"",
		"MINUTE                IN             TICKS  SCHEDULES",
		"2026-01-02 15:30:00Z  in 26 minutes  80     a 60, other/b 5, others 15",
		"",
		"The fullest minute has 43.6 times the ticks of an average one. To spread schedules that need no exact time, write an H in",
		"their cron expression ('H * * * *' is once an hour, at a minute of the schedule's own), or give them --jitter.",
		"",
	}, "\n"), "")
	if got := s.Last().Line; got != "GET /v1/forecast?hours=1" {
		t.Error(got)
	}
}

func TestForecast_TellsThatThereAreNoTicks(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/forecast", 200, aForecast(func(int) int { return 0 }))
	s.Terminal().Run(t, "schedule", "forecast").Expect(t, 0, "No tick of 2 schedules in the next 1 hour.\n", "")
}

func TestForecast_SaysWhatComesSoon(t *testing.T) {
	for want, delayed := range map[string][]int{
		"In the next 15 minutes: 7 ticks and 3 delayed tasks.\n":         append([]int{1, 2}, make([]int, 58)...),
		"In the next 15 minutes: 7 ticks and at least 1 delayed task.\n": {1},
	} {
		s := clitest.Start(t)
		f := aForecast(func(minute int) int { return minute % 2 })
		f.DelayedPerMinute = delayed
		s.On("GET /v1/forecast", 200, f)
		if got := s.Terminal().Run(t, "schedule", "forecast"); got.Code != 0 || !strings.HasPrefix(got.Out, want) {
			t.Errorf("got %d\n%s", got.Code, got.Out)
		}
	}
}

func TestForecast_PrintsAMinutePerLineInAPipe(t *testing.T) {
	s := clitest.Start(t)
	f := aForecast(func(minute int) int { return minute % 2 })
	f.DelayedPerMinute = []int{7}
	s.On("GET /v1/forecast", 200, f)
	got := s.Pipe().Run(t, "schedule", "forecast", "--all-namespaces")
	if want := "2026-01-02T15:04:00.000Z\t0\t7\n2026-01-02T15:05:00.000Z\t1\t\n"; got.Code != 0 || !strings.HasPrefix(got.Out, want) || strings.Count(got.Out, "\n") != 60 {
		t.Errorf("got %d\n%s", got.Code, got.Out)
	}
	if got := s.Last().Line; got != "GET /v1/forecast?namespace=%2A" {
		t.Error(got)
	}
	s.Pipe().Run(t, "schedule", "forecast", "-n", "*", "-o", "json").Expect(t, 0, clitest.JSON(t, f)+"\n", "")
	if got := s.Last().Line; got != "GET /v1/forecast?namespace=%2A" {
		t.Error(got)
	}
}

func TestForecast_ListsWhatComes(t *testing.T) {
	s := clitest.Start(t)
	f := aForecast(func(int) int { return 0 })
	f.Coming = []wire.Coming{
		{At: wire.At(clitest.Now.Add(time.Minute)), Namespace: "shop", Schedule: new("a"), Ticks: new(3)},
		{At: wire.At(clitest.Now.Add(2 * time.Minute)), Namespace: "default", Task: new("t")},
	}
	f.ComingLeftOut = new(7)
	s.On("GET /v1/forecast", 200, f)
	args := []string{"schedule", "forecast", "-A", "--within", "15m"}
	s.Pipe().Run(t, args...).Expect(t, 0,
		"2026-01-02T15:05:05.000Z\tschedule\tshop\ta\t3\n2026-01-02T15:06:05.000Z\ttask\tdefault\tt\t\n", "7 more come\n")
	if got := s.Last().Line; got != "GET /v1/forecast?namespace=%2A&within=15m0s" {
		t.Error(got)
	}
	s.Terminal().Run(t, args...).Expect(t, 0,
		"AT                    IN            WHAT      NAMESPACE  ID  TICKS\n"+
			"2026-01-02 15:05:05Z  in 1 minute   schedule  shop       a   3\n"+
			"2026-01-02 15:06:05Z  in 2 minutes  task      default    t\n", "7 more come\n")
	if got := s.Pipe().Run(t, append(args, "--hours", "2")...); got.Code != 2 {
		t.Errorf("with --hours, too: exit code %d", got.Code)
	}
}

func TestForecast_AdvisesOnlyAgainstCrowds(t *testing.T) {
	several := []wire.HotSchedule{{ID: "a", Namespace: "default", Fires: 6}, {ID: "b", Namespace: "default", Fires: 4}}
	for name, c := range map[string]struct {
		hot, else_ int
		makers     []wire.HotSchedule
		advised    bool
	}{
		"many at once of several schedules": {40, 1, several, true},
		"many at once of a single one":      {40, 1, several[:1], false},
		"about as many as ever":             {40, 30, several, false},
		"few":                               {9, 0, several, false},
	} {
		s := clitest.Start(t)
		f := aForecast(func(minute int) int {
			if minute == 0 {
				return c.hot
			}
			return c.else_
		})
		f.Hottest = []wire.HotMinute{{Minute: f.From, Fires: c.hot, Schedules: c.makers}}
		s.On("GET /v1/forecast", 200, f)
		if got := s.Terminal().Run(t, "schedule", "forecast"); strings.Contains(got.Out, "--jitter") != c.advised {
			t.Errorf("%s:\n%s", name, got.Out)
		}
	}
}
