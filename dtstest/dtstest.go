// Package dtstest runs DTS inside a test, in memory and on a clock of its own: an hour of retries and schedules passes in moments.
//
//	func TestSignUp(t *testing.T) {
//		dtstest.Run(t, func(w *dts.Worker) {
//			dts.Handle(w, "email.send", send)
//		}, func(t *testing.T, d *dtstest.DTS) {
//			signUp(d.Client, "ada") // submits email.send for in an hour
//			d.Advance(time.Hour)
//			if got := d.Tasks("email.send"); len(got) != 1 || got[0].State != dts.StateSucceeded {
//				t.Errorf("got %+v", got)
//			}
//		})
//	}
//
// It is DTS itself that runs, not an imitation: leaders, workers and scripts are those of a fleet, on an embedded Redis. The clock is that of
// [testing/synctest]: it stands while something works, and jumps to the next thing that is due when everything waits. What holds for
// functions in a bubble of synctest holds for handlers as well: they should not wait for the network or for processes.
package dtstest

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dts-sched/dts"
	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/redisx/embedded"
)

// Start is the time at which the clock of every test begins.
var Start = time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC)

// DTS is a worker that leads, a client, and a Redis in memory. Time passes when the test waits.
type DTS struct {
	*dts.Client
	t     testing.TB
	mu    sync.Mutex // see order
	watch watch
	stuck bool // handlers did not return in the end; for Run
}

// Run runs test with a DTS whose worker has the handlers that add gives it; add may be nil. When test returns, the worker stops: what runs is
// interrupted, and what waits is dropped. The worker serves the queues critical, default and low, and those that are named.
//
// A handler that does not return although its context has ended fails the test. So that it cannot hang for ever, Run panics if handlers work
// for a minute, by the clock of the machine, while the clock of the test stands; except in a test without a deadline (go test -timeout 0),
// as in a debugger.
func Run(t *testing.T, add func(w *dts.Worker), test func(t *testing.T, d *DTS), queues ...string) {
	t.Helper()
	d := &DTS{watch: watch{working: map[*dts.Task]struct{}{}}}
	if _, limited := t.Deadline(); limited {
		stopped := make(chan struct{})
		defer close(stopped)
		go d.watch.run(stillLimit, stopped, panicWithStacks)
	}
	_ = t.Context().Done() // made in the bubble, the channel could not be closed outside of it
	defer func() {
		if !d.stuck {
			return
		}
		_ = recover() // synctest's, about goroutines that remain: those of the handlers that the test has been told of
		t.FailNow()
	}()
	synctest.Test(t, func(t *testing.T) { d.run(t, add, test, queues) })
}

