package schedule

import "time"

// Period is the span in which one timetable decided about ticks.
type Period struct {
	Span  // Until zero: it still does
	Table *Timetable
}

// Timeline is the timetables of a schedule's revisions, oldest first. Their spans do not overlap.
type Timeline []Period

// Next is the first tick after that time; false if there is none any more.
func (l Timeline) Next(after time.Time) (Tick, bool) {
	for _, p := range l {
		if tick, ok := p.next(after); ok {
			return tick, true
		}
	}
	return Tick{}, false
}

// Ticks lists the ticks after one time up to and including another, at most limit of them; more says that
// this left some out.
func (l Timeline) Ticks(after, until time.Time, limit int) (ticks []Tick, more bool) {
	for {
		tick, ok := l.Next(after)
		if !ok || tick.At.After(until) {
			return ticks, false
		}
		if len(ticks) >= limit {
			return ticks, true
		}
		ticks = append(ticks, tick)
		after = tick.At
	}
}

func (p Period) next(after time.Time) (Tick, bool) {
	if after.Before(p.From) {
		after = p.From
	}
	if p.Table == nil || p.over(after) {
		return Tick{}, false
	}
	tick, ok := p.Table.Next(after)
	if !ok || p.over(tick.At.Add(-1)) {
		return Tick{}, false
	}
	return tick, true
}

// over says that nothing after that time belongs to the period.
func (p Period) over(after time.Time) bool { return !p.Until.IsZero() && !after.Before(p.Until) }

// whyExcluded says which exclusion covers a tick.
func (l Timeline) whyExcluded(at time.Time) string {
	for _, p := range l {
		if at.After(p.From) && !p.over(at.Add(-1)) {
			if x := p.Table.exclusionOf(at); x != nil {
				return "excluded by " + x.text
			}
		}
	}
	return ""
}
