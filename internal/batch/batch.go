// Package batch lets many callers share calls: group commit. While nobody else calls, a caller's item is worked on at once,
// alone. Items that arrive while a call is under way wait for its end and then go together; there is no timer.
package batch

import (
	"context"
	"slices"
	"sync"
)

// Group collects items for Do.
type Group[T, R any] struct {
	do    func([]T) []R
	limit int

	mu      sync.Mutex
	busy    bool // a call is under way, or a caller has been chosen to make the next one
	waiting []*entry[T, R]
}

// entry is an item that waits for its result.
type entry[T, R any] struct {
	item   T
	turn   chan bool // true: the caller makes the next call; false: its result is there
	result R
	panic  any // of the call that the item was part of
}

// New returns a group. do gets at most limit items, in the order in which they came, and returns a result for each of them,
// in the same order. Calls of do do not overlap.
func New[T, R any](limit int, do func([]T) []R) *Group[T, R] {
	return &Group[T, R]{do: do, limit: limit}
}

// Do returns the result for an item. If the call panics, so does Do, for every item of the call. Error: that of ctx, if it ends
// before a call with the item begins; do never sees the item then.
func (g *Group[T, R]) Do(ctx context.Context, item T) (R, error) {
	own := &entry[T, R]{item: item, turn: make(chan bool, 1)}
	g.mu.Lock()
	g.waiting = append(g.waiting, own)
	if g.busy {
		g.mu.Unlock()
		if leads, err := g.await(ctx, own); err != nil || !leads {
			return own.get(), err
		}
		g.mu.Lock()
	}
	g.busy = true
	n := min(len(g.waiting), g.limit)
	entries := g.waiting[:n:n]
	g.waiting = g.waiting[n:]
	g.mu.Unlock()
	defer g.pass()
	g.call(entries)
	return own.get(), nil
}

// await waits until another call has done an item, or until it is the caller's turn to make the next one: leads is true then,
// and the item is the first that waits. Error: that of ctx.
func (g *Group[T, R]) await(ctx context.Context, own *entry[T, R]) (leads bool, _ error) {
	select {
	case leads := <-own.turn:
		return leads, nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	at := slices.Index(g.waiting, own)
	if at >= 0 {
		g.waiting = slices.Delete(g.waiting, at, at+1)
	}
	g.mu.Unlock()
	if at < 0 { // a call has it
		return <-own.turn, nil
	}
	select {
	case <-own.turn: // it was to lead, in the meantime
		g.pass()
	default:
	}
	return false, ctx.Err()
}

// call does entries, the first of which is the caller's own.
func (g *Group[T, R]) call(entries []*entry[T, R]) {
	items := make([]T, len(entries))
	for i, e := range entries {
		items[i] = e.item
	}
	defer func() {
		p := recover()
		for _, e := range entries {
			e.panic = p
			e.turn <- false
		}
	}()
	results := g.do(items)
	for i, e := range entries {
		e.result = results[i]
	}
}

func (e *entry[T, R]) get() R {
	if e.panic != nil {
		panic(e.panic)
	}
	return e.result
}

// pass lets the caller that has waited longest make the next call.
func (g *Group[T, R]) pass() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) == 0 {
		g.busy = false
		g.waiting = nil
		return
	}
	g.waiting[0].turn <- true
}
