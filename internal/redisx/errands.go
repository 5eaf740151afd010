package redisx

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrLate is the error of a call that goes on, as its server has not answered for a while: how it ends is told to Calls.After.
var ErrLate = errors.New("the server has not answered yet")

// Patience is how long those who need other servers of a cluster, too, wait for one that does not answer.
const Patience = 300 * time.Millisecond

// Errands are calls to the servers of a cluster for those who must not be held up by one that is silent. Its zero value has no patience.
type Errands struct {
	DB       *DB
	Patience time.Duration // how long a caller waits for a server
	going    sync.WaitGroup
}

// Wait waits for all calls that go on. The caller has stopped to make new ones.
func (e *Errands) Wait() { e.going.Wait() }

// Calls are calls about keys. For each call that is late, CallEach calls Late before it returns. When the call has ended, After is called for it, in
// another goroutine.
type Calls[R any] struct {
	Keys  []string                       // by which each call has its server
	Do    func(places []int) []Result[R] // makes the calls of one server, in the order of the places of their keys
	Late  func(place int)                // may be nil
	After func(place int, of Result[R])  // may be nil
}

// CallEach makes calls at all servers at once, and returns their results in the order of the keys. It does not wait for a server longer than the
// patience: its calls have the error ErrLate, and go on. A Redis that is no cluster is one server, for which it waits. If the cluster cannot be
// reached, all calls have that error.
func CallEach[R any](ctx context.Context, e *Errands, c Calls[R]) []Result[R] {
	all := make([]int, len(c.Keys))
	for i := range all {
		all[i] = i
	}
	if !e.DB.Sharded() || len(all) == 0 {
		return c.Do(all)
	}
	results := make([]Result[R], len(c.Keys))
	servers, err := e.DB.byServer(ctx, c.Keys)
	if err != nil {
		for i := range results {
			results[i].Err = err
		}
		return results
	}
	r := round[R]{calls: c, results: results, open: make(map[string][]int, len(servers)), ended: make(chan struct{})}
	for address, s := range servers {
		r.open[address] = s.places
	}
	for address, s := range servers {
		e.going.Go(func() { r.end(address, s.places, c.Do(s.places)) })
	}
	r.await(e.Patience)
	return results
}

// Pick returns the items at those places.
func Pick[T any](items []T, places []int) []T {
	if len(places) == len(items) {
		return items // all, as the places are in order
	}
	return at(items, places)
}

// round is what one CallEach waits for.
type round[R any] struct {
	calls Calls[R]
	ended chan struct{} // closed when all have ended

	mu      sync.Mutex
	results []Result[R]
	open    map[string][]int // places by server
	over    bool             // nobody waits any more
}

// end notes how the calls of a server have ended.
func (r *round[R]) end(address string, places []int, results []Result[R]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, address)
	for k, i := range places {
		switch {
		case !r.over:
			r.results[i] = results[k]
		case r.calls.After != nil:
			r.calls.After(i, results[k])
		}
	}
	if len(r.open) == 0 && !r.over {
		close(r.ended)
	}
}

// await waits until all calls have ended, but no longer than that.
func (r *round[R]) await(patience time.Duration) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-r.ended:
	case <-timer.C:
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	for _, places := range r.open {
		for _, i := range places {
			r.results[i].Err = ErrLate
			if r.calls.Late != nil {
				r.calls.Late(i)
			}
		}
	}
}
