package cluster

import (
	"maps"
	"slices"
)

// Watch returns a channel that signals when a node joins, leaves, dies, returns, starts or stops draining, is cordoned
// or is uncordoned. The first heartbeat is such a change. Changes that the caller has not received yet are merged into one signal. Each
// call returns a channel of its own; stop ends its signals.
func (r *Registry) Watch() (changed <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watchers[c] = struct{}{}
	return c, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.watchers, c)
	}
}

// setView sets the view to v, and signals if the states of live nodes changed, or which nodes are cordoned.
func (r *Registry) setView(v View) {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed := !maps.Equal(r.view.liveStates(), v.liveStates()) || !slices.Equal(r.view.cordoned(), v.cordoned())
	r.view = v
	if !changed {
		return
	}
	for c := range r.watchers {
		select {
		case c <- struct{}{}:
		default: // an earlier signal is not received yet
		}
	}
}
