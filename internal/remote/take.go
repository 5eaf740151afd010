package remote

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
)

const (
	beginBudget = 5 * time.Second        // how long a call tries to begin what it took
	beginPause  = 200 * time.Millisecond // between two tries
	runDigits   = 12                     // of a run token, which tell the runs of a worker apart
)

// ErrStopping as the cause of a context's end means that the caller still waits for the answer, and that there is no time to wait for
// attempts.
var ErrStopping = errors.New("the node stops")

// take takes up to limit attempts and begins them; it waits for the first one, for that time at most.
func (s *session) take(ctx context.Context, limit int, wait time.Duration) []*tasks.Run {
	waiting, cancel := context.WithTimeout(ctx, max(wait, time.Millisecond))
	defer cancel()
	defer context.AfterFunc(s.taking, cancel)()
	select {
	case s.turn <- struct{}{}:
	case <-waiting.Done():
		return nil
	}
	defer func() { <-s.turn }()
	s.consumer.Resume()
	defer s.consumer.Wait(s.work) // from now on other workers are woken for what this one is woken for
	for s.consumer.Await(waiting) == nil {
		begun := s.begin(ctx, s.consumer.Take(waiting, limit))
		if len(begun) == 0 {
			continue
		}
		if ctx.Err() != nil && !errors.Is(context.Cause(ctx), ErrStopping) {
			s.abandon(ctx, begun)
			return nil
		}
		return begun
	}
	return nil
}

// begin begins the attempts of deliveries, and returns those that it could. It asks Redis until there is an answer, for beginBudget
// at most; whatever may have begun then is recovered when its lease is over.
func (s *session) begin(ctx context.Context, taken []*queue.Taken) []*tasks.Run {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), beginBudget)
	defer cancel()
	starts := make([]tasks.Start, len(taken))
	for i, d := range taken {
		starts[i] = tasks.Start{Ref: d.Ref, Attempt: d.Attempt, Queue: d.Queue, Run: s.id + "#" + rand.Text()[:runDigits]}
	}
	var begun []*tasks.Run
	for len(starts) > 0 {
		var againStarts []tasks.Start
		var again []*queue.Taken
		for i, b := range s.o.Store.Tasks.BeginEach(ctx, tasks.Runner{Node: s.id, Types: s.offer.Types, Lease: s.offer.Lease}, starts) {
			switch {
			case b.Err == nil:
				s.keep(b.Run, taken[i])
				begun = append(begun, b.Run)
			case errors.Is(b.Err, tasks.ErrLeftover):
				s.consumer.End(taken[i], nil)
			case errors.Is(b.Err, tasks.ErrForeignType), ctx.Err() != nil: // it returns to its queue
				s.consumer.End(taken[i], b.Err)
			default:
				againStarts, again = append(againStarts, starts[i]), append(again, taken[i])
			}
		}
		starts, taken = againStarts, again
		if len(starts) > 0 {
			_ = clock.Sleep(ctx, beginPause)
		}
	}
	return begun
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
		s.settle(runs[i].Task.Run, nil)
	}
}
