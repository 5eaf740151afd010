package partition

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// ErrFenced is returned if the leader does not hold the partition's lease any more. Nothing was written.
var ErrFenced = errors.New("the lease of the partition is not held any more")

// freshness is the lateness beyond which a task counts as backlog. A part of each claim is kept for tasks that are less
// late, so that a backlog does not starve them.
const freshness = time.Second

// Leader changes one partition while its lease has the leader's fence. Afterwards, every method that runs a script returns
// ErrFenced.
type Leader struct {
	*Partition
	fence lua.Fence
}

// Claimed is the result of a claim.
type Claimed struct {
	Deliveries []task.Delivery
	Now        time.Time // Redis's time of the claim
	Next       time.Time // when the next task is due; zero if no task is scheduled
	InFlight   int       // number of unconfirmed deliveries, including these; greater if the reply to an earlier claim was lost
}

// Lead returns the partition with the right to change it, under the fence of its lease (see package lease).
func (p *Partition) Lead(fence lua.Fence) *Leader { return &Leader{Partition: p, fence: fence} }

// Claim takes up to limit due tasks off the wheel and queues them. Their deliveries are in flight until Confirm.
// Errors: ErrFenced, or an error of Redis, after which tasks may have been claimed.
func (l *Leader) Claim(ctx context.Context, limit int) (Claimed, error) {
	k := l.keys
	reply, err := redisx.Run(ctx, l.o.Layout.DB, lua.Claim{
		Lease: k.Lease(), Wheel: k.Wheel(), Queued: k.Queued(), InFlight: k.InFlight(),
		Fence: l.fence, Limit: limit, Fresh: freshness, Events: l.o.Layout.Keys.Events(),
	})
	if err != nil {
		return Claimed{}, fenced(err)
	}
	return Claimed{Now: reply.Now, Next: reply.Next, InFlight: reply.InFlight, Deliveries: l.deliveries(ctx, reply.Claims)}, nil
}

// deliveries decodes claims. An unreadable claim is skipped; it stays in flight until InFlight reports it as settled.
func (l *Leader) deliveries(ctx context.Context, claims []lua.ClaimClaim) []task.Delivery {
	deliveries := make([]task.Delivery, 0, len(claims))
	for _, c := range claims {
		ref, err := task.ParseRef(c.Member)
		d, errHead := codec.DecodeHead(ref, []byte(c.Head))
		if err := errors.Join(err, errHead); err != nil {
			l.o.Layout.Log.ErrorContext(ctx, "skipping unreadable claim", "task", c.Member, "error", err)
			continue
		}
		deliveries = append(deliveries, l.delivery(d, c.Attempt, c.Due))
	}
	return deliveries
}

// Confirm records that deliveries, given by name, are in asynq. Errors: ErrFenced, or an error of Redis.
func (l *Leader) Confirm(ctx context.Context, names []string) error {
	if len(names) == 0 {
		return nil
	}
	_, err := redisx.Run(ctx, l.o.Layout.DB, lua.Confirm{
		Lease: l.keys.Lease(), InFlight: l.keys.InFlight(), Fence: l.fence, Deliveries: names,
	})
	return fenced(err)
}

// Reap ends the running attempt of a worker that died or has lost the attempt, with the outcome lost and reason as the
// error. The task is then scheduled, due at once; failed, if it may make no further attempt; or cancelled, if it was asked
// to stop. If the attempt has ended in the meantime, Reap changes nothing and returns nil. t is the task as it was read; now is the time of Redis.
// Errors: ErrFenced, or an error of Redis.
func (l *Leader) Reap(ctx context.Context, t task.Task, now time.Time, reason string) error {
	to := task.Scheduled
	if _, again := t.NextAttempt(task.OutcomeLost, now, 0); !again {
		to = task.Failed
	}
	err := l.reap(ctx, t, to, reason)
	if redisx.RefusedWith(err, lua.CodeCancelled) {
		err = l.reap(ctx, t, task.Cancelled, reason)
	}
	if redisx.RefusedWith(err, lua.CodeState, lua.CodeStale, lua.CodeNotFound) {
		return nil
	}
	return fenced(err)
}

// reap ends the attempt and brings the task into the state to. Its error may be a refusal.
func (l *Leader) reap(ctx context.Context, t task.Task, to task.State, reason string) error {
	k := l.keys
	reply, err := redisx.Run(ctx, l.o.Layout.DB, lua.Reap{
		Lease: k.Lease(), Task: k.Task(t.Ref), Running: k.Running(), Attempts: k.Attempts(t.Ref), Wheel: k.Wheel(),
		Index: k.Index(t.Namespace, to), Expiry: k.Expiry(),
		Fence: l.fence, Member: t.Ref, Attempt: t.Attempt, Run: lua.RunToken(t.Run), State: to,
		Reason: task.Cut(reason, task.ErrorLimit), Retention: t.EffectiveRetention(to),
		Events: l.o.Layout.Keys.Events(), Wake: l.o.Layout.Keys.Wake(),
	})
	l.o.Tasks.WarnIfPaused(ctx, t.Ref, reply.Paused)
	return err
}

// Swept is the result of a sweep.
type Swept struct {
	Forgotten    int // tasks that were deleted
	Due          int // scheduled tasks that are due and not claimed yet
	DueSchedules int // schedules that are due and not planned yet
}

// Sweep deletes up to limit finished tasks: those whose retention is over, and those nearest to it while more than keep
// are stored. Errors: ErrFenced, or an error of Redis.
func (l *Leader) Sweep(ctx context.Context, keep, limit int) (Swept, error) {
	k := l.keys
	reply, err := redisx.Run(ctx, l.o.Layout.DB, lua.Sweep{
		Lease: k.Lease(), Expiry: k.Expiry(), Wheel: k.Wheel(), Ticks: k.Ticks(), Fence: l.fence, Keep: keep, Limit: limit,
	})
	if err != nil {
		return Swept{}, fenced(err)
	}
	return Swept{Forgotten: reply.Forgotten, Due: reply.DueTasks, DueSchedules: reply.DueSchedules}, nil
}

// fenced adds ErrFenced to a refusal for the fence. Other errors stay as they are.
func fenced(err error) error {
	if redisx.RefusedWith(err, lua.CodeFenced) {
		return fmt.Errorf("%w: %w", ErrFenced, err)
	}
	return err
}
