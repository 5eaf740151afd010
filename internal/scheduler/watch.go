package scheduler

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/handover"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
)

// watchLimit is the most tasks of each kind that are looked after at once: as many as a claim takes. Tasks that are looked after
// together are handed over in order of their due time.
const watchLimit = handover.ClaimLimit

// watch looks after what was claimed: it ends runs whose lease is over, because their worker died or has lost them, and
// enqueues deliveries again that no worker has begun for a while. It looks when the first of these times comes, and sleeps
// while nothing is queued and nothing runs: everything that does has been claimed by this leader or found at its first look. After an
// outage of Redis it gives the workers time to begin what they had taken, and then more time, as after a jump of its clock, to extend their
// runs (contact). Its first look, and that after a jump, cuts what seems to last too long.
func (t *term) watch(ctx context.Context) error {
	l := lookout{term: t, jumps: -1}
	for ctx.Err() == nil {
		if rest := t.recovering(); rest > 0 {
			_ = clock.Sleep(ctx, rest)
			continue
		}
		if err := l.look(ctx); err != nil {
			return err
		}
	}
	return nil
}

// lookout is what a term remembers from one look to the next.
type lookout struct {
	*term
	jumps int  // how often the clock had jumped
	all   bool // something that was found may still be lost
}

// look looks once, recovers what it finds, and waits until it is time for the next look. Error: partition.ErrFenced; it logs others.
func (l *lookout) look(ctx context.Context) error {
	jumps, _ := l.s.contact.jumps(l.partition)
	spared := max(l.missing(), 0)
	start := clock.Now()
	w, err := l.leader.LookAfter(ctx, partition.Look{
		Again: l.s.pace.lookAgain, Limit: watchLimit, Cut: jumps != l.jumps, SpareRuns: spared > 0, All: l.all,
	})
	got := clock.Now()
	switch {
	case errors.Is(err, partition.ErrFenced):
		return err
	case err != nil:
		l.all = true // Redis may have looked, or will when it goes on
		l.failed(ctx, "cannot look after queued and running tasks", err)
		return nil
	}
	l.jumps = jumps
	l.s.contact.observe(l.partition, reading{w.Now, start, got})
	if l.all = l.recovering() > 0; l.all { // the answer was late
		return nil
	}
	if l.missing() > 0 {
		w.Lapsed = nil
	}
	err = l.recoverLost(ctx, w)
	if errors.Is(err, partition.ErrFenced) {
		return err
	}
	l.warn(ctx, "cannot look after queued and running tasks", err)
	if l.all = err != nil; l.all || !w.More {
		l.sleepUntilLook(ctx, w.Now, nextLook(w, spared), got)
	}
	return nil
}

// recovering returns for how long no delivery may be taken for lost; 0 or less: any may.
func (t *term) recovering() time.Duration {
	if t.s.o.Unhurried {
		return 0
	}
	return t.s.contact.recovering(t.partition, t.s.pace.lookFirst)
}

// missing returns for how long no run may be taken for lost; 0 or less: any may.
func (t *term) missing() time.Duration {
	if t.s.o.Unhurried {
		return 0
	}
	return t.s.contact.missing(t.partition)
}

// nextLook returns when to look again after a look that spared runs for some time, by the clock of Redis; zero: not before something is claimed.
func nextLook(w partition.Watched, spared time.Duration) time.Time {
	judged := w.Now.Add(spared)
	if spared > 0 && (w.Next.IsZero() || judged.Before(w.Next)) {
		return judged
	}
	return w.Next
}

// sleepUntilLook waits until the time of the next look, but no longer than a claim's deliveries may wait once something is
// claimed. now and next are Redis's times; it was now when this node got the answer.
func (t *term) sleepUntilLook(ctx context.Context, now, next, got time.Time) {
	var due <-chan time.Time
	timer := time.NewTimer(next.Sub(now) - clock.Since(got))
	defer timer.Stop()
	if !next.IsZero() {
		due = timer.C
	}
	var claimed <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-due:
			return
		case <-claimed:
			return
		case <-t.s.lookWakes[t.partition]:
			return
		case <-t.claimed:
			if claimed == nil {
				first := time.NewTimer(t.s.pace.lookFirst)
				defer first.Stop()
				claimed = first.C
			}
		}
	}
}

// recoverLost ends lapsed runs and enqueues deliveries that wait. If it fails for one, it goes on with the others.
func (t *term) recoverLost(ctx context.Context, w partition.Watched) error {
	if taken, _ := t.takeRuns(w.Waiting); len(taken) > 0 {
		forget(&w, taken)
	}
	failures := []error{t.reapLapsed(ctx, w), t.parkUnrunnable(ctx, &w)}
	t.s.o.Metrics.Restored.Add(float64(len(w.Waiting)))
	handed := t.s.plan.handOver(ctx, w.Waiting)
	failures = append(failures, handed.Failure())
	for i, end := range handed.Ended {
		failures = append(failures, t.endHandled(ctx, w.Queued[i], end, w.Now))
	}
	for _, damaged := range w.Damaged {
		t.s.o.Log.Error("a task failed that cannot be read", "task", damaged.Ref.String(), "error", damaged.Damage)
		failures = append(failures, t.endHandled(ctx, damaged, queue.Ended{Error: damaged.Damage}, w.Now))
	}
	return errors.Join(failures...)
}

