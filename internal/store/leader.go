package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// ErrFenced: this leader's lease is over; whatever it wanted to write is not written.
var ErrFenced = errors.New("the lease of the partition is not held any more")

// freshness is the lateness from which on a task counts as backlog, behind which what is due now must not starve.
const freshness = time.Second

// Leader is the right to change one partition, for as long as the lease with that fence is held. Every method
// that writes returns ErrFenced once it is not.
type Leader struct {
	s     *Store
	p     int
	keys  lua.Partition
	fence lua.Fence
}

// Claimed is what a claim brought.
type Claimed struct {
	Deliveries []task.Delivery
	Now        time.Time // Redis's time of the claim
	Next       time.Time // when the next task is due; zero if none waits
	InFlight   int       // deliveries that are not confirmed, these included: more, if an earlier claim's answer was lost
}

// Lead acts as the leader of a partition under a fence (see package lease).
func (s *Store) Lead(partition int, fence lua.Fence) *Leader {
	return &Leader{s: s, p: partition, keys: s.keys.Partition(partition), fence: fence}
}

// Claim takes up to limit due tasks off the wheel and marks them queued; they are in flight until confirmed.
func (l *Leader) Claim(ctx context.Context, limit int) (Claimed, error) {
	k := l.keys
	reply, err := redisx.Run(ctx, l.s.db, lua.Claim{
		Lease: k.Lease(), Wheel: k.Wheel(), Queued: k.Queued(), InFlight: k.InFlight(),
		Fence: l.fence, Limit: limit, Fresh: freshness, Events: l.s.keys.Events(),
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
		d, errHead := decodeHead(ref, []byte(c.Head))
		if err := errors.Join(err, errHead); err != nil {
			l.s.log.ErrorContext(ctx, "skipping unreadable claim", "task", c.Member, "error", err)
			continue
		}
		deliveries = append(deliveries, l.delivery(d, c.Attempt, c.Due))
	}
	return deliveries
}

func (l *Leader) delivery(d task.Definition, attempt int, due time.Time) task.Delivery {
	return task.Delivery{Ref: d.Ref, Attempt: attempt, Type: d.Type, Queue: d.Queue, Timeout: l.s.types.Timeout(d), DueAt: due}
}

// Confirm says that deliveries are in asynq.
func (l *Leader) Confirm(ctx context.Context, names []string) error {
	if len(names) == 0 {
		return nil
	}
	_, err := redisx.Run(ctx, l.s.db, lua.Confirm{
		Lease: l.keys.Lease(), InFlight: l.keys.InFlight(), Fence: l.fence, Deliveries: names,
	})
	return fenced(err)
}

// InFlight reads what was claimed and not confirmed: the deliveries to repeat, and the names of those that need
// none any more because their attempt has moved on.
func (l *Leader) InFlight(ctx context.Context) (repeat []task.Delivery, settled []string, _ error) {
	names, err := l.s.db.ZRange(ctx, string(l.keys.InFlight()), 0, -1).Result()
	if err != nil || len(names) == 0 {
		return nil, nil, err
	}
	waiting, err := l.waiting(ctx, names)
	if err != nil {
		return nil, nil, err
	}
	for i, name := range names {
		if waiting[i] == nil {
			settled = append(settled, name)
		} else {
			repeat = append(repeat, *waiting[i])
		}
	}
	return repeat, settled, nil
}

// Queued looks at up to limit queued tasks from the position after and answers those that were claimed longer
// than age ago and have not begun, and the position to go on from: 0 at the end.
func (l *Leader) Queued(ctx context.Context, age time.Duration, after, limit int64) ([]task.Delivery, int64, error) {
	entries, err := l.s.db.ZRangeWithScores(ctx, string(l.keys.Queued()), after, after+limit-1).Result()
	if err != nil || len(entries) == 0 {
		return nil, 0, err
	}
	now, err := l.s.db.Time(ctx).Result()
	if err != nil {
		return nil, 0, err
	}
	var old []string
	for _, e := range entries {
		if int64(e.Score) <= now.Add(-age).UnixMilli() {
			old = append(old, text(e.Member))
		}
	}
	tasks, err := l.tasks(ctx, old)
	if err != nil {
		return nil, 0, err
	}
	var found []task.Delivery
	for _, t := range tasks {
		if t.State == task.Queued {
			found = append(found, l.delivery(t.Definition, t.Attempt, t.DueAt))
		}
	}
	if int64(len(old)) < limit {
		return found, 0, nil
	}
	return found, after + limit, nil
}

// Running reads the running tasks of the partition.
func (l *Leader) Running(ctx context.Context) ([]task.Task, error) {
	members, err := l.s.db.ZRange(ctx, string(l.keys.Running()), 0, -1).Result()
	if err != nil {
		return nil, err
	}
	return l.tasks(ctx, members)
}

// Reap ends the attempt of a worker that died: the outcome is lost, and the next attempt is due at once or, if
// there is none left, the task has failed; if it had been asked to stop, it is cancelled. A task that has moved
// on in the meantime is left alone, without an error.
func (l *Leader) Reap(ctx context.Context, t task.Task, reason string) error {
	to := task.Scheduled
	if t.Attempt >= t.MaxAttempts {
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
	reply, err := redisx.Run(ctx, l.s.db, lua.Reap{
		Lease: k.Lease(), Task: k.Task(t.Ref), Running: k.Running(), Attempts: k.Attempts(t.Ref), Wheel: k.Wheel(),
		Index: k.Index(t.Namespace, to), Expiry: k.Expiry(),
		Fence: l.fence, Member: t.Ref, Attempt: t.Attempt, Run: lua.RunToken(t.Run), State: to,
		Error: task.Cut(reason, task.ErrorLimit), Retention: t.EffectiveRetention(to), Events: l.s.keys.Events(), Wake: l.s.keys.Wake(),
	})
	l.s.warnOfPause(ctx, t.Ref, reply.Paused)
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
	reply, err := redisx.Run(ctx, l.s.db, lua.Sweep{
		Lease: k.Lease(), Expiry: k.Expiry(), Wheel: k.Wheel(), Ticks: k.Ticks(), Fence: l.fence, Keep: keep, Limit: limit,
	})
	if err != nil {
		return Swept{}, fenced(err)
	}
	return Swept{Forgotten: reply.Forgotten, Due: reply.DueTasks, DueSchedules: reply.DueSchedules}, nil
}

// Now is the time of Redis.
func (l *Leader) Now(ctx context.Context) (time.Time, error) { return l.s.db.Time(ctx).Result() }

// Depth is how much is in a partition.
type Depth struct {
	Scheduled, Overdue, Queued, InFlight, Running, Finished int64
	Schedules, ActiveSchedules, OverdueSchedules            int64 // active: neither paused nor ended
}

// Depth counts what is in the partition.
func (l *Leader) Depth(ctx context.Context) (Depth, error) {
	now, err := l.s.db.Time(ctx).Result()
	if err != nil {
		return Depth{}, err
	}
	k := l.keys
	pipe := l.s.db.Pipeline()
	by := strconv.FormatInt(now.UnixMilli(), 10)
	scheduled, overdue := pipe.ZCard(ctx, string(k.Wheel())), pipe.ZCount(ctx, string(k.Wheel()), "-inf", by)
	schedules, active, overdueSchedules := pipe.ZCard(ctx, string(k.Schedules())), pipe.ZCard(ctx, string(k.Ticks())), pipe.ZCount(ctx, string(k.Ticks()), "-inf", by)
	queued, inflight := pipe.ZCard(ctx, string(k.Queued())), pipe.ZCard(ctx, string(k.InFlight()))
	running, finished := pipe.ZCard(ctx, string(k.Running())), pipe.ZCard(ctx, string(k.Expiry()))
	if _, err := pipe.Exec(ctx); err != nil {
		return Depth{}, err
	}
	return Depth{
		Scheduled: scheduled.Val(), Overdue: overdue.Val(), Queued: queued.Val(), InFlight: inflight.Val(),
		Running: running.Val(), Finished: finished.Val(), Schedules: schedules.Val(), ActiveSchedules: active.Val(), OverdueSchedules: overdueSchedules.Val(),
	}, nil
}

// tasks reads the tasks of members of this partition; those that are gone are left out.
func (l *Leader) tasks(ctx context.Context, members []string) ([]task.Task, error) {
	refs := make([]task.Ref, 0, len(members))
	for _, m := range members {
		ref, err := task.ParseRef(m)
		if err != nil {
			l.s.log.ErrorContext(ctx, "passing over an entry", "partition", l.p, "error", err)
			continue
		}
		refs = append(refs, ref)
	}
	return l.s.getEach(ctx, refs)
}

// waiting answers, for each delivery by name, what is to be delivered, or nil if its attempt is not queued.
func (l *Leader) waiting(ctx context.Context, names []string) ([]*task.Delivery, error) {
	var members []string
	for _, name := range names {
		if ref, _, err := task.ParseDelivery(name); err == nil {
			members = append(members, ref.String())
		}
	}
	tasks, err := l.tasks(ctx, members)
	if err != nil {
		return nil, err
	}
	queued := make(map[string]*task.Delivery, len(tasks))
	for _, t := range tasks {
		if d := l.delivery(t.Definition, t.Attempt, t.DueAt); t.State == task.Queued {
			queued[d.String()] = &d
		}
	}
	found := make([]*task.Delivery, len(names))
	for i, name := range names {
		found[i] = queued[name]
	}
	return found, nil
}

func fenced(err error) error {
	if redisx.RefusedWith(err, lua.CodeFenced) {
		return fmt.Errorf("%w: %w", ErrFenced, err)
	}
	return err
}
