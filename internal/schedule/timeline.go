package schedule

import (
	"slices"
	"time"
)

// Period is the span in which one timetable decided about ticks.
type Period struct {
	Span  // Until zero: it still does
	Table *Timetable
}

// Timeline is the timetables of a schedule's revisions, oldest first. Their spans do not overlap.
type Timeline []Period

// NewTimeline is the timetables that decide about a schedule's ticks, one after the other. older are its earlier revisions, in
// any order; those that are forgotten leave their time to none, and those that are newer than s do not count.
func NewTimeline(s Schedule, older []Revision) (Timeline, error) {
	older = slices.DeleteFunc(slices.Clone(older), func(r Revision) bool { return r.Number >= s.Revision })
	slices.SortFunc(older, func(a, b Revision) int { return a.Number - b.Number })
	present := Revision{Span: Span{From: s.UpdatedAt, Until: s.EndedAt}, Definition: s.Definition}
	var timeline Timeline
	for _, r := range append(older, present) {
		table, err := Compile(r.Definition.Spec, s.Ref, s.CreatedAt)
		if err != nil {
			return nil, err
		}
		timeline = append(timeline, Period{Span: r.Span, Table: table})
	}
	return timeline, nil
}

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
	if p.Table == nil || p.endsBy(after) {
		return Tick{}, false
	}
	tick, ok := p.Table.Next(after)
	if !ok || p.endsBy(tick.At.Add(-1)) {
		return Tick{}, false
	}
	return tick, true
}

// endsBy says that nothing after that time belongs to the period.
func (p Period) endsBy(after time.Time) bool { return !p.Until.IsZero() && !after.Before(p.Until) }

// whyExcluded says which exclusion covers a tick.
func (l Timeline) whyExcluded(at time.Time) string {
	for _, p := range l {
		if at.After(p.From) && !p.endsBy(at.Add(-1)) {
			if x := p.Table.exclusionOf(at); x != nil {
				return "excluded by " + x.text
			}
		}
	}
	return ""
}
