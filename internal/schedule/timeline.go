package schedule

import (
	"fmt"
	"slices"
	"time"
)

// Period is a span and the timetable that defines the ticks in it.
type Period struct {
	Span     // zero Until: without end
	Table    *Timetable
	Revision int // the number of the revision; 0: not known
}

// Timeline holds the timetables of the revisions of a schedule, oldest first. Their spans do not overlap.
type Timeline []Period

// NewTimeline builds the timeline of a schedule from its earlier revisions, in any order, and its current one. Revisions
// that are not earlier than the current one are ignored. The span of an earlier revision that is missing has no ticks, and
// is one of Holes. It returns an error if a definition does not compile.
func NewTimeline(s Schedule, earlier []Revision) (Timeline, error) {
	earlier = slices.DeleteFunc(slices.Clone(earlier), func(r Revision) bool { return r.Number >= s.Revision })
	slices.SortFunc(earlier, func(a, b Revision) int { return a.Number - b.Number })
	current := Revision{Number: s.Revision, Span: Span{From: s.UpdatedAt, Until: s.EndedAt}, Definition: s.Definition}
	var timeline Timeline
	for _, r := range append(earlier, current) {
		table, err := Compile(r.Definition.Spec, s.Ref, s.CreatedAt)
		if err != nil {
			return nil, err
		}
		timeline = append(timeline, Period{Span: r.Span, Table: table, Revision: r.Number})
	}
	return timeline, nil
}

// Hole is the time of revisions that are missing: they cannot be read, were put aside or are forgotten. Nobody knows which
// ticks they had.
type Hole struct {
	Span            // zero From: since the schedule was created
	First, Last int // the numbers of the revisions
}

// String names the revisions of a hole, and until when they defined the ticks.
func (h Hole) String() string {
	revisions := fmt.Sprintf("revision %d is", h.First)
	if h.Last > h.First {
		revisions = fmt.Sprintf("revisions %d to %d are", h.First, h.Last)
	}
	until := h.Until.UTC().Format(time.RFC3339)
	return fmt.Sprintf("%s missing or cannot be read: nobody knows which ticks there were up to %s", revisions, until)
}

// Holes returns the holes of a timeline, oldest first. Revisions have consecutive numbers from 1, so a number that is left
// out shows a hole.
func (l Timeline) Holes() (holes []Hole) {
	before := Period{}
	for _, p := range l {
		if p.Revision > before.Revision+1 {
			holes = append(holes, Hole{Span{before.Until, p.From}, before.Revision + 1, p.Revision - 1})
		}
		before = p
	}
	return holes
}

// Next returns the first tick after the given time, excluded or not. It returns false if none follows.
func (l Timeline) Next(after time.Time) (Tick, bool) {
	for _, p := range l {
		if tick, ok := p.next(after); ok {
			return tick, true
		}
	}
	return Tick{}, false
}

// Ticks returns the ticks after the time after, up to and including until: the first limit of them. more is true if there
// are others.
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

// next returns the first tick of the period after the given time. It returns false if none follows.
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

// endsBy reports whether the period contains no time after the given one.
func (p Period) endsBy(after time.Time) bool { return !p.Until.IsZero() && !after.Before(p.Until) }

// whyExcluded returns the reason for the ledger: the exclusion that contains a tick. It returns "" if none does.
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
