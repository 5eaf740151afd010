package queue

import (
	"slices"
	"strings"
	"sync"
)

// sources are the queues of a consumer: which of them may hold deliveries, and whose turn it is. It is safe for concurrent
// use.
type sources struct {
	mu      sync.Mutex
	queues  []*source
	looked  int           // index of the queue that next returns first
	busy    bool          // whoever takes waits for a slot
	arrived chan struct{} // signalled when a queue becomes ready; capacity 1
}

// source is one queue of a consumer.
type source struct {
	name   string // asynq's
	weight int
	credit int  // grows by the weight with each turn of another queue
	ready  bool // the queue may hold deliveries
	alone  bool // not all workers of the queue were told so
}

// newSources returns the queues with their weights, by asynq's names. All of them are ready. A weight below 1 counts as 1.
func newSources(weights map[string]int) *sources {
	s := &sources{arrived: make(chan struct{}, 1)}
	for name, weight := range weights {
		s.queues = append(s.queues, &source{name: name, weight: max(weight, 1)})
	}
	slices.SortFunc(s.queues, func(a, b *source) int { return strings.Compare(a.name, b.name) })
	s.markAll()
	return s
}

// names returns the names of all queues, sorted.
func (s *sources) names() []string {
	all := make([]string, len(s.queues))
	for i, q := range s.queues {
		all[i] = q.name
	}
	return all
}

// next returns the names of up to n queues: those after the ones that the call before returned, in a circle.
func (s *sources) next(n int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var some []string
	for range min(n, len(s.queues)) {
		some = append(some, s.queues[s.looked].name)
		s.looked = (s.looked + 1) % len(s.queues)
	}
	return some
}

// mark records that a queue may hold deliveries.
func (s *sources) mark(name string) {
	s.markIf(func(q *source) bool { return q.name == name })
}

// markAlone records that a queue may hold deliveries, of which not all its workers were told. It returns true if the caller must tell
// them, because whoever takes waits for a slot.
func (s *sources) markAlone(name string) (tell bool) {
	s.markIf(func(q *source) bool {
		if q.name != name {
			return false
		}
		tell = s.busy
		q.alone = !q.ready && !tell
		return true
	})
	return tell
}

// wait records that whoever takes waits for a slot, until resume is called. It returns the queues of which the other workers must be
// told.
func (s *sources) wait() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = true
	var tell []string
	for _, q := range s.queues {
		if q.ready && q.alone {
			tell = append(tell, q.name)
		}
		q.alone = false
	}
	return tell
}

func (s *sources) resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = false
}

// markAll records that every queue may hold deliveries.
func (s *sources) markAll() {
	s.markIf(func(*source) bool { return true })
}

func (s *sources) markIf(is func(*source) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.queues {
		q.ready = q.ready || is(q)
	}
	select {
	case s.arrived <- struct{}{}:
	default:
	}
}

// ready reports whether a queue may hold deliveries.
func (s *sources) ready() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.queues, func(q *source) bool { return q.ready })
}

// portion is how many deliveries to take from a queue.
type portion struct {
	queue string
	limit int
}

// share divides n deliveries among the queues that are ready, by their weights. The turns interleave over all calls, so
// that also shares of one delivery follow the weights. The queues that got a portion are not ready any more: what arrives
// from now on makes them ready again, and the caller calls mark if the queue held more than the portion.
func (s *sources) share(n int) []portion {
	s.mu.Lock()
	defer s.mu.Unlock()
	limits := make([]int, len(s.queues))
	for range n {
		if next := s.turn(); next >= 0 {
			limits[next]++
		}
	}
	var portions []portion
	for i, q := range s.queues {
		if limits[i] > 0 {
			portions = append(portions, portion{q.name, limits[i]})
			q.ready, q.alone = false, false
		}
	}
	return portions
}

// turn returns the index of the ready queue with the most credit, -1 if none is ready.
func (s *sources) turn() int {
	next, total := -1, 0
	for i, q := range s.queues {
		if !q.ready {
			continue
		}
		q.credit += q.weight
		total += q.weight
		if next < 0 || q.credit > s.queues[next].credit {
			next = i
		}
	}
	if next >= 0 {
		s.queues[next].credit -= total
	}
	return next
}
