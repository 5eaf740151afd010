package queue

import (
	"slices"
	"strings"
	"sync"
)

// sources are the queues of a consumer: which of them may hold deliveries, and whose turn it is. It is safe for concurrent
// use.
type sources struct {
	queues  []*source          // by name; like byName, the same from the beginning on
	byName  map[string]*source // by asynq's names
	arrived chan struct{}      // signalled when a queue is marked; capacity 1

	mu     sync.Mutex
	marked []*source // those that are ready, so that work costs as much as there are of them, and not of all
	looked int       // index of the queue that next returns first
	busy   bool      // whoever takes waits for a slot
}

// source is one queue of a consumer.
type source struct {
	name   string // asynq's
	weight int
	credit int  // grows by the weight with each turn of another queue
	ready  bool // the queue may hold deliveries: it is one of the marked
	alone  bool // it is ready, and not all workers of the queue were told
	passed int  // deliveries passed over since one was taken
	// resting: its server did not answer or refused, so that it is not ready for a while, whatever is told of it.
	resting  bool
	failures int // in a row
}

// newSources returns the queues with their weights, by asynq's names. All of them are ready. A weight below 1 counts as 1.
func newSources(weights map[string]int) *sources {
	s := &sources{byName: make(map[string]*source, len(weights)), arrived: make(chan struct{}, 1)}
	for name, weight := range weights {
		q := &source{name: name, weight: max(weight, 1)}
		s.queues, s.byName[name] = append(s.queues, q), q
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

// next returns the names of up to n queues: those after the ones that the call before returned, in a circle, but for those that rest.
func (s *sources) next(n int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var some []string
	for range min(n, len(s.queues)) {
		if q := s.queues[s.looked]; !q.resting {
			some = append(some, q.name)
		}
		s.looked = (s.looked + 1) % len(s.queues)
	}
	return some
}

// rest has a queue not be ready until wake is called.
func (s *sources) rest(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.letRest(s.byName[name])
}

// letRest is rest. The caller holds the mutex.
func (s *sources) letRest(q *source) {
	q.resting = true
	if q.ready {
		q.ready = false
		s.marked = slices.DeleteFunc(s.marked, func(other *source) bool { return other == q })
	}
}

// wake ends the rest of a queue, which may hold deliveries.
func (s *sources) wake(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.byName[name]
	q.resting = false
	s.add(q)
}

// failed records that a queue could not be read, and has it rest. It returns how often that happened in a row.
func (s *sources) failed(name string) (failures int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.byName[name]
	q.failures++
	s.letRest(q)
	return q.failures
}

// answered records that a queue could be read.
func (s *sources) answered(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byName[name].failures = 0
}

// mark records that a queue may hold deliveries.
func (s *sources) mark(name string) {
	if q, ok := s.byName[name]; ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.add(q)
	}
}

// took records what came of a take from a queue: so many deliveries were taken, so many passed over, and so many are left. The queue is
// ready again if some may be left that were not passed over. What was passed over may have gone behind the others, so it ends when as
// many have been passed over as there are.
func (s *sources) took(name string, taken, passed, left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.byName[name]
	q.passed += passed
	if taken > 0 {
		q.passed = passed
	}
	if left > q.passed {
		s.add(q)
	} else {
		q.passed = 0
	}
}

// markTold records that a queue may hold deliveries, of which all its workers were told.
func (s *sources) markTold(name string) {
	if q, ok := s.byName[name]; ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		q.alone = false
		s.add(q)
	}
}

// markAlone records that a queue may hold deliveries, of which not all its workers were told. It returns true if the caller must tell
// them, because whoever takes waits for a slot, or the queue rests.
func (s *sources) markAlone(name string) (tell bool) {
	q, ok := s.byName[name]
	if !ok {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	tell = s.busy || q.resting
	q.alone = !tell
	s.add(q)
	return tell
}

// setBusy records that whoever takes waits for a slot, until setFree is called. It returns the queues of which the other workers must be
// told.
func (s *sources) setBusy() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = true
	var tell []string
	for _, q := range s.marked {
		if q.alone {
			tell = append(tell, q.name)
		}
		q.alone = false
	}
	return tell
}

func (s *sources) setFree() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = false
}

// markAll records that every queue may hold deliveries that nodes share.
func (s *sources) markAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.queues {
		if !isNodeQueue(q.name) {
			s.add(q)
		}
	}
}

// own returns the names of the queues that the node has for itself.
func (s *sources) own() []string {
	return slices.DeleteFunc(s.names(), func(name string) bool { return !isNodeQueue(name) })
}

// add makes a queue one of the marked, unless it rests. The caller holds the mutex.
func (s *sources) add(q *source) {
	if q.resting {
		return
	}
	if !q.ready {
		q.ready = true
		s.marked = append(s.marked, q)
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
	return len(s.marked) > 0
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
	limits := make([]int, len(s.marked))
	for range n {
		if next := s.turn(); next >= 0 {
			limits[next]++
		}
	}
	var portions []portion
	rest := s.marked[:0]
	for i, q := range s.marked {
		if limits[i] == 0 {
			rest = append(rest, q)
			continue
		}
		portions = append(portions, portion{q.name, limits[i]})
		q.ready, q.alone = false, false
	}
	s.marked = rest
	return portions
}

// turn returns the index, in marked, of the queue with the most credit, -1 if none is ready.
func (s *sources) turn() int {
	next, total := -1, 0
	for i, q := range s.marked {
		q.credit += q.weight
		total += q.weight
		if next < 0 || q.credit > s.marked[next].credit {
			next = i
		}
	}
	if next >= 0 {
		s.marked[next].credit -= total
	}
	return next
}
