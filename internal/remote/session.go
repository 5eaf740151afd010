package remote

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
)

// session takes deliveries for one worker.
type session struct {
	o        Options
	workers  *Workers
	id       string
	address  string // from which it was opened
	offer    Offer
	consumer *queue.Consumer
	started  time.Time
	turn     chan struct{} // held by the call that takes: its capacity is 1

	taking    context.Context // ends when no call may take any more
	stopTakes context.CancelFunc
	work      context.Context // of the consumer
	stopWork  context.CancelFunc
	stopOnce  sync.Once

	obeys atomic.Int64 // since when, in ms, the cordon of the worker holds; 0 for none

	mu      sync.Mutex
	machine *cluster.Machine // of the worker; nil if it has not told
	told    time.Time        // when it told
	calls   int              // of the worker that are under way
	heard   time.Time        // when the worker called last
	held    map[string]held  // by run token
	stopped bool             // it holds nothing any more
}

// held is the delivery of an attempt that the worker runs.
type held struct {
	run      *tasks.Run
	delivery *queue.Taken
	until    time.Time // when the run's lease ends, by the clock of this node
	passed   bool      // a later session of the worker has the run, too
}

func newSession(w *Workers, id string, offer Offer) *session {
	o := w.o
	queues := make(map[string]int, len(offer.Queues))
	for _, name := range offer.Queues {
		queues[name] = 1
	}
	s := &session{
		o: o, workers: w, id: id, offer: offer, started: clock.Now(), heard: clock.Now(), turn: make(chan struct{}, 1), held: map[string]held{},
		consumer: queue.NewConsumer(queue.ConsumerOptions{
			DB: o.DB, Prefix: o.Prefix, Node: id, Name: "worker " + id, Concurrency: offer.Capacity, Queues: queues, Types: offer.Types,
			Guest: true, Log: o.Log,
		}),
	}
	s.taking, s.stopTakes = context.WithCancel(context.Background())
	s.work, s.stopWork = context.WithCancel(context.Background())
	s.consumer.SetBusy(s.work) // until a call takes
	o.Metrics.Capacity.Add(float64(offer.Capacity))
	return s
}

// run runs the consumer until stop is called.
func (s *session) run() {
	if err := s.consumer.Run(s.work); err != nil {
		s.o.Log.Warn("cannot take deliveries for a worker", "worker", s.id, "error", err)
	}
}

// inherit takes over what the worker runs from an earlier session of it, whose deliveries have served their purpose. It returns false, and takes
// nothing over, if it has stopped.
func (s *session) inherit(earlier *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false
	}
	earlier.mu.Lock()
	defer earlier.mu.Unlock()
	s.started = earlier.started
	if earlier.told.After(s.told) {
		s.machine, s.told = earlier.machine, earlier.told
	}
	for run, h := range earlier.held {
		if h.passed { // it may have ended since
			continue
		}
		s.hold(run, held{run: h.run, until: h.until})
		h.passed = true
		earlier.held[run] = h
	}
	return true
}

// stop ends the session. Workers must have removed it before, or replaced it: else it would inherit from itself, and lock its mutex twice.
// Deliveries of attempts that have begun have served their purpose.
func (s *session) stop() { s.stopOnce.Do(s.stopNow) }

func (s *session) stopNow() {
	s.stopTakes()
	s.turn <- struct{}{} // no call takes any more
	for {
		later := s.workers.of(s.id)
		if later == nil || later.inherit(s) { // what a call has begun meanwhile
			break
		}
		// That one has stopped since it was looked up, and so is not there any more.
	}
	s.mu.Lock()
	for run := range s.held {
		s.end(run, nil)
	}
	s.stopped = true
	s.mu.Unlock()
	s.o.Metrics.Capacity.Sub(float64(s.offer.Capacity))
	s.consumer.Quiesce()
	s.stopWork()
}

// call records that a call of the worker begins; the function that it returns, that it ends.
func (s *session) call() (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.calls--
		s.heard = clock.Now()
	}
}

// silent reports whether the worker has not called for so long that it counts as gone. Its lease is its word that it
// runs something, so it counts for nothing while the worker holds nothing.
func (s *session) silent() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	patience := s.o.Silence
	if len(s.held) > 0 {
		patience = max(patience, s.offer.Lease)
	}
	return s.calls == 0 && clock.Since(s.heard) > patience
}

// setCordon keeps the worker from getting attempts while it is cordoned. It returns whether something has changed.
func (s *session) setCordon(v cluster.View) (changed bool) {
	since := v.CordonOf(s.id, s.id).SinceMS()
	s.consumer.SetCordoned(since != 0)
	return s.obeys.Swap(since) != since
}

