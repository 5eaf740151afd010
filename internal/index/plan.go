package index

import (
	"cmp"
	"math"
	"slices"
)

// RewrittenTogether is how many segments are written anew together.
const RewrittenTogether = 16

// When segments are written anew.
const (
	smallRows  = SegmentRows / 4 // a segment with fewer rows is small
	smallLimit = 8               // small segments of one kind that there may be
	depthLimit = 8               // larger segments of one kind that may have rows of the same time
	sparedRows = SegmentRows     // how many rows one kind may have beyond two for each task

	overdueRows = SegmentRows / 2 // rows of tasks that were due and were not checked since
)

// Live is how many tasks wait, and how many have ended and are kept.
type Live struct{ Waiting, Ended int }

// Rewrite says which segments are to be written anew together; none if the index is good as it is.
type Rewrite struct {
	Segments []Summary
	// Before, if it is set, has rows left out of tasks that are gone or have changed: rows of tasks that have ended, or
	// are due before this time in ms.
	Before int64
}

// Plan says what makes the index better. It joins small segments, sorts those into each other that have rows of the
// same times, and checks rows: of tasks that were due, and all in turn while too many are out of date.
func Plan(segments []Summary, live Live, now int64) Rewrite {
	for _, waits := range []bool{true, false} {
		var small, large []Summary
		rows := 0
		for _, s := range segments {
			switch {
			case s.Waits != waits:
				continue
			case s.Rows < smallRows:
				small = append(small, s)
			default:
				large = append(large, s)
			}
			rows += s.Rows
		}
		tasks := live.Ended
		if waits {
			tasks = live.Waiting
		}
		if rows > 2*tasks+sparedRows {
			return Rewrite{oldest(append(small, large...)), math.MaxInt64}
		}
		if overdue := overdue(append(small, large...), now); len(overdue) > 0 {
			return Rewrite{overdue, now}
		}
		if len(small) > smallLimit {
			return Rewrite{Segments: oldest(small)}
		}
		if deepest := deepest(large); len(deepest) > depthLimit {
			return Rewrite{Segments: oldest(deepest)}
		}
	}
	return Rewrite{}
}

// overdue returns those segments with the most rows of tasks that were due, if there are enough of these rows.
func overdue(segments []Summary, now int64) []Summary {
	rows := 0
	var found []Summary
	for _, s := range segments {
		if n := s.overdue(now); n > 0 {
			rows += n
			found = append(found, s)
		}
	}
	if rows < overdueRows {
		return nil
	}
	slices.SortFunc(found, func(a, b Summary) int {
		return cmp.Or(cmp.Compare(b.overdue(now), a.overdue(now)), cmp.Compare(a.Number, b.Number))
	})
	return found[:min(len(found), RewrittenTogether)]
}

// Scattered reports whether there are more than twice as many segments as Plan leaves: nobody follows it.
func Scattered(segments []Summary) bool {
	rows := 0
	for _, s := range segments {
		rows += s.Rows
	}
	return len(segments) > 2*(2*smallLimit+rows/smallRows)
}

// oldest returns the segments with the smallest numbers, as many as are written anew together.
func oldest(segments []Summary) []Summary {
	slices.SortFunc(segments, func(a, b Summary) int { return cmp.Compare(a.Number, b.Number) })
	return segments[:min(len(segments), RewrittenTogether)]
}

// times are those of the first and of the last row, as segments are sorted.
func (s Summary) times() Range {
	t := s.stateTimes()
	return Range{t.From, t.Until - 1}
}

// deepest returns the segments that have rows before and after one time: the time at which there are most such
// segments. Segments that were cut from sorted rows have no such time in common.
func deepest(segments []Summary) []Summary {
	type edge struct {
		at    int64
		opens bool
	}
	var edges []edge
	for _, s := range segments {
		if t := s.times(); t.From < t.Until {
			edges = append(edges, edge{t.From, true}, edge{t.Until, false})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int {
		switch {
		case a.at != b.at:
			return cmp.Compare(a.at, b.at)
		case a.opens == b.opens:
			return 0
		case b.opens: // what ends at that time has nothing in common with what begins there
			return -1
		}
		return 1
	})
	depth, most, at := 0, 0, int64(0)
	for _, e := range edges {
		if !e.opens {
			depth--
			continue
		}
		if depth++; depth > most {
			most, at = depth, e.at
		}
	}
	var found []Summary
	for _, s := range segments {
		if t := s.times(); t.From <= at && at < t.Until {
			found = append(found, s)
		}
	}
	return found
}
