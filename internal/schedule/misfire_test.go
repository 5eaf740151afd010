package schedule

import (
	"testing"
	"time"
)

func TestMisfire_AfterPauseNamesThePolicyThatApplies(t *testing.T) {
	for want, misfire := range map[string]Misfire{
		"None of the ticks of the pause runs (misfire policy skip).":                                                                   {Policy: MisfireSkip},
		"Of the ticks of the pause, the newest one runs, if it is of the last 1h (misfire policy once).":                               {},
		"Of the ticks of the pause, the newest one runs, if it is of the last 6h30m (misfire policy once).":                            {Window: 6*time.Hour + 30*time.Minute},
		"Of the ticks of the pause, the newest one runs, if it is of the last 1m30s (misfire policy once).":                            {Window: 90 * time.Second},
		"Of the ticks of the pause, those of the last 10m run, at most 7, 1s apart and as their overlap allows (misfire policy all).":  {Policy: MisfireAll, Window: 10 * time.Minute, Max: 7},
		"Of the ticks of the pause, those of the last 1h run, at most 100, 1s apart and as their overlap allows (misfire policy all).": {Policy: MisfireAll},
	} {
		if got := misfire.AfterPause(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
