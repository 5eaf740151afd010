package index

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
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

// How many blocks a search reads first, doubled from then on, and at most at once.
const (
	readsAtOnce = 16
	readsMost   = 256 // 3 MB
)

// Search returns the first n rows that match, after a position and in an order; all of them if n is 0. It returns all
// rows of the last task, so there can be more. It reads the blocks that can have some of them, several at once.
// Errors: ErrUnreadable, and those of read.
func Search(
	ctx context.Context, segments []Summary, f Filter, o Order, after *Position, n int,
	read func(ctx context.Context, some []Block) ([][]byte, error),
) ([]Row, error) {
	rest := promising(segments, f, o, after)
	var found []Row
	sorted, worst := 0, int64(math.MinInt64) // so many rows are sorted, and the key of the n-th of them
	for count := readsAtOnce; len(rest) > 0; count = min(2*count, readsMost) {
		some := rest[:min(count, len(rest))]
		rest = rest[len(some):]
		texts, err := read(ctx, some)
		if err != nil {
			return nil, err
		}
		for i, text := range texts {
			if found, err = collectRows(found, some[i].Segment.Number, text, f, o, after, n, worst); err != nil {
				return nil, err
			}
			if n > 0 && len(found)-sorted >= n {
				found = o.Best(found, n)
				if sorted = len(found); sorted >= n {
					worst = o.key(found[n-1])
				}
			}
		}
		if found = o.Best(found, n); n > 0 && len(found) >= n {
			worst = o.key(found[n-1])
			rest = slices.DeleteFunc(rest, func(b Block) bool { return b.first < worst })
		}
		sorted = len(found)
	}
	return found, nil
}

// SomeOfEach returns rows that match, for each of some filters: all of them, if these are fewer than n, or else n or
// more of them, those with the latest times first. It reads blocks for all filters at once. Errors: ErrUnreadable, and
// those of read.
func SomeOfEach(
	ctx context.Context, segments []Summary, filters []Filter, n int,
	read func(ctx context.Context, some []Block) ([][]byte, error),
) ([][]Row, error) {
	rest, found, enough := make([][]Block, len(filters)), make([][]Row, len(filters)), make([]bool, len(filters))
	for i, f := range filters {
		rest[i] = promising(segments, f, Order{}, nil)
	}
	for count := readsAtOnce; ; count = min(2*count, readsMost) {
		var some []Block
		var of []int // the filters for which these are read
		for i, f := range filters {
			if !enough[i] {
				next := rest[i][:min(count, len(rest[i]))]
				if count == readsAtOnce {
					next = likely(next, f, n)
				}
				rest[i] = rest[i][len(next):]
				some, of = append(some, next...), append(of, slices.Repeat([]int{i}, len(next))...)
			}
		}
		if len(some) == 0 {
			return found, nil
		}
		texts, err := read(ctx, some)
		if err != nil {
			return nil, err
		}
		for k, text := range texts {
			i := of[k]
			if enough[i] {
				continue
			}
			rows, err := collectRows(found[i], some[k].Segment.Number, text, filters[i], Order{}, nil, n, math.MinInt64)
			if err != nil {
				return nil, err
			}
			if found[i] = rows; len(rows) >= n {
				found[i] = Order{}.Best(rows, 0) // each once
				enough[i] = len(found[i]) >= n
			}
		}
	}
}

// likely are so many of some blocks that they have likely n rows that match, if there are about as many of each group.
func likely(some []Block, f Filter, n int) []Block {
	expected := 0.0
	for i, b := range some {
		s := b.Segment
		expected += s.share(f) * float64(s.Rows) / float64(len(s.Blocks))
		if expected > 1.2*float64(n) {
			return some[:i+1]
		}
	}
	return some
}

// CountRows counts the rows that match, and draws n of them at random. Of a block that is gone, and which read returns
// as nil, all rows count. Errors: ErrUnreadable, and those of read.
func CountRows(
	ctx context.Context, segments []Summary, f Filter, n int,
	read func(ctx context.Context, some []Block) ([][]byte, error),
) (count int, drawn []Row, _ error) {
	for some := range slices.Chunk(promising(segments, f, Order{}, nil), readsMost) {
		texts, err := read(ctx, some)
		if err != nil {
			return 0, nil, err
		}
		for i, text := range texts {
			if text == nil {
				count += some[i].Segment.Rows / len(some[i].Segment.Blocks)
				continue
			}
			for r, err := range Rows(text, f) {
				if err != nil {
					return 0, nil, err
				}
				count++
				if len(drawn) < n {
					drawn = append(drawn, r)
				} else if place := rand.IntN(count); place < n {
					drawn[place] = r
				}
			}
		}
	}
	return count, drawn, nil
}

// promising returns the blocks that can have rows that match after a position: those first whose rows can come first.
func promising(segments []Summary, f Filter, o Order, after *Position) (kept []Block) {
	for i := range segments {
		s := &segments[i]
		if !s.MayMatch(f) {
			continue
		}
		for place := range s.Blocks {
			t := s.timesOf(place)
			first, last := o.bounds(&t, s.Waits)
			if t.mayMatch(f, s.Waits) && (after == nil || last <= after.Key) {
				kept = append(kept, Block{s, place, first, last})
			}
		}
	}
	slices.SortFunc(kept, func(a, b Block) int {
		return cmp.Or(cmp.Compare(b.first, a.first), cmp.Compare(a.Segment.Number, b.Segment.Number), a.Place-b.Place)
	})
	return kept
}

// collectRows adds the rows of a block that match, but not those with keys below worst. If n is not 0, it leaves out
// most of those that are not among the first n.
func collectRows(
	found []Row, segment int, block []byte, f Filter, o Order, after *Position, n int, worst int64,
) ([]Row, error) {
	begin, most := len(found), 4*n
	inOrder := o.By == StateTime && !o.Asc // as the rows of a block are
	if inOrder {
		most = 2 * n // the rest of the block comes after these
	}
	for r, err := range Rows(block, f) {
		if err != nil {
			return nil, err
		}
		if key := o.key(r); key < worst {
			if inOrder {
				break
			}
			continue
		}
		if o.IsAfter(r, after) {
			r.Segment = segment
			found = append(found, r)
		}
		if n > 0 && len(found)-begin >= most { // so that a block takes no more if each of its rows matches
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
