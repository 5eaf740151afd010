package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// run is an attempt as the worker saw it. What the worker remembers is not in Redis.
type run struct {
	ref          task.Ref
	attempt      int
	due          time.Time // as the task has it
	begun, ended time.Time
	cancelled    bool
}

// standIn does the work of a worker: it takes deliveries out of asynq's queue, begins their attempts, lets the time go
// by that they take, and reports. The real one would have asynq look for deliveries fifty times a second.
type standIn struct {
	t       *testing.T
	way     *way // of those who wait for something: only a cut ends that
	mortal  bool // all that it sends takes that way
	db      *redisx.DB
	store   *store.Store
	members *cluster.Registry
	cancel  context.CancelFunc
	working sync.WaitGroup

	mu    sync.Mutex
	takes func(t task.Task) (time.Duration, error) // how long a task takes, and how it ends
	delay time.Duration                            // from the order to stop to the end of a task
	runs  []run
	stops map[task.Ref]context.CancelFunc // of what runs
	tells int                             // how often it reports each end, a minute after the time before
}

// employ starts the worker. Its tasks take no time and end well, until does says otherwise.
func (v *voyage) employ() *standIn {
	v.t.Helper()
	w := &standIn{t: v.t, way: newWay(v.redis), db: v.db, store: v.store, stops: make(map[task.Ref]context.CancelFunc)}
	w.does(func(task.Task) (time.Duration, error) { return 0, nil })
	w.members = v.member("worker", config.RoleWorker, 12*time.Hour, v.db)
	w.serve(v.open(w.way.dial))
	return w
}

// hire has a worker in place of the one before, which is dead or leaves. All that it sends takes its own way to Redis, so
// that it can die, and its word that it runs an attempt holds for ten minutes.
func (v *voyage) hire() {
	v.t.Helper()
	before := v.worker
	before.leave()
	v.named++
	w := &standIn{t: v.t, mortal: true, way: newWay(v.redis), stops: make(map[task.Ref]context.CancelFunc)}
	w.takes, w.delay, w.runs = before.takes, before.delay, before.runs
	w.db = v.open(w.way.dial)
	var err error
	w.store, err = store.Open(v.t.Context(), store.Options{DB: w.db, Partitions: 1, RunLease: 10 * time.Minute})
	testkit.Must(v.t, err)
	for _, delivery := range v.db.LRange(v.t.Context(), activeKey, 0, -1).Val() { // asynq's word for them is over
		v.db.ZAdd(v.t.Context(), deadlineKey, redis.Z{Score: float64(clock.Now().Unix()), Member: delivery})
	}
	w.members = v.member(fmt.Sprintf("worker-%04d", v.named), config.RoleWorker, 12*time.Hour, w.db)
	w.serve(v.open(w.way.dial))
	v.worker = w
}

// serve takes deliveries with that client until the worker leaves.
func (w *standIn) serve(waiting *redisx.DB) {
	var ctx context.Context
	ctx, w.cancel = context.WithCancel(context.Background())
	w.working.Go(func() { _ = w.members.Run(ctx) })
	<-w.members.Ready()
	listening := make(chan struct{})
	var once sync.Once
	w.working.Go(func() {
		_ = w.store.Tasks.ListenStops(ctx, func() { once.Do(func() { close(listening) }) }, func(ref task.Ref, _ int) { w.stop(ref) })
	})
	<-listening
	w.working.Go(func() { w.take(ctx, waiting) })
}

