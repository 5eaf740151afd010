package batch

import "context"

// Groups are groups that do not wait for each other: a call with items for several servers would end with the slowest one, and calls after it would
// wait for that.
type Groups[T, R any] struct {
	of     func(T) int
	groups []*Group[T, R]
}

// NewGroups returns n groups, as New does. of is the number, from 0, of the group of an item.
func NewGroups[T, R any](n int, of func(T) int, limit int, do func([]T) []R) *Groups[T, R] {
	g := &Groups[T, R]{of: of, groups: make([]*Group[T, R], n)}
	for i := range g.groups {
		g.groups[i] = New(limit, do)
	}
	return g
}

// Do is that of the group of an item.
func (g *Groups[T, R]) Do(ctx context.Context, item T) (R, error) {
	return g.groups[g.of(item)].Do(ctx, item)
}
