// Package worker runs attempts: it takes deliveries from asynq's queues, begins their attempts, runs their executors,
// and reports how they ended.
//
// The number of attempts that a node runs at once is a hard limit: an attempt begins only when a slot is free for it, and
// the slot is freed when the executor has returned. As many attempts as there are slots may wait meanwhile until Redis has taken
// their ends; beyond that, attempts keep their slots until it has.
package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dts-sched/dts/internal/batch"
	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/route"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/telemetry"
	"github.com/dts-sched/dts/internal/tracing"
	"github.com/dts-sched/dts/internal/worker/executor"
)

// reportBudget is how long a worker that shuts down tries to report the attempts that it interrupted. Those that it
// cannot report are recovered when the leases of their runs are over.
const reportBudget = 5 * time.Second

// callLimit is the most attempts in one call to Redis.
const callLimit = 256

// Why an attempt's context ended.
var (
	errTimeout  = executor.ErrTimeout
	errStopped  = executor.ErrCancelled
	errShutdown = executor.ErrShutdown
)

// Pool is a share of the node's capacity with queues of its own.
type Pool struct {
	Name        string
	Concurrency int
	Queues      map[string]int // weights
	DB          *redisx.DB     // for this pool alone, open until Run has returned
}

// Options says what to work on and with. All but Types and Tracer are needed.
type Options struct {
	Store        *store.Store
	Prefix       string // of the keys of this installation
	Node         string // this node's id
	Capacity     int    // attempts at once, over all pools
	Pools        []Pool
	Executors    executor.Registry
	Types        task.Types    // tells the timeouts of attempts; nil knows no type
	DrainTimeout time.Duration // how long attempts may go on after the worker was told to stop
	// OutageTolerance is how long attempts may go on without another lease. Less than that of a lease means that they end before others may
	// begin.
	OutageTolerance time.Duration
	Grace           time.Duration // how long an executor may take to return after its context has ended
	Random          func() float64
	GatherLimit     time.Duration // how long slots are kept for a task of several; 0: as long as leaders expect
	Unhurried       bool          // see queue.ConsumerOptions
	Metrics         *telemetry.Metrics
	Tracer          *tracing.Tracer // nil: attempts have no spans
	Log             *slog.Logger
}

// Worker runs attempts on one node.
type Worker struct {
	o        Options
	slots    chan struct{} // an entry for each slot that an attempt holds, and for each delivery that may be taken now
	reports  chan struct{} // one entry for each attempt without a slot whose end is not reported yet
	started  atomic.Int64  // makes run tokens unique
	running  atomic.Int64  // slots of attempts that run
	response atomic.Int64  // in ns; see Response
	ready    chan struct{}
	gathers  chan struct{} // its only entry is of the delivery that waits for several slots
	hasBegun chan struct{} // wakes keepLeases; its buffer of one merges several signals
	begins   *batch.Groups[tasks.Start, tasks.Begun]
	ends     *batch.Groups[tasks.End, error]

	mu       sync.Mutex
	cordoned bool                // see SetCordoned
	failed   time.Time           // when it last kept slots for a delivery in vain
	leave    context.CancelFunc  // ends the wait of a delivery for several slots; nil if none waits
	moving   bool                // see SetMoving
	taking   []*pool             // while it runs
	active   map[string]*attempt // by delivery
	idle     sync.WaitGroup      // counts the deliveries that are handled
	closed   bool                // no delivery may enter any more
}

// New prepares a worker.
func New(o Options) *Worker {
	o.Metrics.Capacity.Set(float64(o.Capacity))
	for _, p := range o.Pools {
		for name := range p.Queues {
			o.Metrics.BeginQueue(name)
		}
	}
	for name := range o.Executors {
		o.Metrics.BeginType(name)
	}
	o.GatherLimit = cmp.Or(o.GatherLimit, route.GatherLimit)
	w := &Worker{
		o: o, slots: make(chan struct{}, o.Capacity), reports: make(chan struct{}, o.Capacity),
		ready: make(chan struct{}), hasBegun: make(chan struct{}, 1), active: make(map[string]*attempt),
		gathers: make(chan struct{}, 1),
	}
	types := o.Executors.Types()
	// Attempts share the calls, so a call has a limit of its own: an attempt tries again. What has begun must not wait for long for the answer, as
	// its lease goes on only with that.
	w.begins = layout.SharedCalls(o.Store.Layout, func(s tasks.Start) task.Ref { return s.Ref }, callLimit, func(starts []tasks.Start) []tasks.Begun {
		ctx, cancel := context.WithTimeout(context.Background(), o.Store.Tasks.RunLease())
		defer cancel()
		return o.Store.Tasks.BeginEach(ctx, tasks.Runner{Node: o.Node, Types: types, Decodes: true}, starts)
	})
	w.ends = layout.SharedCalls(o.Store.Layout, func(e tasks.End) task.Ref { return e.Run.Task.Ref }, callLimit, func(ends []tasks.End) []error {
		ctx, cancel := context.WithTimeout(context.Background(), reportBudget)
		defer cancel()
		return o.Store.Tasks.FinishEach(ctx, ends)
	})
	return w
}

