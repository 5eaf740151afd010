package schedule

import (
	"fmt"
	"strings"
	"time"
)

// AfterPause says in a sentence what becomes of the ticks of a pause once the schedule is resumed. MakePlan decides by the
// same policy.
func (m Misfire) AfterPause() string {
	m = m.WithDefaults()
	switch m.Policy {
	case MisfireSkip:
		return "None of the ticks of the pause runs (misfire policy skip)."
	case MisfireAll:
		return fmt.Sprintf("Of the ticks of the pause, those of the last %s run, at most %d, %s apart and as their overlap allows (misfire policy all).",
			inWords(m.Window), m.Max, inWords(CatchUpPace))
	}
	return fmt.Sprintf("Of the ticks of the pause, the newest one runs, if it is of the last %s (misfire policy once).", inWords(m.Window))
}

// inWords writes 6h0m0s as 6h.
func inWords(d time.Duration) string {
	text := strings.TrimSuffix(d.String(), "m0s")
	if text != d.String() {
		text = strings.TrimSuffix(text+"m", "h0m")
	}
	if text != d.String() && !strings.HasSuffix(text, "m") {
		text += "h"
	}
	return text
}