// run is Run in the bubble.
func (d *DTS) run(t *testing.T, add func(w *dts.Worker), test func(t *testing.T, d *DTS), queues []string) {
	d.t = t
	if err := clock.Sleep(t.Context(), clock.Until(Start)); err != nil {
		t.Fatal(err)
	}
	redis, err := embedded.StartHidden()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	defer func() {
		stop()
		<-ended
		d.reportStuck()
		if d.Client != nil {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
		redis.Close()
		_ = clock.Sleep(context.Background(), time.Minute) // in which the clients of Redis end what they do by themselves
	}()
	go d.watch.followClock(ctx)
	w := d.worker(redis.URL(), add, queues)
	go func() {
		defer close(ended)
		if err := w.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	select { // then the data is as this release has it, and the client knows that
	case <-w.Ready():
	case <-ended:
		t.FailNow()
	}
	d.Client, err = dts.Open(redis.URL(), dts.WithLogger(d.log()))
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	test(t, d)
}

// reportStuck fails the test if handlers have not returned, which the worker has waited for.
func (d *DTS) reportStuck() {
	working, _ := d.watch.state()
	for _, task := range working {
		d.t.Errorf("dtstest: the handler of task %s has not returned although its context has ended", task)
	}
	d.stuck = len(working) > 0
}

// worker returns the worker, with the handlers of the test.
func (d *DTS) worker(redis string, add func(w *dts.Worker), queues []string) *dts.Worker {
	weights := map[string]int{"critical": 6, "default": 3, "low": 1}
	for _, name := range queues {
		weights[name] = 1
	}
	w := dts.NewWorker(dts.WorkerOptions{
		Redis: redis, Lead: true, Name: "test", Queues: weights, DrainTimeout: time.Millisecond, Logger: d.log(),
	})
	w.Use(func(next dts.Handler) dts.Handler {
		return func(ctx context.Context, t *dts.Task) (any, error) {
			defer d.watch.begin(t)()
			d.order()
			defer d.order()
			return next(ctx, t)
		}
	})
	dts.Handle(w, nothing, func(context.Context, struct{}) error { return nil }) // a worker must have a handler
	if add != nil {
		add(w)
	}
	return w
}

// order puts what the test did before it waited before what handlers do then, and the other way round: for the race detector, time that
// passes orders nothing.
func (d *DTS) order() {
	d.mu.Lock()
	defer d.mu.Unlock()
}

// log returns a logger to the test, for what goes wrong.
func (d *DTS) log() *slog.Logger {
	return slog.New(slog.NewTextHandler(d.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// nothing is the type of tasks that do nothing.
const nothing = "dtstest.nothing"

// Settle runs what is due to its end, or to the wait before the next attempt, in all namespaces. The clock moves no further than that takes.
// It leaves out tasks that nobody can take: those without a handler, in a queue that is not served or is paused; and runs
// of workflows that wait for such tasks. It fails the test if a task takes longer than its timeout allows.
func (d *DTS) Settle() {
	d.t.Helper()
	d.order()
	defer d.order()
	synctest.Wait()
	busy := d.busy()
	if len(busy) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(d.t.Context(), longest(busy)+settleMargin)
	defer cancel()
	for _, err := range d.In(control.EveryNamespace).Events(ctx, dts.TaskFilter{}) { // the first one says that none is missed from now on
		if err != nil {
			d.t.Fatal(err)
		}
		synctest.Wait()
		if busy = d.busy(); len(busy) == 0 {
			return
		}
	}
	for _, task := range busy {
		d.t.Errorf("dtstest: task %s of type %s has not ended in time: it is %s, attempt %d; does its handler look at its context?",
			task.ID, task.Type, task.State, task.Attempt)
	}
	d.t.FailNow()
}

// settleMargin is how long Settle waits for what has not ended at its timeout.
const settleMargin = time.Minute

// longest returns the longest timeout of some tasks.
func longest(tasks []*dts.Task) (most time.Duration) {
	for _, task := range tasks {
		most = max(most, task.Timeout)
	}
	return most
}

// busy returns the tasks that run, or are due and can be taken: of others, Warnings says why they wait.
func (d *DTS) busy() []*dts.Task {
	d.t.Helper()
	waiting := d.list(dts.TaskFilter{States: []dts.State{dts.StateScheduled, dts.StateQueued, dts.StateRunning}})
	return slices.DeleteFunc(waiting, func(task *dts.Task) bool {
		isDue := !task.RunAt.IsZero() && !task.RunAt.After(clock.Now())
		switch {
		case task.State != dts.StateRunning:
			return !isDue || len(task.Warnings) > 0
		case task.Type == dts.TypeWorkflow:
			return d.waits(task)
		}
		return false
	})
}

// waits reports whether a run of a workflow waits: it is paused, or for the tasks of its steps, or as its
// steps say.
func (d *DTS) waits(task *dts.Task) bool {
	run, err := d.In(task.Namespace).GetRun(d.t.Context(), task.ID)
	if err != nil {
		d.t.Fatal(err)
	}
	waits := run.Paused || run.State.Final()
	for _, s := range run.Steps {
		switch s.State {
		case dts.StepActive:
			if s.TaskState.Final() {
				return false // its leader is about to see that
			}
			waits = true
		case dts.StepWaiting:
			if !s.WaitsUntil.IsZero() && !s.WaitsUntil.After(clock.Now()) {
				return false // that, too
			}
			waits = true
		}
	}
	return waits
}

// list returns tasks of all namespaces, the oldest first.
func (d *DTS) list(f dts.TaskFilter) (tasks []*dts.Task) {
	d.t.Helper()
	namespaces, err := d.Namespaces(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	for _, namespace := range namespaces {
		for task, err := range d.In(namespace.Name).List(d.t.Context(), f) {
			if err != nil {
				d.t.Fatal(err)
			}
			tasks = append(tasks, task)
		}
	}
	slices.Reverse(tasks)
	slices.SortStableFunc(tasks, func(a, b *dts.Task) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return tasks
}

// Advance moves the clock. What becomes due meanwhile, ticks of schedules and further attempts included, runs at its time; what is due at the
// end is settled.
func (d *DTS) Advance(by time.Duration) {
	d.t.Helper()
	d.order()
	_ = clock.Sleep(context.Background(), by)
	d.Settle()
}

// Tasks returns the tasks of a type that were submitted or created by schedules, in all namespaces, the oldest first; "" means all types. Those
// that ended long ago are forgotten: a day or two after their end, or a week if they failed, unless their Retention says otherwise.
func (d *DTS) Tasks(taskType string) []*dts.Task {
	d.t.Helper()
	return d.list(dts.TaskFilter{Type: taskType})
}
