package cluster

import "maps"

// Watch signals whenever View has changed in what counts: which nodes live, and which of them drain. Several
// changes that nobody heard of yet are one signal; the first beat is a change. Every listener has a channel of
// its own, which stop takes away again.
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

// adopt makes v the view, and signals if that is a change.
func (r *Registry) adopt(v View) {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed := !maps.Equal(r.view.standing(), v.standing())
	r.view = v
	if !changed {
		return
	}
	for c := range r.watchers {
		select {
		case c <- struct{}{}:
		default: // not heard yet
		}
	}
}
