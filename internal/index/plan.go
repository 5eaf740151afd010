package index

import (
	"cmp"
	"slices"
)

// When segments are written anew.
const (
	smallRows  = SegmentRows / 4 // a segment with fewer rows is small
	smallLimit = 8               // small segments of one kind that there may be
	depthLimit = 8               // larger segments of one kind that may have rows of the same time
	togetherN  = 16              // segments that are written anew together
	sparedRows = SegmentRows     // rows of tasks that are gone of which one kind may have as many as of others, and these
)

// Live is how many tasks wait, and how many have ended and are kept.
type Live struct{ Waiting, Ended int }

// Plan returns segments that are to be written anew together, and whether to leave out the rows of tasks that are gone
// or have changed. There are none if the index is good as it is. It joins small segments, sorts those into each other
// that have rows of the same times, and comes to each segment in turn while too many rows are out of date.
func Plan(segments []Summary, live Live) (rewrite []Summary, checks bool) {
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
			return oldest(append(small, large...)), true
		}
		if len(small) > smallLimit {
			return oldest(small), false
		}
		if deepest := deepest(large); len(deepest) > depthLimit {
			return oldest(deepest), false
		}
	}
	return nil, false
}

// oldest returns the segments with the smallest numbers, as many as are written anew together.
func oldest(segments []Summary) []Summary {
	slices.SortFunc(segments, func(a, b Summary) int { return cmp.Compare(a.Number, b.Number) })
	return segments[:min(len(segments), togetherN)]
}

// times are those of the first and of the last row, as segments are sorted.
func (s Summary) times() Range {
	if s.Waits {
		return Range{s.Due.From, s.Due.Until - 1}
	}
	return Range{s.Ended.From, s.Ended.Until - 1}
}

// deepest returns the segments that have rows before and after the same time, for the time of which there are most.
// Segments into which sorted rows are cut have none in common.
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