// Running is the number of slots that attempts hold now.
func (w *Worker) Running() int { return int(w.running.Load()) }

// Tasks is the number of attempts that run, or whose end Redis has not taken yet. An attempt may hold several slots.
func (w *Worker) Tasks() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.active)
}

// Placed returns how many slots the deliveries hold that were handed over to its node alone, by queue; nil for none.
func (w *Worker) Placed() (placed map[string]int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.taking {
		for name, n := range p.consumer.Placed() {
			if placed == nil {
				placed = make(map[string]int, 1)
			}
			placed[name] += n
		}
	}
	return placed
}

// responseShare is how much one attempt counts in the average of their times, as a part of 1.
const responseShare = 16

// noteResponse notes how long an attempt took. If two end at once, one of them may not count.
func (w *Worker) noteResponse(took time.Duration) {
	average := w.response.Load()
	if average == 0 {
		average = int64(took)
	}
	w.response.Store(max(average+(int64(took)-average)/responseShare, 1))
}

// Response returns how long attempts took lately, on average; 0 if none has ended.
func (w *Worker) Response() time.Duration { return time.Duration(w.response.Load()) }

// Ready is closed when the worker takes deliveries.
func (w *Worker) Ready() <-chan struct{} { return w.ready }

// SetCordoned says whether the worker takes nothing. What runs goes on. Deliveries that it has taken already begin or go
// back within 50 ms: as many as it has slots, and up to 64 more.
func (w *Worker) SetCordoned(is bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cordoned = is; is && w.leave != nil {
		w.leave()
	}
	for _, p := range w.taking {
		p.consumer.SetCordoned(is)
	}
}

// SetMoving says whether what runs, or begins from now on, is asked to move to other workers.
func (w *Worker) SetMoving(is bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.moving = is
	if is {
		w.moveAll()
	}
}

// moveAll asks all attempts to move. w.mu is locked.
func (w *Worker) moveAll() {
	for _, a := range w.active {
		a.move()
	}
}

// Cordoned reports whether the worker is cordoned, and begins nothing any more. held is then how many deliveries it
// still has: those that run, and those whose end Redis has not taken yet.
func (w *Worker) Cordoned() (held int, is bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	is = w.cordoned
	for _, p := range w.taking {
		n, isLast := p.consumer.Held()
		held, is = held+n, is && isLast
	}
	return held, is
}

// startTaking notes the pools that take deliveries from now on, unless the worker is cordoned.
func (w *Worker) startTaking(pools []*pool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.taking = pools
	for _, p := range pools {
		p.consumer.SetCordoned(w.cordoned)
	}
}

// Run takes and runs deliveries until ctx ends. Then it drains: it takes no more, gives running attempts up to
// DrainTimeout to end, interrupts the rest so that other nodes can run them, reports, and returns nil.
func (w *Worker) Run(ctx context.Context) error {
	work, stopWork := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stopWork(nil)
	pools := w.pools()
	w.startTaking(pools)
	var background errgroup.Group
	background.Go(func() error {
		return w.o.Store.Tasks.ListenStops(work, func() { _ = w.ExtendNow(work) }, w.stop(work))
	})
	background.Go(func() error { w.keepLeases(work); return nil })
	var taking sync.WaitGroup
	for _, p := range pools {
		background.Go(func() error { return p.consumer.Run(work) })
		taking.Go(func() { w.take(ctx, work, p) })
	}
	w.awaitReady(ctx, pools)
	<-ctx.Done()
	w.close(pools)
	taking.Wait()
	w.drain()
	stopWork(nil)
	return background.Wait()
}

// pool takes deliveries from the queues of a Pool.
type pool struct {
	consumer *queue.Consumer
	slots    chan struct{} // as the worker's, for this pool alone
	ahead    *ahead
}

func (w *Worker) pools() []*pool {
	pools := make([]*pool, len(w.o.Pools))
	for i, p := range w.o.Pools {
		consumer := queue.NewConsumer(queue.ConsumerOptions{
			DB: p.DB, Prefix: w.o.Prefix, Node: w.o.Node, Name: p.Name, Concurrency: p.Concurrency, Queues: p.Queues,
			Types: w.o.Executors.Types(), Small: w.small(p), Unhurried: w.o.Unhurried, Log: w.o.Log,
		})
		pools[i] = &pool{
			slots: make(chan struct{}, p.Concurrency), ahead: newAhead(len(w.o.Pools) > 1), consumer: consumer,
		}
	}
	return pools
}

// small returns the queues of a pool that a larger one serves, too.
func (w *Worker) small(p Pool) map[string]bool {
	all := make(map[string]bool)
	for _, other := range w.o.Pools {
		for name := range other.Queues {
			if _, serves := p.Queues[name]; serves && other.Concurrency > p.Concurrency {
				all[name] = true
			}
		}
	}
	return all
}

// awaitReady closes ready once arrivals wake all pools, unless ctx ends before.
func (w *Worker) awaitReady(ctx context.Context, pools []*pool) {
	for _, p := range pools {
		select {
		case <-p.consumer.Ready():
		case <-ctx.Done():
			return
		}
	}
	close(w.ready)
}

