package scheduler

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/task"
)

const (
	claimLimit     = 256 // tasks claimed at once
	dispatchBudget = 5 * time.Second
)

// dispatch claims due tasks and enqueues their deliveries in asynq, until ctx ends or the lease is over. If a leader dies in
// between, or cannot enqueue, watch enqueues them later: the delivery's id makes that harmless.
func (t *term) dispatch(ctx context.Context) error {
	var last partition.Claimed
	var got time.Time // when Redis answered the last claim
	due := true       // whether there may be due tasks on the wheel
	for ctx.Err() == nil {
		room, err := t.s.rooms.reserve(ctx, t.backlog, claimLimit)
		if err == nil && !due && !room.Any(t.backlog) {
			t.s.rooms.release(room, nil)
			due = t.sleepUntilDue(ctx, last, got)
			continue
		}
		if err == nil {
			last, got, err = t.claimAndDeliver(ctx, room)
			due = !last.Next.IsZero() && !last.Next.After(last.Now)
		}
		switch {
		case errors.Is(err, partition.ErrFenced):
			return err
		case err != nil:
			due = true
			t.failed(ctx, "cannot dispatch due tasks", err)
		}
	}
	return nil
}

// sleepUntilDue waits until the next task on the wheel is due or an earlier one comes, and returns true; or until there may
// be room for the backlog, and returns false.
func (t *term) sleepUntilDue(ctx context.Context, last partition.Claimed, got time.Time) bool {
	var due, look <-chan time.Time
	if !last.Next.IsZero() {
		timer := time.NewTimer(last.Next.Sub(last.Now) - clock.Since(got))
		defer timer.Stop()
		due = timer.C
	}
	if len(t.backlog) > 0 {
		timer := time.NewTimer(t.s.pace.askRoom) // usually a worker tells it sooner
		defer timer.Stop()
		look = timer.C
	}
	select {
	case <-ctx.Done():
	case <-due:
	case <-t.s.wakes[t.partition]:
	case <-look:
		return false
	case <-t.s.roomWakes[t.partition]:
		return false
	}
	return true
}

// claimAndDeliver claims what there is room for, and enqueues it. got is when Redis answered the claim.
func (t *term) claimAndDeliver(ctx context.Context, room partition.Room) (claimed partition.Claimed, got time.Time, _ error) {
	counts := make(map[string]int)
	defer func() { t.s.rooms.release(room, counts) }()
	claimed, err := t.leader.Claim(ctx, claimLimit, room, t.s.pace.lookFirst)
	got = clock.Now()
	if err != nil || len(claimed.Deliveries) > 0 || claimed.Queued > 0 { // a lost reply may have claimed some
		signal(t.claimed)
	}
	if err != nil {
		return claimed, got, err
	}
	for _, d := range claimed.Deliveries {
		counts[d.Queue]++
	}
	t.setBacklog(claimed.Backlog)
	return claimed, got, t.deliver(ctx, claimed, counts, got)
}

// deliver enqueues what was claimed at the time got, that many of each queue, and takes back what nobody serves.
func (t *term) deliver(ctx context.Context, c partition.Claimed, counts map[string]int, got time.Time) error {
	if len(c.Deliveries) == 0 {
		return nil
	}
	served, unserved := t.s.rooms.unserved(c.Deliveries)
	if len(unserved) > 0 {
		if err := t.leader.TakeBack(ctx, unserved); err != nil {
			return err
		}
		backlog := slices.Clone(t.backlog)
		for _, d := range unserved {
			if !slices.Contains(backlog, d.Queue) {
				backlog = append(backlog, d.Queue)
			}
		}
		t.setBacklog(backlog)
	}
	t.s.o.Metrics.Claimed.Add(float64(len(served)))
	return t.enqueue(ctx, served, counts, func(d task.Delivery) {
		t.s.o.Metrics.DispatchLateness.Observe((c.Now.Sub(d.DueAt) + clock.Since(got)).Seconds())
	})
}

// enqueue enqueues deliveries in asynq, that many in each queue. It finishes even if ctx ends meanwhile, within
// dispatchBudget. done is called for each delivery that was enqueued.
func (t *term) enqueue(ctx context.Context, deliveries []task.Delivery, counts map[string]int, done func(task.Delivery)) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dispatchBudget)
	defer cancel()
	var failure error
	failures, lengths := t.s.o.Queues.HandOver(ctx, deliveries)
	t.s.rooms.note(counts, lengths)
	for i, err := range failures {
		if err != nil {
			failure = err // one of them is enough to log
			continue
		}
		done(deliveries[i])
	}
	return failure
}
