package index

import (
	"context"
	"math"
	"slices"

	"github.com/dts-sched/dts/internal/task"
)

// Position is that of a row in a list.
type Position struct {
	Key int64 // by Order
	Ref task.Ref
}

// PositionOf returns the position of a row.
func (o Order) PositionOf(r Row) Position { return Position{o.key(r), r.Ref} }

// IsAfter reports whether a row comes after a position. A list from the beginning has none.
func (o Order) IsAfter(r Row, p *Position) bool {
	if p == nil {
		return true
	}
	if key := o.key(r); key != p.Key {
		return key < p.Key
	}
	return o.compareNames(r.Ref, p.Ref) > 0
}

// readsAtOnce is how many segments a search reads first, and it doubles from then on.
const readsAtOnce = 16

// Search returns the first n rows that match, after a position and in an order; all of them if n is 0. It returns all
// rows of the last task, so there can be more. It reads the segments that can have some of them, several at once.
// Errors: ErrUnreadable, and those of read.
func Search(
	ctx context.Context, segments []Summary, f Filter, o Order, after *Position, n int,
	read func(ctx context.Context, segments []Summary) ([][]byte, error),
) ([]Row, error) {
	segments = promising(segments, f, o, after)
	var found []Row
	for count := readsAtOnce; len(segments) > 0; count *= 2 {
		if n > 0 && len(found) >= n {
			worst := o.key(found[n-1])
			segments = slices.DeleteFunc(segments, func(s Summary) bool {
				first, _ := o.bounds(s)
				return first < worst
			})
		}
		some := segments[:min(count, len(segments))]
		segments = segments[len(some):]
		texts, err := read(ctx, some)
		if err != nil {
			return nil, err
		}
		for _, text := range texts {
			if found, err = collectRows(found, text, f, o, after, n); err != nil {
				return nil, err
			}
			found = o.Best(found, n)
		}
	}
	return found, nil
}

// CountRows counts the rows that match. Errors: ErrUnreadable, and those of read.
func CountRows(
	ctx context.Context, segments []Summary, f Filter,
	read func(ctx context.Context, segments []Summary) ([][]byte, error),
) (n int, _ error) {
	for some := range slices.Chunk(promising(segments, f, Order{}, nil), readsAtOnce) {
		texts, err := read(ctx, some)
		if err != nil {
			return 0, err
		}
		for _, text := range texts {
			for _, err := range Rows(text, f) {
				if err != nil {
					return 0, err
				}
				n++
			}
		}
	}
	return n, nil
}

// promising returns the segments that can have rows that match after a position: those first whose rows can come
// first.
func promising(segments []Summary, f Filter, o Order, after *Position) []Summary {
	var kept []Summary
	for _, s := range segments {
		if _, last := o.bounds(s); s.MayMatch(f) && (after == nil || last <= after.Key) {
			kept = append(kept, s)
		}
	}
	slices.SortStableFunc(kept, func(a, b Summary) int {
		first, _ := o.bounds(a)
		other, _ := o.bounds(b)
		switch {
		case first > other:
			return -1
		case first < other:
			return 1
		}
		return 0
	})
	return kept
}

// collectRows adds the rows of a segment that match. If n is not 0, it leaves out most of those that are not among
// the first n.
func collectRows(found []Row, segment []byte, f Filter, o Order, after *Position, n int) ([]Row, error) {
	worst := int64(math.MinInt64)
	if n > 0 && len(found) >= n {
		worst = o.key(found[n-1])
	}
	begin := len(found)
	for r, err := range Rows(segment, f) {
		if err != nil {
			return nil, err
		}
		if o.key(r) < worst {
			if o.By == StateTime && !o.Asc {
				break // segments have this order
			}
			continue
		}
		if o.IsAfter(r, after) {
			found = append(found, r)
		}
		if n > 0 && len(found)-begin >= 4*n { // so that a segment of which every row matches takes no more
			found = found[:begin+len(o.Best(found[begin:], n))]
			if len(found)-begin >= n {
				worst = max(worst, o.key(found[len(found)-1]))
			}
		}
	}
	return found, nil
}

// Best sorts rows, and returns the first n of them, each once. It returns more if the n-th task has several rows.
func (o Order) Best(rows []Row, n int) []Row {
	slices.SortFunc(rows, o.Compare)
	rows = slices.CompactFunc(rows, func(a, b Row) bool { return o.Compare(a, b) == 0 })
	if n == 0 || len(rows) <= n {
		return rows
	}
	last := o.PositionOf(rows[n-1])
	for n < len(rows) && o.PositionOf(rows[n]) == last {
		n++
	}
	return rows[:n]
}
