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

// ErrFenced is returned if the leader's lease is over: nothing was written.
var ErrFenced = errors.New("the lease of the partition is not held any more")

// freshness is the lateness from which on a task counts as backlog, behind which what is due now must not starve.
const freshness = time.Second

// Leader changes one partition for as long as the lease with its fence is held. Every method that writes returns
// ErrFenced once it is not.
type Leader struct {
	*Partition
	fence lua.Fence
}

// Claimed is what a claim brought.
type Claimed struct {
	Deliveries []task.Delivery
	Now        time.Time // Redis's time of the claim
	Next       time.Time // when the next task is due; zero if none waits
	InFlight   int       // deliveries that are not confirmed, these included: more, if an earlier claim's answer was lost
}

// Lead returns the partition with the right to change it, under the fence of its lease (see package lease).
func (p *Partition) Lead(fence lua.Fence) *Leader { return &Leader{Partition: p, fence: fence} }

// Claim takes up to limit due tasks off the wheel and marks them queued; they are in flight until confirmed.
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

// deliveries reads what was claimed. A claim that cannot be read stays in flight, where InFlight settles it.
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

// Confirm records that deliveries, by name, are in asynq.
func (l *Leader) Confirm(ctx context.Context, names []string) error {
	if len(names) == 0 {
		return nil
	}
	_, err := redisx.Run(ctx, l.o.Layout.DB, lua.Confirm{
		Lease: l.keys.Lease(), InFlight: l.keys.InFlight(), Fence: l.fence, Deliveries: names,
	})
	return fenced(err)
}

// Reap ends the attempt of a worker that died with the outcome lost. The next attempt is due at once; without one, the task
// has failed; if it had been asked to stop, it is cancelled. A task that has moved on meanwhile stays as it is: that is no
// error. now is the time of Redis.
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

func (l *Leader) reap(ctx context.Context, t task.Task, to task.State, reason string) error {
	k := l.keys
	reply, err := redisx.Run(ctx, l.o.Layout.DB, lua.Reap{
		Lease: k.Lease(), Task: k.Task(t.Ref), Running: k.Running(), Attempts: k.Attempts(t.Ref), Wheel: k.Wheel(),
		Index: k.Index(t.Namespace, to), Expiry: k.Expiry(),
		Fence: l.fence, Member: t.Ref, Attempt: t.Attempt, Run: lua.RunToken(t.Run), State: to,
		Error: task.Cut(reason, task.ErrorLimit), Retention: t.EffectiveRetention(to), Events: l.o.Layout.Keys.Events(), Wake: l.o.Layout.Keys.Wake(),
	})
	l.o.Tasks.WarnOfPause(ctx, t.Ref, reply.Paused)
	return err
}

// Swept is what a sweep did and found.
type Swept struct {
	Forgotten    int
	Due          int // tasks on the wheel that are due and not yet claimed
	DueSchedules int // schedules that have to be looked at
}

// Sweep forgets up to limit finished tasks: those whose retention is over, and those next to it beyond keep.
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

func fenced(err error) error {
	if redisx.RefusedWith(err, lua.CodeFenced) {
		return fmt.Errorf("%w: %w", ErrFenced, err)
	}
	return err
}
