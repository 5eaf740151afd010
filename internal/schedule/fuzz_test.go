package schedule

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// Whatever is asked for: no panic, a refusal that names a field, or ticks that only go up, and are the same wherever
// one begins to ask.
func FuzzCompile(f *testing.F) {
	for i, text := range []string{
		"* * * * *", "0 0 29 2 *", "H H(1-4) * * H", "0 0 LW,15W * 5#2", "*/7 1-59/9 */5 L-3 */2 7L 2020-2099/3",
		"@daily", "TZ=", "CRON_TZ=x", "@every 1s", ", * * * *", "0 0 31W 2 *", "* * * * * * 1970", "H/60 * * * *",
		"0 0 1-7 * 5-7/2", "0 2 * * *", "99999999999 * * * *",
	} {
		f.Add(text, int64(0), "2026-12-24/2027-01-02", uint(i*40), int64(1_790_000_000+i*86_400), int64(i*1000), uint8(i))
		f.Add("", int64(i*77_000_000), text, uint(i*37), int64(-4_000_000_000), int64(-i), uint8(i))
	}
	zones := strings.Fields("UTC America/New_York Australia/Lord_Howe Pacific/Apia Pacific/Kwajalein Africa/Casablanca " +
		"Antarctica/Troll Europe/Dublin America/Nuuk Africa/Monrovia Asia/Manila America/Juneau")
	f.Fuzz(func(t *testing.T, text string, every int64, exclude string, zone uint, after, span int64, flags uint8) {
		s := Spec{Timezone: zones[zone%uint(len(zones))]}
		if text != "" {
			s.Rules = append(s.Rules, Rule{Cron: text})
		}
		if every != 0 {
			s.Rules = append(s.Rules, Rule{Every: time.Duration(every)})
		}
		if exclude != "" {
			s.Exclude = []string{exclude}
		}
		if flags&1 != 0 {
			s.StartAt = time.Unix(after, span)
		}
		if flags&2 != 0 {
			s.EndAt = time.Unix(after, 0).Add(time.Duration(span))
		}
		table, err := Compile(s, task.Ref{Namespace: "default", ID: "fuzz"}, time.Unix(span, 0))
		if err != nil {
			var refused *task.Error
			if !errors.As(err, &refused) || refused.Field == "" || refused.Message == "" {
				t.Fatalf("%+v: %v", s, err)
			}
			return
		}
		checkTicks(t, table, time.Unix(after, span))
	})
}

// checkTicks walks some ticks and asks for each again from just before it.
func checkTicks(t *testing.T, table *Timetable, after time.Time) {
	t.Helper()
	for begin, n := after, 0; n < 5; n++ {
		tick, ok := table.Next(after)
		if !ok {
			return
		}
		if !tick.At.After(after) || tick.At.Nanosecond()%1e6 != 0 {
			t.Fatalf("the tick after %s is %s", after, tick.At)
		}
		for _, from := range []time.Time{tick.At.Add(-1), after.Add(tick.At.Sub(after) / 2)} {
			if again, ok := table.Next(from); !ok || again != tick {
				t.Fatalf("the tick after %s is %v, but after %s it is %v, %t", after, tick, from, again, ok)
			}
		}
		if tick.At.Sub(begin) < 0 {
			t.Fatalf("%s is before %s", tick.At, begin)
		}
		after = tick.At
	}
	table.NextTicks(after, 2)
	_ = table.Fires(after)
}
