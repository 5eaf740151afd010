package remote

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
)

const (
	beginBudget = 5 * time.Second        // how long a call tries to begin what it took
	beginPause  = 200 * time.Millisecond // between two tries
	sizeBudget  = time.Second            // how long a call waits to hear how long tasks are
	runDigits   = 12                     // of a run token, which tell the runs of a worker apart
)

// ErrStopping as the cause of a context's end means that the caller still waits for the answer, and that there is no time to wait for
// attempts.
var ErrStopping = errors.New("the node stops")

// Request is one call of a worker for attempts.
type Request struct {
	ID    string        // tells a repeat, after an answer that was lost, from another call; "" if the call is not repeated
	Limit int           // most attempts, at least 1
	Wait  time.Duration // for the first one
	// Machine is that of the worker; nil if it does not say.
	Machine *cluster.Machine
	// Address is where the worker calls from. Workers of one address are bounded by Options.PerAddress.
	Address string
}

// take takes attempts and begins them. Error: CodeUnavailable.
func (s *session) take(ctx context.Context, r Request) ([]*tasks.Run, error) {
	waiting, cancel := context.WithTimeout(ctx, max(r.Wait, time.Millisecond))
	defer cancel()
	defer context.AfterFunc(s.taking, cancel)()
	if !s.await(waiting) {
		return nil, nil
	}
	defer func() { <-s.turn }()
	if again, err := s.repeat(ctx, r); len(again) > 0 || err != nil {
		return again, err
	}
	s.consumer.SetFree()
	defer s.consumer.SetBusy(s.work) // from now on other workers are woken for what this one is woken for
	for s.consumer.Await(waiting) == nil {
		begun, err := s.takeNow(ctx, waiting, r)
		if len(begun) == 0 && err == nil {
			continue
		}
		if r.ID == "" && gone(ctx) {
			s.abandon(ctx, begun)
			return nil, nil
		}
		return begun, err
	}
	return nil, nil
}

// await waits for the turn of a call, and takes it. It returns false without it if ctx ends before. A turn that is free is
// taken also then: a call that does not wait may repeat one whose attempts have begun.
func (s *session) await(ctx context.Context) bool {
	select {
	case s.turn <- struct{}{}:
		return true
	default:
	}
	select {
	case s.turn <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// gone reports whether the caller has hung up.
func gone(ctx context.Context) bool {
	return ctx.Err() != nil && !errors.Is(context.Cause(ctx), ErrStopping)
}

// giveBack returns deliveries whose attempts have not begun to their queues.
func (s *session) giveBack(taken []*queue.Taken) {
	for _, d := range taken {
		s.consumer.End(d, queue.ErrGiveBack)
	}
}

// fit returns as many deliveries as an answer of TakeBytes has room for, at least one. It returns the others to their
// queues.
func (s *session) fit(ctx context.Context, taken []*queue.Taken) []*queue.Taken {
	if len(taken)*tasks.SizeLimit <= TakeBytes {
		return taken
	}
	ctx, cancel := context.WithTimeout(ctx, sizeBudget)
	defer cancel()
	refs := make([]task.Ref, len(taken))
	for i, d := range taken {
		refs[i] = d.Ref
	}
	total := 0
	for i, size := range s.o.Store.Tasks.Sizes(ctx, refs) {
		if total += size; total > TakeBytes && i > 0 {
			s.giveBack(taken[i:])
			return taken[:i]
		}
	}
	return taken
}

// start is an attempt to begin, and its delivery; nil if another session has that.
type start struct {
	tasks.Start
	delivery *queue.Taken
}

// repeat returns the attempts that an earlier call with the same id has begun, or has not come to begin, and that the worker holds
// still; with new leases. Error: CodeUnavailable.
func (s *session) repeat(ctx context.Context, r Request) ([]*tasks.Run, error) {
	if r.ID == "" {
		return nil, nil
	}
	earlier, err := s.o.Store.Tasks.Taken(ctx, s.id, r.ID)
	if err != nil || len(earlier) == 0 {
		return nil, err
	}
	if err := s.note(ctx, r, earlier); err != nil { // for the next repeat, which may still find the note of the first call
		s.o.Log.Warn("cannot record which attempts a worker took: if it repeats the call once more, it may not get them", "worker", s.id, "error", err)
	}
	starts := make([]start, len(earlier))
	for i, e := range earlier {
		starts[i] = start{Start: e}
	}
	return s.begin(ctx, starts)
}

// takeNow takes what is there, notes it if the call may be repeated, and begins it. Error: CodeUnavailable.
func (s *session) takeNow(ctx, waiting context.Context, r Request) ([]*tasks.Run, error) {
	taken := s.fit(ctx, s.consumer.Take(waiting, min(r.Limit, TakeLimit)))
	if gone(ctx) {
		s.giveBack(taken)
		return nil, nil
	}
	starts, noted := make([]start, len(taken)), make([]tasks.Start, len(taken))
	for i, d := range taken {
		noted[i] = tasks.Start{Ref: d.Ref, Attempt: d.Attempt, Queue: d.Queue, Run: s.newRun()}
		starts[i] = start{noted[i], d}
	}
	if r.ID != "" && len(noted) > 0 {
		if err := s.note(ctx, r, noted); err != nil {
			s.giveBack(taken)
			return nil, err
		}
	}
	begun, err := s.begin(ctx, starts)
	if r.ID == "" { // what may have begun cannot be asked for again
		err = nil
	}
	return begun, err
}

// newRun makes the token of a run. It ends with the lease in ms, by which leaders know a lease that cannot be as long as it seems.
func (s *session) newRun() string {
	return fmt.Sprintf("%s#%s:%d", s.id, rand.Text()[:runDigits], s.offer.Lease.Milliseconds())
}

// note records what is about to begin, for as long as it may be held without a sign of the worker.
func (s *session) note(ctx context.Context, r Request, starts []tasks.Start) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(beginBudget, s.offer.Lease/2))
	defer cancel()
	return s.o.Store.Tasks.NoteTaken(ctx, s.id, r.ID, starts, s.offer.Lease+beginBudget)
}