// serve handles one delivery and settles it.
func (w *Worker) serve(work context.Context, p *pool, t *queue.Taken) {
	defer w.idle.Done()
	err := w.handle(work, p, t)
	if errors.Is(err, errShutdown) {
		err = fmt.Errorf("%w: %w", queue.ErrGiveBack, err)
	}
	p.consumer.End(t, err)
}

// close has the worker begin no more attempts. Deliveries that are taken nevertheless go back to their queues at once, since
// another node may have a slot for them.
func (w *Worker) close(pools []*pool) {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	for _, p := range pools {
		p.consumer.Quiesce()
	}
}

// drain asks running attempts to move, waits for their ends, up to DrainTimeout, and interrupts the rest.
func (w *Worker) drain() {
	done := make(chan struct{})
	go func() { w.idle.Wait(); close(done) }()
	w.SetMoving(true)
	if n := w.handled(); n > 0 {
		w.o.Log.Info("draining", "running", n, "timeout", w.o.DrainTimeout)
	}
	if waitFor(done, w.o.DrainTimeout) {
		return
	}
	w.mu.Lock()
	for _, a := range w.active {
		a.cancel(errShutdown)
	}
	w.mu.Unlock()
	if !waitFor(done, w.o.Grace+reportBudget) {
		w.o.Log.Warn("attempts did not stop in time: other nodes run them again", "running", w.handled())
	}
}

// handled is the number of attempts that run, or whose end Redis has not taken yet.
func (w *Worker) handled() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.active)
}

// waitFor says whether done was closed within d.
func waitFor(done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// stop handles the message that an attempt was cancelled, or asked to move. It asks Redis before it acts: a channel is shared by all
// databases of a Redis, so the message may mean a task of the same name in another one. Until begin is answered it does
// nothing: either its reply contains the request, or the next extension of the lease finds it.
func (w *Worker) stop(ctx context.Context) func(ref task.Ref, number int) {
	return func(ref task.Ref, number int) {
		w.mu.Lock()
		a := w.active[task.Delivery{Ref: ref, Attempt: number}.String()]
		w.mu.Unlock()
		if a != nil && a.run.Load() != nil {
			_ = w.extend(ctx, []*attempt{a}) // if it fails, keepLeases asks again
		}
	}
}

// enter records that a delivery, for which slots were reserved, is handled. If it returns an error, they are free
// again.
// Errors: errShutdown if the worker drains; errTwice if the attempt already runs here.
func (w *Worker) enter(work context.Context, p *pool, name string, slots int) (*attempt, error) {
	a := w.newAttempt(work, p, name)
	a.slots = slots
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
		a.end()
		return nil, errShutdown
	case w.active[name] != nil: // it was delivered again
		a.end()
		return nil, errTwice
	}
	w.active[name] = a
	if w.moving {
		a.move()
	}
	a.runs = true
	w.running.Add(int64(slots))
	w.o.Metrics.Running.Add(float64(slots))
	return a, nil
}

func (w *Worker) newAttempt(work context.Context, p *pool, name string) *attempt {
	ctx, cancel := context.WithCancelCause(work)
	return &attempt{w: w, pool: p, name: name, ctx: ctx, cancel: cancel, work: work, moving: make(chan struct{})}
}

// remove removes an attempt that has ended, and frees its slots.
func (w *Worker) remove(a *attempt) {
	w.mu.Lock()
	delete(w.active, a.name)
	w.mu.Unlock()
	a.end()
}

// handle runs the attempt of one delivery. If it returns nil, the delivery has served its purpose. Errors:
// queue.ErrDeadLetter if the task has failed for good; errShutdown or tasks.ErrForeignType if the attempt did not begin, so that the
// delivery returns to its queue.
func (w *Worker) handle(work context.Context, p *pool, d *queue.Taken) error {
	name := task.Delivery{Ref: d.Ref, Attempt: d.Attempt}.String()
	a, err := w.enter(work, p, name, d.Slots)
	if errors.Is(err, errTwice) {
		w.o.Metrics.Leftovers.Inc()
		return nil
	}
	if err != nil {
		return fmt.Errorf("delivery %s: %w", name, err)
	}
	defer w.remove(a)
	switch err := a.begin(d); {
	case errors.Is(err, tasks.ErrLeftover):
		w.o.Metrics.Leftovers.Inc()
		return nil
	case err != nil:
		return err
	}
	return a.perform()
}

// label is the type of a task in metrics. Types that this node does not run are "other", because anybody can submit tasks
// of any type, and labels must stay few.
func (w *Worker) label(taskType string) string {
	if _, known := w.o.Executors[taskType]; known {
		return taskType
	}
	return "other"
}

// token makes the token of one run: one for each handling of a delivery. When begin is called again for it, the token is the
// same.
func (w *Worker) token() string { return fmt.Sprintf("%s#%d", w.o.Node, w.started.Add(1)) }

// pause waits before the next try to reach Redis.
func pause(ctx context.Context) error { return clock.Sleep(ctx, 200*time.Millisecond) }