func (s *session) describe() cluster.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := cluster.Node{
		ID: s.id, Name: s.id, Labels: s.offer.Labels, Roles: []string{config.RoleWorker}, Capacity: s.offer.Capacity,
		Running: len(s.held), Tasks: len(s.held), Partitions: []int{},
		Queues: make(map[string]int, len(s.offer.Queues)), Types: s.offer.Types, StartedAt: s.started,
	}
	for _, name := range s.offer.Queues {
		n.Queues[name] = 1
	}
	n.Placed = s.consumer.Placed()
	if clock.Since(s.told) < machineKept {
		n.Machine = s.machine
	}
	obeys := s.obeys.Load()
	if held, isLast := s.consumer.Held(); isLast {
		n.Tasks, n.Obeys = held, obeys
	}
	return n
}

// machineKept is how long a worker's word on its machine counts: a call for attempts may wait for half of it.
const machineKept = 2 * time.Minute

// measured records what the worker says of its machine, if it says something.
func (s *session) measured(m *cluster.Machine) {
	if m == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.machine, s.told = m, clock.Now()
}

// keep records that the worker runs an attempt, whose delivery is nil if another session has that.
func (s *session) keep(run *tasks.Run, d *queue.Taken) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.held[run.Task.Run]
	h.run = run
	if d != nil {
		if h.delivery == nil { // else the call is repeated
			s.o.Store.Tasks.CountBegin(run.Task)
		}
		h.delivery = d
	}
	h.until = clock.Now().Add(s.offer.Lease)
	s.hold(run.Task.Run, h)
}

func (s *session) extended(kept, lost []*tasks.Run, lease time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = clock.Now()
	for _, r := range kept {
		h := s.held[r.Task.Run] // without a delivery if the attempt began through another node
		h.run = cmp.Or(h.run, r)
		h.until = clock.Now().Add(lease)
		s.hold(r.Task.Run, h)
	}
	for _, r := range lost {
		s.end(r.Task.Run, nil)
	}
}

// extendNow tells Redis of the runs that the worker has. Errors: those of Redis; whoever is refused learns it when its worker extends the lease.
func (s *session) extendNow(ctx context.Context) tasks.Failures {
	runs, rest := s.leased()
	if len(runs) == 0 {
		return nil
	}
	ctx, cancel := s.patience(ctx)
	defer cancel()
	failed := make(tasks.Failures)
	for i, e := range s.o.Store.Tasks.ExtendFor(ctx, rest, runs) {
		if e.Err != nil && !errors.Is(e.Err, tasks.ErrStale) && !errors.Is(e.Err, tasks.ErrOver) {
			failed.Add(s.o.Store.PartitionOf(runs[i].Task.Ref), e.Err)
		}
	}
	return failed
}

// patience ends a call as soon as one for the node's own runs ends.
func (s *session) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.o.Store.Tasks.RunLease()/3)
}

// leased returns the runs that the worker has, and how long to lease them: as long as the last one of their leases goes on, or as a run of this node.
func (s *session) leased() (runs []*tasks.Run, rest time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest = s.o.Store.Tasks.RunLease()
	for _, h := range s.held {
		runs, rest = append(runs, h.run), max(rest, clock.Until(h.until))
	}
	return runs, rest
}

func (s *session) taskOf(run string) (t task.Task, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, known := s.held[run]
	if !known {
		return task.Task{}, false
	}
	return h.run.Task, true
}

// hold sets what is known of a run that the worker has. If the session has stopped, nobody would end it. The caller holds mu.
func (s *session) hold(run string, h held) {
	if s.stopped {
		return
	}
	if _, known := s.held[run]; !known {
		s.o.Metrics.Running.Inc()
	}
	s.held[run] = h
}

// spare has the time begin again after which the worker counts as gone.
func (s *session) spare() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = clock.Now()
}

// dropLost ends the deliveries of runs whose lease is over and that Redis shows no longer: their attempts are lost, or have ended through another
// node. While Redis does not say so, as when it fails over, the worker may run them still.
func (s *session) dropLost(ctx context.Context) {
	lapsed := s.lapsed()
	if len(lapsed) == 0 {
		return
	}
	call, cancel := s.patience(ctx)
	defer cancel()
	current, err := s.o.Store.Tasks.Current(call, lapsed)
	if err != nil {
		return // it is tried again
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, run := range lapsed {
		if h, held := s.held[run.Task.Run]; held && clock.Until(h.until) < 0 && !current[i] {
			s.end(run.Task.Run, nil)
		}
	}
}

// lapsed are the runs whose lease is over.
func (s *session) lapsed() (runs []*tasks.Run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.held {
		if clock.Until(h.until) < 0 {
			runs = append(runs, h.run)
		}
	}
	return runs
}

// settle ends the delivery of a run.
func (s *session) settle(run string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = clock.Now()
	s.end(run, err)
}

// end ends the delivery of a run, if this session has one. The caller holds mu.
func (s *session) end(run string, err error) {
	h, ok := s.held[run]
	if !ok {
		return
	}
	delete(s.held, run)
	s.o.Metrics.Running.Dec()
	if h.delivery != nil {
		s.consumer.End(h.delivery, err)
	}
}
