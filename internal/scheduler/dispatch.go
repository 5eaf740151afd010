package scheduler

import (
	"context"
	"errors"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/handover"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/task"
)

const dispatchBudget = 5 * time.Second

// dispatch claims due tasks and enqueues their deliveries in asynq, until ctx ends or the lease is over. If a leader dies in
// between, or cannot enqueue, watch enqueues them later: the delivery's id makes that harmless.
func (t *term) dispatch(ctx context.Context) error {
	defer t.s.plan.tell(func(h *handover.Planner, _ time.Time) { h.Leave(t.partition) })
	var last partition.Claimed
	var got time.Time // when Redis answered the last claim
	due := true       // whether there may be due tasks on the wheel
	select {
	case <-ctx.Done():
	case <-t.s.limitsRead: // or it would claim beyond them
	}
	for ctx.Err() == nil {
		if err := t.settle(ctx); errors.Is(err, partition.ErrFenced) {
			return err
		} else if redisx.IsDamage(err) { // other tasks go on
			t.warn(ctx, "cannot count who holds slots of limits; their tasks wait", err)
		} else if err != nil {
			t.failed(ctx, "cannot count who holds slots of limits", err)
			continue
		}
		grant, ok := t.s.plan.grant(ctx, t.partition, due)
		if !ok {
			due = t.sleepUntilDue(ctx, last, got)
			continue
		}
		claimed, at, err := t.claimAndDeliver(ctx, grant)
		switch {
		case errors.Is(err, partition.ErrFenced):
			return err
		case err != nil:
			due = true
			t.failed(ctx, "cannot dispatch due tasks", err)
		default:
			last, got = claimed, at
			due = !claimed.Next.IsZero() && !claimed.Next.After(claimed.Now)
		}
	}
	return nil
}

// sleepUntilDue waits until the next task on the wheel is due or an earlier one comes, and returns true; or until there may be
// room for tasks that wait, or it is time to look which wait, and returns false.
func (t *term) sleepUntilDue(ctx context.Context, last partition.Claimed, got time.Time) bool {
	var due <-chan time.Time
	if !last.Next.IsZero() {
		timer := time.NewTimer(last.Next.Sub(last.Now) - clock.Since(got))
		defer timer.Stop()
		due = timer.C
	}
	var pause time.Duration
	t.s.plan.tell(func(h *handover.Planner, now time.Time) { pause = h.Pause(t.partition, now) })
	look := time.NewTimer(pause)
	defer look.Stop()
	select {
	case <-ctx.Done():
	case <-due:
	case <-t.s.wakes[t.partition]:
	case <-look.C:
		return false
	case <-t.s.roomWakes[t.partition]:
		return false
	}
	return true
}

// claimAndDeliver claims what was granted, and enqueues it. got is when Redis answered the claim.
func (t *term) claimAndDeliver(
	ctx context.Context, grant handover.Grant,
) (claimed partition.Claimed, got time.Time, _ error) {
	o := handover.Outcome{Claimed: make(map[handover.Lane]int)}
	defer t.s.plan.tell(func(h *handover.Planner, now time.Time) { h.Claimed(t.partition, grant, o, now) })
	claimed, err := t.leader.Claim(ctx, handover.ClaimLimit, grant, t.s.pace.lookFirst)
	got = clock.Now()
	// A lost reply may have claimed some, and a Redis that went back may have tasks that had ended.
	if err != nil || len(claimed.Deliveries) > 0 || claimed.Watched > 0 {
		signal(t.claimed)
	}
	if err != nil {
		return claimed, got, err
	}
	o.Found = claimed.Found
	grant.Count(o.Claimed, claimed.Deliveries)
	_, claimed.Deliveries = t.takeRuns(claimed.Deliveries)
	split, err := t.s.plan.split(ctx, claimed.Deliveries)
	served := split.Served
	failures := []error{t.unlessSharded(ctx, "cannot look for asynq's own servers", err)} // what nobody may serve is taken back
	if len(served) > 0 {
		t.s.o.Metrics.Claimed.Add(float64(len(served)))
		var room []time.Time
		t.s.plan.tell(func(h *handover.Planner, _ time.Time) { room = h.RoomSince(served) })
		handed := t.s.plan.handOver(ctx, served)
		o.Lengths = handed.Lengths
		failures = append(failures, t.unlessSharded(ctx, "cannot hand over due tasks", handed.Failure()))
		for i, err := range handed.Failures {
			if err == nil {
				due := got.Add(served[i].DueAt.Sub(claimed.Now)) // by the clock of this node
				late := min(handed.At[i].Sub(due), handed.At[i].Sub(room[i]))
				t.s.o.Metrics.DispatchLateness.Observe(late.Seconds())
				t.s.o.Tracer.HandOver(served[i], due, handed.At[i])
			}
		}
	}
	for _, d := range split.Unserved {
		o.Backlog[handover.Lane{Queue: d.Queue}] = time.Time{}
	}
	for _, d := range split.Apart {
		o.Backlog[handover.LaneOf(d)] = time.Time{}
	}
	failures = append(failures, t.takeBack(ctx, split.Unserved, split.Apart))
	return claimed, got, errors.Join(failures...)
}

// unlessSharded returns an error of Redis for which a partition pauses. In a cluster, the error of one server is no reason for others to pause, and
// nowhere is a damaged key of one queue: it warns of that, unless the server is late, and returns nil.
func (t *term) unlessSharded(ctx context.Context, message string, err error) error {
	if !t.s.o.DB.Sharded() && !redisx.IsDamage(err) {
		return err
	}
	if !errors.Is(err, redisx.ErrLate) {
		t.warn(ctx, message, err)
	}
	return nil
}

// takeBack takes back what was claimed and nobody can take: its queue has no workers, or they do not run its type.
func (t *term) takeBack(ctx context.Context, unserved, apart []task.Delivery) error {
	if len(unserved)+len(apart) == 0 {
		return nil
	}
	defer t.s.plan.tell(func(h *handover.Planner, _ time.Time) { h.TookBack(t.partition) })
	return errors.Join(t.leader.TakeBack(ctx, unserved, false), t.leader.TakeBack(ctx, apart, true))
}
