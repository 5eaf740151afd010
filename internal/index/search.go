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
	read func(ctx context.Context, some []*Block) ([][]byte, error),
) ([]Row, error) {
	rest := promising(segments, f, o, after)
	var found []Row
	for count := readsAtOnce; len(rest) > 0; count = min(2*count, readsMost) {
		if n > 0 && len(found) >= n {
			worst := o.key(found[n-1])
			rest = slices.DeleteFunc(rest, func(b *Block) bool {
				first, _ := o.bounds(&b.Summary)
				return first < worst
			})
		}
		some := rest[:min(count, len(rest))]
		rest = rest[len(some):]
		texts, err := read(ctx, some)
		if err != nil {
			return nil, err
		}
		worst := int64(math.MinInt64)
		if n > 0 && len(found) >= n {
			worst = o.key(found[n-1])
		}
		for i, text := range texts {
			if found, err = collectRows(found, some[i].Number, text, f, o, after, n, worst); err != nil {
				return nil, err
			}
		}
		found = o.Best(found, n)
	}
	return found, nil
}

// CountRows counts the rows that match, and draws n of them at random. Of a block that is gone, and which read returns
// as nil, all rows count. Errors: ErrUnreadable, and those of read.
func CountRows(
	ctx context.Context, segments []Summary, f Filter, n int,
	read func(ctx context.Context, some []*Block) ([][]byte, error),
) (count int, drawn []Row, _ error) {
	for some := range slices.Chunk(promising(segments, f, Order{}, nil), readsMost) {
		texts, err := read(ctx, some)
		if err != nil {
			return 0, nil, err
		}
		for i, text := range texts {
			if text == nil {
				count += some[i].Rows / len(some[i].Blocks)
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
func promising(segments []Summary, f Filter, o Order, after *Position) []*Block {
	kept := slices.DeleteFunc(blocks(segments), func(b *Block) bool {
		_, last := o.bounds(&b.Summary)
		return !b.MayMatch(f) || after != nil && last > after.Key
	})
	slices.SortStableFunc(kept, func(a, b *Block) int {
		first, _ := o.bounds(&a.Summary)
		other, _ := o.bounds(&b.Summary)
		return cmp.Compare(other, first)
	})
	return kept
}

// collectRows adds the rows of a block that match, but not those with keys below worst. If n is not 0, it leaves out
// most of those that are not among the first n.
func collectRows(
	found []Row, segment int, block []byte, f Filter, o Order, after *Position, n int, worst int64,
) ([]Row, error) {
	begin := len(found)
	for r, err := range Rows(block, f) {
		if err != nil {
			return nil, err
		}
		if o.key(r) < worst {
			if o.By == StateTime && !o.Asc {
				break // blocks have this order
			}
			continue
		}
		if o.IsAfter(r, after) {
			r.Segment = segment
			found = append(found, r)
		}
		if n > 0 && len(found)-begin >= 4*n { // so that a block takes no more if each of its rows matches
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
