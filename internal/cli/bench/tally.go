package bench

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
)

// tally counts what became of the tasks. Tasks are numbered from 0. Several goroutines may use it.
type tally struct {
	prefix string // of the ids

	mu       sync.Mutex
	closed   []bool // by task: nothing more will be heard of it
	accepted int
	states   map[wire.State]int // of tasks that have ended
	gone     int                // accepted tasks that the server does not know any more
	late     []int64            // ms from the due time to the start, of tasks that were started
	failure  string             // what went wrong with the first task that failed
}

func newTally(name string, tasks int) *tally {
	return &tally{prefix: name + "-", closed: make([]bool, tasks), states: map[wire.State]int{}}
}

// id returns the id of a task.
func (t *tally) id(n int) string { return fmt.Sprintf("%s%06d", t.prefix, n) }

// number returns the number of the task with an id, and whether it is one of this measurement.
func (t *tally) number(id string) (int, bool) {
	digits, ours := strings.CutPrefix(id, t.prefix)
	n, err := strconv.Atoi(digits)
	return n, ours && err == nil && n >= 0 && n < len(t.closed)
}

// accept records the answers to the submission of the tasks from first on. It returns the first refusal.
func (t *tally) accept(first int, results []wire.BatchResult) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var refused error
	for i, r := range results {
		if r.Error == nil {
			t.accepted++
			continue
		}
		refusal := &rest.Refusal{Problem: *r.Error}
		t.closed[first+i] = rest.IsFinal(refusal) // another one may have arrived nevertheless
		if refused == nil {
			refused = refusal
		}
	}
	return refused
}

// record counts a task if it is one of this measurement, has ended and was not counted before.
func (t *tally) record(task wire.Task) {
	n, ours := t.number(task.ID)
	if !ours || !slices.Contains(finalStates, task.State) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed[n] {
		return
	}
	t.closed[n] = true
	t.states[task.State]++
	if task.StartedAt != nil {
		t.late = append(t.late, task.StartedAt.Sub(task.RunAt.Time).Milliseconds())
	}
	if task.State == wire.StateFailed && t.failure == "" {
		t.failure = task.ID
		if task.Error != nil {
			t.failure += ": " + *task.Error
		}
	}
}

// forget counts a task that the server does not know.
func (t *tally) forget(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed[n] {
		t.closed[n] = true
		t.gone++
	}
}

// settled returns how many tasks have ended or are gone.
func (t *tally) settled() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.states[wire.StateSucceeded] + t.states[wire.StateFailed] + t.states[wire.StateCancelled] + t.gone
}

// cancelled returns how many tasks were cancelled.
func (t *tally) cancelled() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.states[wire.StateCancelled]
}

// open returns the tasks before limit of which more will be heard, the oldest first.
func (t *tally) open(limit int) []int {
	t.mu.Lock()
	defer t.mu.Unlock()
	var tasks []int
	for n := range limit {
		if !t.closed[n] {
			tasks = append(tasks, n)
		}
	}
	return tasks
}

func (t *tally) isOpen(n int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.closed[n]
}
