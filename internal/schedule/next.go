package schedule

import (
	"slices"
	"time"
)

// nextLimit is how many excluded ticks are passed over in search of one that runs.
const nextLimit = 10_000

// NextTick is the next tick that will run; false if there is none, while the schedule is paused, and where more than
// 10,000 excluded ones come first.
func (s Schedule) NextTick() (time.Time, bool) {
	if !s.PausedAt.IsZero() || !s.EndedAt.IsZero() {
		return time.Time{}, false
	}
	table, err := Compile(s.Spec, s.Ref, s.CreatedAt)
	if err != nil {
		return time.Time{}, false
	}
	after := s.Cursor
	if s.UpdatedAt.After(after) {
		after = s.UpdatedAt
	}
	if s.Rest.Until.After(after) { // those of the pause are misfires
		after = s.Rest.Until
	}
	for range nextLimit {
		tick, ok := table.Next(after)
		if !ok || !tick.Excluded {
			return tick.At, ok
		}
		after = tick.At
	}
	return time.Time{}, false
}

// Line is the timetables that decide about a schedule's ticks, one after the other. older are its earlier revisions, in
// any order; those that are forgotten leave their time to none, and those that are newer than s do not count.
func Line(s Schedule, older []Revision) (Timeline, error) {
	older = slices.DeleteFunc(slices.Clone(older), func(r Revision) bool { return r.Number >= s.Revision })
	slices.SortFunc(older, func(a, b Revision) int { return a.Number - b.Number })
	present := Revision{Span: Span{From: s.UpdatedAt, Until: s.EndedAt}, Definition: s.Definition}
	var line Timeline
	for _, r := range append(older, present) {
		table, err := Compile(r.Definition.Spec, s.Ref, s.CreatedAt)
		if err != nil {
			return nil, err
		}
		line = append(line, Period{Span: r.Span, Table: table})
	}
	return line, nil
}