// parkUnrunnable takes back tasks whose deliveries wait in asynq though no worker can run them any more. There they would
// take the room of others, and could not be counted. What one node alone was to take and has not comes back, too: it may
// go to another one. For a while, a task of several slots does so only if it would. A delivery that somebody has taken
// stays as it is.
func (t *term) parkUnrunnable(ctx context.Context, w *partition.Watched) error {
	s, err := t.s.plan.split(ctx, w.Waiting)
	if err != nil { // somebody may serve them
		s.Unserved = nil
		s.Apart = slices.DeleteFunc(s.Apart, func(d task.Delivery) bool { return d.Reach == "" })
	}
	unserved, errUnserved := t.recall(ctx, w, s.Unserved)
	placed := slices.DeleteFunc(slices.Clone(s.Served), func(d task.Delivery) bool { return d.Node == "" })
	t.s.plan.tell(func(h *handover.Planner, now time.Time) {
		placed = slices.DeleteFunc(placed, func(d task.Delivery) bool { return h.Stays(d, w.Now.Sub(d.ClaimedAt), now) })
	})
	apart, errApart := t.recall(ctx, w, append(s.Apart, placed...))
	t.s.plan.tell(func(h *handover.Planner, now time.Time) { h.Left(apart, now) })
	err = errors.Join(err, t.takeBack(ctx, unserved, apart))
	if len(unserved)+len(apart) > 0 {
		t.s.wake(t.partition) // so that a claim sees what waits
	}
	return errors.Join(errUnserved, errApart, err)
}

// recall takes deliveries back that nobody has taken, from the queues whose servers answer.
func (t *term) recall(ctx context.Context, w *partition.Watched, deliveries []task.Delivery) ([]task.Delivery, error) {
	var reachable []task.Delivery
	t.s.plan.tell(func(h *handover.Planner, _ time.Time) {
		for _, d := range deliveries {
			if h.Server(d.Via()) == handover.Answers {
				reachable = append(reachable, d)
			}
		}
	})
	if len(reachable) == 0 {
		return nil, nil
	}
	recalled, err := t.s.o.Queues.Recall(ctx, reachable)
	forget(w, recalled)
	return recalled, err
}

// forget removes deliveries from those that wait.
func forget(w *partition.Watched, deliveries []task.Delivery) {
	gone := make(map[string]bool, len(deliveries))
	for _, d := range deliveries {
		gone[d.String()] = true
	}
	waiting, queued := w.Waiting, w.Queued
	w.Waiting, w.Queued = nil, nil
	for i, d := range waiting {
		if !gone[d.String()] {
			w.Waiting, w.Queued = append(w.Waiting, d), append(w.Queued, queued[i])
		}
	}
}

// reapLapsed ends lapsed runs, but not those that have ended or were extended since the look, and those that must wait for the next
// one. Error: one for each that it could not end.
func (t *term) reapLapsed(ctx context.Context, w partition.Watched) error {
	var failures []error
	reaped := 0
	known := &fates{members: t.s.o.Members, lease: t.s.o.Store.Tasks.RunLease(), now: w.Now}
	for _, lapsed := range w.Lapsed {
		loss, ok := t.lossOf(ctx, lapsed, known)
		if !ok {
			continue
		}
		switch err := t.reap(ctx, lapsed, w, loss); {
		case err == nil:
			reaped++
		case !errors.Is(err, tasks.ErrStale):
			failures = append(failures, err)
		}
	}
	if reaped > 0 {
		t.s.wake(t.partition)
	}
	return errors.Join(failures...)
}

// reap ends a lapsed run. Errors: those of partition.Leader.Reap.
func (t *term) reap(ctx context.Context, lapsed task.Task, w partition.Watched, loss partition.Loss) error {
	if err := t.leader.Reap(ctx, lapsed, w.Now, w.Until, loss); err != nil {
		return err
	}
	t.s.o.Metrics.Reaped.Inc()
	if loss.Deaths.Poison() {
		t.s.o.Metrics.Poison.Inc()
	}
	t.s.losses.add(lapsed.Node, lapsed.Ref, loss.Deaths)
	return nil
}

// foreignRun is the run of an attempt that one of asynq's own servers has made.
const foreignRun = "asynq#1"

// endHandled ends the attempt of a queued task as one of asynq's own servers has handled its delivery, or as nobody can run it.
func (t *term) endHandled(ctx context.Context, queued task.Task, end queue.Ended, now time.Time) error {
	queued.Run = foreignRun
	run := t.s.o.Store.Tasks.RunOf(queued)
	run.Foreign = true
	e := tasks.Ending{Outcome: task.OutcomeFailed, Reason: end.Error, Timeout: queued.Timeout}
	if end.Succeeded {
		e = tasks.Ending{Outcome: task.OutcomeSucceeded, Result: end.Result}
	}
	ended := run.End(e, now, rand.Float64())
	err := t.s.o.Store.Tasks.FinishEach(ctx, []tasks.End{ended})[0]
	if errors.Is(err, tasks.ErrTick) {
		e, _ = e.After(err)
		ended = run.End(e, now, 0)
		err = t.s.o.Store.Tasks.FinishEach(ctx, []tasks.End{ended})[0]
	}
	if err != nil && !errors.Is(err, tasks.ErrStale) {
		return fmt.Errorf("ending what a server of asynq has handled: %w", err)
	}
	if ended.State == task.Failed { // the delivery stays in asynq as a dead letter
		return nil
	}
	return t.s.o.Queues.Settle(ctx, task.Delivery{Ref: queued.Ref, Attempt: queued.Attempt, Queue: queued.Queue, Node: queued.Placed})
}
