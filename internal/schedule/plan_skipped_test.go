package schedule

import (
	"strings"
	"testing"
	"time"
)

func TestPlan_FiresWhatTheClockOfRedisJumpedOver(t *testing.T) {
	t.Parallel()
	const after = 5 * time.Second // after the jump
	for name, c := range map[string]struct {
		from time.Duration // where the clock jumped, after noon
		over time.Duration
		m    Misfire
		want string
	}{
		"one tick":                     {30 * time.Second, time.Minute, Misfire{Policy: MisfireSkip}, "1m0s:fire"},
		"several":                      {30 * time.Second, 3 * time.Minute, Misfire{Policy: MisfireSkip}, "1m0s:fire 2m0s:fire+1s 3m0s:fire+2s"},
		"beyond the window":            {30 * time.Second, 3 * time.Minute, Misfire{Window: time.Second}, "1m0s:fire 2m0s:fire+1s 3m0s:fire+2s"},
		"more than run with all":       {30 * time.Second, 4 * time.Minute, Misfire{Policy: MisfireSkip, Max: 2}, "1m0s:miss 2m0s:miss 3m0s:fire 4m0s:fire+1s"},
		"more, and they run for all":   {30 * time.Second, 4 * time.Minute, Misfire{Max: 2}, "1m0s:miss 2m0s:miss 3m0s:fire 4m0s:fire+1s"},
		"a tick was due a moment ago":  {61 * time.Second, 2 * time.Minute, Misfire{Policy: MisfireSkip}, "1m0s:fire 2m0s:fire+1s 3m0s:fire"},
		"and one had been missed":      {100 * time.Second, time.Minute, Misfire{Policy: MisfireSkip}, "1m0s:miss 2m0s:fire"},
		"for which the later one runs": {100 * time.Second, time.Minute, Misfire{}, "1m0s:miss 2m0s:fire"},
		"which runs with all":          {100 * time.Second, time.Minute, Misfire{Policy: MisfireAll}, "1m0s:fire 2m0s:fire+1s"},
		"no tick":                      {61 * time.Second, 30 * time.Second, Misfire{Policy: MisfireSkip}, "1m0s:fire"},
		"a tick that is on time":       {30 * time.Second, 30 * time.Second, Misfire{Policy: MisfireSkip}, "1m0s:fire"},
		"a jump that ended before now": {-time.Hour, time.Hour, Misfire{Policy: MisfireSkip}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := agenda(t, c.from+c.over+after, c.m)
			skipped := Span{From: noon.Add(c.from), Until: noon.Add(c.from + c.over)}
			a.Skipped = []Span{skipped}
			p := MakePlan(a)
			if got := told(p); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			for _, d := range p.Decisions {
				jumped := strings.Contains(d.Reason, "the clock of Redis jumped ahead by "+c.over.String())
				late := a.Now.Sub(d.Tick) > OnTime && d.Tick.After(skipped.From)
				if jumped != late && d.Tick.After(skipped.From) {
					t.Errorf("the reason for %s is %q", d.Tick, d.Reason)
				}
			}
		})
	}
}

// Between two jumps, the ticks of the first one may not be looked at.
func TestPlan_FiresWhatTheClockOfRedisJumpedOverTwice(t *testing.T) {
	t.Parallel()
	a := agenda(t, 5*time.Minute+2*time.Second, Misfire{Policy: MisfireSkip})
	for _, from := range []time.Duration{55 * time.Second, 2*time.Minute + 57*time.Second} {
		a.Skipped = append(a.Skipped, Span{From: noon.Add(from), Until: noon.Add(from + 2*time.Minute)})
	}
	p := MakePlan(a)
	if got, want := told(p), "1m0s:fire 2m0s:fire+1s 3m0s:fire+2s 4m0s:fire+3s 5m0s:fire"; got != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
	for i, by := range map[int]string{0: "4m0s", 3: "2m0s"} {
		if want := "the clock of Redis jumped ahead by " + by; p.Decisions[i].Reason != want {
			t.Errorf("the reason for %s is %q, want %q", p.Decisions[i].Tick, p.Decisions[i].Reason, want)
		}
	}
}