// begin begins attempts, and returns those that it could, in their order. It asks Redis until there is an answer, for beginBudget at most, and half a lease,
// so that the worker hears of those that have begun, or repeats its call, before their leases are over; whatever may have begun then is recovered
// when its lease is over. Error: CodeUnavailable if there are such.
func (s *session) begin(ctx context.Context, starts []start) ([]*tasks.Run, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(beginBudget, s.offer.Lease/2))
	defer cancel()
	who := tasks.Runner{Node: s.id, Types: s.offer.Types, Lease: s.offer.Lease}
	all, begun := starts, make(map[string]*tasks.Run, len(starts)) // by run token
	var failure error
	for len(starts) > 0 {
		calls := make([]tasks.Start, len(starts))
		for i, one := range starts {
			calls[i] = one.Start
		}
		var again []start
		results := s.o.Store.Tasks.BeginEach(ctx, who, calls)
		for i, b := range results {
			if b.Err == nil { // if Redis loses that while it is confirmed, it is told again
				b.Run.Limit = b.Run.Task.StartedAt.Add(s.o.Types.Timeout(b.Run.Task.Definition) + Grace)
				s.keep(b.Run, starts[i].delivery)
			}
		}
		s.o.Store.Tasks.ConfirmBegun(ctx, results)
		for i, b := range results {
			switch {
			case b.Err == nil:
				begun[starts[i].Run] = b.Run
			case errors.Is(b.Err, tasks.ErrLeftover):
				s.drop(starts[i], nil)
			case errors.Is(b.Err, tasks.ErrForeignType):
				s.drop(starts[i], b.Err)
			case ctx.Err() != nil:
				failure = &task.Error{Code: task.CodeUnavailable, Message: "attempts may not have begun: try again", Err: b.Err}
				s.drop(starts[i], b.Err)
			default:
				again = append(again, starts[i])
			}
		}
		if starts = again; len(starts) > 0 {
			_ = clock.Sleep(ctx, beginPause)
		}
	}
	var runs []*tasks.Run
	for _, one := range all {
		if r, ok := begun[one.Run]; ok {
			runs = append(runs, r)
		}
	}
	return runs, failure
}

// drop ends the delivery of an attempt that has not begun, or lost that it had; nil if this session has none. It returns to its queue if there
// is an error.
func (s *session) drop(one start, err error) {
	if err == nil && one.delivery != nil {
		s.o.Metrics.Leftovers.Inc()
	}
	s.mu.Lock()
	_, kept := s.held[one.Run]
	s.end(one.Run, err)
	s.mu.Unlock()
	if !kept && one.delivery != nil {
		s.consumer.End(one.delivery, err)
	}
}

// abandon ends attempts whose worker has gone before it heard of them. Those that cannot be ended are lost when their lease is over.
func (s *session) abandon(ctx context.Context, runs []*tasks.Run) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), beginBudget)
	defer cancel()
	ends := make([]tasks.End, len(runs))
	for i, r := range runs {
		e := tasks.Ending{Outcome: task.OutcomeLost, Reason: "worker " + s.id + " was gone before it heard of the attempt"}
		ends[i] = r.End(e, r.Task.StartedAt, 0)
	}
	for i, err := range s.o.Store.Tasks.FinishEach(ctx, ends) {
		if err != nil {
			s.o.Log.Warn("cannot end the attempt of a worker that is gone", "task", runs[i].Task.Ref.String(), "error", err)
		}
		s.workers.CountEnd(runs[i].Task.Type, task.OutcomeLost, 0)
		s.settle(runs[i].Task.Run, nil)
	}
}
