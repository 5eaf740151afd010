// Package batch lets many callers share calls: group commit. While nobody else calls, a caller's item is worked on at
// once, alone. Items that arrive while a call is under way wait for its end and then go together; there is no timer.
package batch

import (
	"context"
	"sync"
)

// Group collects items for Do.
type Group[T, R any] struct {
	do    func([]T) []R
	limit int

	mu      sync.Mutex
	busy    bool          // a call is under way
	waiting []*call[T, R] // the last one takes further items, up to the limit
}

// call is one call of do, and the callers that wait for it.
type call[T, R any] struct {
	items []T
	left  map[int]bool // the places of items whose callers have left before the call; nil: none
	begun bool         // nobody joins or leaves any more
	done  chan struct{}

	results []R
	panic   any
}

// New returns a group. do gets at most limit items, in the order in which they came, and returns a result for each of
// them, in the same order. Calls of do do not overlap.
func New[T, R any](limit int, do func([]T) []R) *Group[T, R] {
	return &Group[T, R]{do: do, limit: limit}
}

// Do returns the result for an item. If the call panics, so does Do, for every item of the call. Error: that of ctx, if
// it ends before a call with the item begins; do never sees the item then.
func (g *Group[T, R]) Do(ctx context.Context, item T) (R, error) {
	g.mu.Lock()
	if !g.busy {
		g.busy = true
		g.mu.Unlock()
		defer g.runWaiting()
		c := &call[T, R]{items: []T{item}, begun: true}
		g.run(c)
		return c.result(0), nil
	}
	c, place := g.join(item)
	g.mu.Unlock()
	select {
	case <-c.done:
	case <-ctx.Done():
		if g.leave(c, place) {
			var none R
			return none, ctx.Err()
		}
		<-c.done
	}
	return c.result(place), nil
}

// join adds an item to a call that waits. It returns its place there.
func (g *Group[T, R]) join(item T) (c *call[T, R], place int) {
	if n := len(g.waiting); n > 0 {
		c = g.waiting[n-1]
	}
	if c == nil || len(c.items) == g.limit {
		c = &call[T, R]{done: make(chan struct{})}
		g.waiting = append(g.waiting, c)
	}
	c.items = append(c.items, item)
	return c, len(c.items) - 1
}

// leave takes an item out of a call, unless the call has begun.
func (g *Group[T, R]) leave(c *call[T, R], place int) (left bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.begun {
		return false
	}
	if c.left == nil {
		c.left = make(map[int]bool)
	}
	c.left[place] = true
	var none T
	c.items[place] = none // it is not kept until the call begins
	return true
}

// runWaiting makes the calls that wait, one after the other, in a goroutine: no caller waits for those of others.
func (g *Group[T, R]) runWaiting() {
	if c := g.next(); c != nil {
		go func() {
			for ; c != nil; c = g.next() {
				g.run(c)
				close(c.done)
			}
		}()
	}
}

// next begins the call that has waited longest. If there is none, it returns nil, and nobody is busy any more.
func (g *Group[T, R]) next() *call[T, R] {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) == 0 {
		g.busy, g.waiting = false, nil
		return nil
	}
	c := g.waiting[0]
	g.waiting[0] = nil
	g.waiting = g.waiting[1:]
	c.begun = true
	return c
}

// run calls do with the items whose callers have not left.
func (g *Group[T, R]) run(c *call[T, R]) {
	defer func() { c.panic = recover() }()
	if c.left == nil {
		c.results = g.do(c.items)
		return
	}
	var items []T
	var places []int
	for place, item := range c.items {
		if !c.left[place] {
			items, places = append(items, item), append(places, place)
		}
	}
	if len(items) == 0 {
		return
	}
	results := g.do(items)
	c.results = make([]R, len(c.items))
	for i, place := range places {
		c.results[place] = results[i]
	}
}

// result returns the result for the item at a place.
func (c *call[T, R]) result(place int) R {
	if c.panic != nil {
		panic(c.panic)
	}
	return c.results[place]
}