// does says what becomes of the tasks from now on.
func (w *standIn) does(takes func(t task.Task) (time.Duration, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.takes = takes
}

// lingers says how long tasks take to stop after they were told to.
func (w *standIn) lingers(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.delay = d
}

// leave ends the worker and waits for what it is doing.
func (w *standIn) leave() {
	w.way.cut()
	w.cancel()
	w.working.Wait()
}

const (
	pendingKey = "asynq:{default}:pending"
	activeKey  = "asynq:{default}:active"

	deadlineKey = "asynq:{default}:lease"
)

// take takes deliveries until the way is cut.
func (w *standIn) take(ctx context.Context, db *redisx.DB) {
	for {
		name, err := db.BRPopLPush(ctx, pendingKey, activeKey, 0).Result()
		switch {
		case w.way.isCut():
			return
		case err != nil:
			w.t.Errorf("taking a delivery: %v", err)
			return
		}
		w.working.Go(func() {
			if err := w.work(name); err != nil && !(w.mortal && w.way.isCut()) {
				w.t.Errorf("delivery %s: %v", name, err)
			}
		})
	}
}

// handlings counts how often a delivery was handled: each handling needs a token of its own, as a delivery can come twice.
var handlings atomic.Int64

func (w *standIn) work(name string) error {
	ctx := context.Background()
	ref, attempt, err := task.ParseDelivery(name)
	if err != nil {
		return err
	}
	// It names its lease, as workers by HTTP do: the first look of a leader cuts leases that are longer than they can be.
	token := fmt.Sprintf("worker#%d:%d", handlings.Add(1), w.store.Tasks.RunLease().Milliseconds())
	run, err := w.store.Tasks.Begin(ctx, ref, attempt, token)
	if errors.Is(err, tasks.ErrLeftover) {
		return w.done(name)
	} else if err != nil {
		return err
	}
	if err := w.perform(run); err != nil {
		return err
	}
	return w.done(name)
}

// perform lets the time go by that the task takes and reports its end.
func (w *standIn) perform(r *tasks.Run) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	i, takes, delay := w.begun(r.Task, stop)
	lasts, failure := takes(r.Task)
	err := clock.Sleep(ctx, lasts)
	if err != nil {
		_ = clock.Sleep(context.Background(), delay)
	}
	w.ended(i, err != nil)
	e := tasks.Ending{Outcome: task.OutcomeSucceeded}
	switch {
	case err != nil:
		e.Outcome = task.OutcomeCancelled
	case failure != nil:
		e = tasks.Ending{Outcome: task.OutcomeFailed, Reason: failure.Error(), Timeout: task.Types{}.Timeout(r.Task.Definition)}
	}
	for again := true; again; {
		err = w.store.Tasks.FinishEach(context.Background(), []tasks.End{r.End(e, clock.Now(), 0.5)})[0]
		e, again = e.After(err)
	}
	for range w.tells - 1 { // as if no reply had come
		_ = clock.Sleep(context.Background(), time.Minute)
		_ = w.store.Tasks.FinishEach(context.Background(), []tasks.End{r.End(e, clock.Now(), 0.5)})
	}
	return err
}

func (w *standIn) begun(t task.Task, stop context.CancelFunc) (int, func(task.Task) (time.Duration, error), time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stops[t.Ref] = stop
	w.runs = append(w.runs, run{ref: t.Ref, attempt: t.Attempt, due: t.DueAt, begun: clock.Now().UTC()})
	return len(w.runs) - 1, w.takes, w.delay
}

func (w *standIn) ended(i int, cancelled bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.stops, w.runs[i].ref)
	w.runs[i].ended, w.runs[i].cancelled = clock.Now().UTC(), cancelled
}

func (w *standIn) stop(ref task.Ref) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if stop := w.stops[ref]; stop != nil {
		stop()
	}
}

// done removes a delivery from asynq.
func (w *standIn) done(name string) error {
	pipe := w.db.Pipeline()
	pipe.LRem(context.Background(), activeKey, 1, name)
	pipe.Del(context.Background(), "asynq:{default}:t:"+name)
	if _, err := pipe.Exec(context.Background()); err != nil {
		return fmt.Errorf("removing it from asynq: %w", err)
	}
	return nil
}

// saw is what the worker remembers, in the order of the beginnings.
func (w *standIn) saw() []run {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]run(nil), w.runs...)
}
