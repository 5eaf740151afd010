package dtstest

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dts-sched/dts"
	"github.com/dts-sched/dts/internal/clock"
)

// stillLimit is how long a handler may work, by the clock of the machine, without the test's clock moving.
const stillLimit = time.Minute

// watch knows which tasks handlers work on, and finds out when one of them stops the clock of the test for ever.
type watch struct {
	mu      sync.Mutex
	working map[*dts.Task]struct{}
	moves   int // grows when a handler begins or ends, and with the clock

	// Only look uses these.
	seen  int // moves at the last look
	still int // looks since something moved
}

// begin records that a handler works on a task, until end is called.
func (w *watch) begin(task *dts.Task) (end func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.working[task] = struct{}{}
	w.moves++
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.working, task)
		w.moves++
	}
}

// state returns the names of the tasks that handlers work on, and the number of moves so far.
func (w *watch) state() (working []string, moves int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for task := range w.working {
		working = append(working, fmt.Sprintf("%s of type %s", task.ID, task.Type))
	}
	slices.Sort(working)
	return working, w.moves
}

// followClock counts the hours of the test's clock, until ctx ends. It runs in the bubble.
func (w *watch) followClock(ctx context.Context) {
	for clock.Sleep(ctx, time.Hour) == nil {
		w.mu.Lock()
		w.moves++
		w.mu.Unlock()
	}
}

// looks is how often run looks within its limit.
const looks = 10

// look returns the names of the tasks that handlers work on if nothing has moved since looks looks, else nil.
func (w *watch) look() (stuck []string) {
	working, moves := w.state()
	if moves != w.seen || len(working) == 0 {
		w.seen, w.still = moves, 0
		return nil
	}
	if w.still++; w.still < looks {
		return nil
	}
	return working
}

// run calls report once when handlers have worked for limit while nothing moved, unless stopped is closed before. It runs outside of the
// bubble.
func (w *watch) run(limit time.Duration, stopped <-chan struct{}, report func(message string)) {
	ticker := time.NewTicker(limit / looks)
	defer ticker.Stop()
	for {
		select {
		case <-stopped:
			return
		case <-ticker.C:
		}
		if stuck := w.look(); stuck != nil {
			report(fmt.Sprintf("dtstest: the clock has not moved for %s, because a handler does not return: that of task %s. It computes, or "+
				"waits for something outside of the test's bubble: the network, a process, or a channel or a context made outside, as that of the "+
				"T that was given to Run", limit, strings.Join(stuck, ", or that of task ")))
			return
		}
	}
}

// panicWithStacks panics, as a test that runs out of time does: nothing can end a handler that does not return.
func panicWithStacks(message string) {
	debug.SetTraceback("all")
	panic(message)
}
