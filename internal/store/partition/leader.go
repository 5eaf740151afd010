package partition

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/handover"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/telemetry"
	"github.com/dts-sched/dts/lua"
)

// ErrFenced is returned if the leader does not hold the partition's lease any more. Nothing was written.
var ErrFenced = errors.New("the lease of the partition is not held any more")

// Leader changes one partition while its lease has the leader's fence. Afterwards, every method that runs a script returns
// ErrFenced.
type Leader struct {
	*Partition
	fence   lua.Fence
	skipped telemetry.Seldom // schedules that the log has named
}

// Claimed is the result of a claim.
type Claimed struct {
	Deliveries []task.Delivery
	Now        time.Time // Redis's time of the claim
	Next       time.Time // when the next task on the wheel is due; zero if there is none
	Watched    int       // number of queued and running tasks, without these
	handover.Found
}

// Lead returns the partition with the right to change it, under the fence of its lease (see package lease).
func (p *Partition) Lead(fence lua.Fence) *Leader { return &Leader{Partition: p, fence: fence} }

// Claim takes up to limit due tasks, as many of each lane as its quota says, and queues them; other due tasks wait. While
// more are due than it looks at, it also takes newly due ones, up to an eighth of limit. LookAfter returns those that no
// worker has begun within look. Errors: ErrFenced, or an error of Redis, after which tasks may have been claimed.
func (l *Leader) Claim(ctx context.Context, limit int, g handover.Grant, look time.Duration) (Claimed, error) {
	k := l.keys
	call := lua.Claim{
		Lease: k.Lease(), Wheel: k.Wheel(), Fence: l.fence, Limit: limit, Quota: g.Default, Look: look,
		Served: g.Served, Known: g.Known, Closed: "", Rules: "", Caps: capsText(g.Slots), Nodes: "", Unnamed: g.Unnamed,
		Events: l.o.Layout.Keys.Events(), Wake: l.o.Layout.Keys.Wake(l.number), Quotas: nil,
	}
	if g.Limits != nil {
		call.Rules = g.Limits.Text()
	}
	var closed []string
	for lane, q := range g.Lanes {
		name := nameOf(lane)
		if len(q.Nodes) > 0 {
			call.Nodes += name + "\t" + strings.Join(q.Nodes, " ") + "\n"
		}
		if q.Number > 0 {
			call.Quotas = append(call.Quotas, lua.ClaimQuota{Queue: name, Number: q.Number, Upto: q.UpTo})
		} else if lane.Reach == "" { // without nodes, none of these is taken
			closed = append(closed, name)
		}
	}
	call.Closed = lua.ClosedText(closed)
	// A queue that may get few must not find that others have used up the limit.
	slices.SortFunc(call.Quotas, func(a, b lua.ClaimQuota) int { return cmp.Compare(a.Number, b.Number) })
	reply, err := redisx.Run(ctx, l.o.Layout.DB, call)
	if err != nil {
		return Claimed{}, fenced(err)
	}
	claimed := Claimed{
		Now: reply.Now, Next: reply.Next, Watched: reply.Watched, Deliveries: l.deliveries(ctx, reply.Claims, reply.Now),
		Found: handover.Found{Backlog: make(handover.Backlog, len(reply.Backlog)), Unnamed: reply.Unnamed, Numbers: make(map[handover.Lane]int)},
	}
	place(claimed.Deliveries, reply.Placed)
	for _, b := range reply.Backlog {
		lane := laneOf(b.Queue)
		claimed.Backlog[lane] = b.Oldest
		if lane.Limits != "" {
			claimed.Numbers[lane] = b.Number
		}
	}
	claimed.Slots = capsOf(reply.Slots)
	for _, name := range reply.Apart {
		claimed.Apart = append(claimed.Apart, laneOf(name))
	}
	return claimed, nil
}

// place notes to which nodes deliveries go, and of those that were given up their reach. Both are in the order of the
// claim.
func place(deliveries []task.Delivery, placed []lua.ClaimPlaced) {
	for i := range deliveries {
		d := &deliveries[i]
		if len(placed) > 0 && d.Ref.String() == placed[0].Member {
			d.Node, d.Reach, placed = placed[0].Node, cmp.Or(placed[0].Reach, d.Reach), placed[1:]
		}
	}
}

// laneOf returns the lane of that name.
func laneOf(name string) handover.Lane {
	l := lua.ParseLane(name)
	return handover.Lane{
		Queue: l.Queue, Type: l.Type, Reach: l.Reach,
		Fair: handover.Fair{Key: l.Key, Weight: l.Weight, Limits: l.Limits},
	}
}

// nameOf returns the name of a lane.
func nameOf(lane handover.Lane) string {
	return lua.Lane{
		Queue: lane.Queue, Type: lane.Type, Key: lane.Key, Weight: lane.Weight, Limits: lane.Limits,
		Reach: lane.Reach,
	}.Name()
}

// TakeBack takes tasks back that Claim has queued and whose deliveries no worker can take: they wait as if they had not been
// claimed, in their queues or, if lane is set, in their lanes. Errors: ErrFenced, or an error of Redis.
func (l *Leader) TakeBack(ctx context.Context, deliveries []task.Delivery, lane bool) error {
	if len(deliveries) == 0 {
		return nil
	}
	call := lua.TakeBack{
		Lease: l.keys.Lease(), States: l.keys.States(), Fence: l.fence, Events: l.o.Layout.Keys.Events(),
		Wake: l.o.Layout.Keys.Wake(l.number), Deliveries: nil,
	}
	for _, d := range deliveries {
		call.Deliveries = append(call.Deliveries, lua.TakeBackDelivery{Member: d.Ref, Attempt: d.Attempt, Lane: lane})
	}
	_, err := redisx.Run(ctx, l.o.Layout.DB, call)
	return fenced(err)
}

// deliveries decodes claims, which were made at the time now. An unreadable claim is skipped.
func (l *Leader) deliveries(ctx context.Context, claims []lua.ClaimClaim, now time.Time) []task.Delivery {
	deliveries := make([]task.Delivery, 0, len(claims))
	for _, c := range claims {
		ref, err := task.ParseRef(c.Member)
		d, errHead := codec.DecodeHead(ref, []byte(c.Head))
		if err := cmp.Or(err, errHead, codec.CheckNames(d)); err != nil {
			l.o.Layout.Log.ErrorContext(ctx, "skipping unreadable claim", "task", c.Member, "error", err)
			continue
		}
		deliveries = append(deliveries, l.delivery(d, c.Attempt, c.Due, now))
	}
	return deliveries
}

// Watched is what a leader must look after.
type Watched struct {
	Lapsed  []task.Task     // running, and the lease of the run is over; without payload
	Waiting []task.Delivery // of tasks that no worker has begun for a while, in order of their due time
	Queued  []task.Task     // the tasks of these, without payload
	Damaged []task.Task     // queued, and nobody can run them, as their definitions cannot be read
	Now     time.Time       // Redis's time
	Next    time.Time       // when to look again; zero if nothing is queued and nothing runs
	More    bool            // there may be more to look after at once
	Until   time.Time       // when the leases of the lapsed runs end now; Reap needs it
}

// Look says what LookAfter looks at.
type Look struct {
	Again     time.Duration // until it returns the same task again; a queued one that has waited long already, later
	Limit     int           // most runs, and most queued tasks
	Cut       bool          // the clock of Redis may have been set back: cut leases and times that are farther ahead than they can be
	SpareRuns bool          // return no runs, as their workers may have been unable to extend their leases
	All       bool          // return all queued tasks: nothing could be done for some of those that the last look returned
}

// LookAfter reads runs whose lease is over, and queued tasks whose delivery may be lost. Errors: ErrFenced, or an error of Redis.
func (l *Leader) LookAfter(ctx context.Context, look Look) (Watched, error) {
	k := l.keys
	reply, err := redisx.Run(ctx, l.o.Layout.DB, lua.LookAfter{
		Lease: k.Lease(), Queued: k.Queued(), Held: k.Held(), Fence: l.fence, Again: look.Again, Limit: look.Limit,
		LeaseOfNodes: l.o.Tasks.RunLease(), Cut: look.Cut, Spare: look.SpareRuns, All: look.All,
	})
	if err != nil {
		return Watched{}, fenced(err)
	}
	w := Watched{Now: reply.Now, Next: reply.Next, More: reply.More, Until: reply.Now.Add(look.Again)}
	for _, found := range reply.Lapsed {
		if t, ok := l.watched(ctx, found.Member, found.Record, found.State); ok && t.State == task.Running {
			w.Lapsed = append(w.Lapsed, t) // its run ends, even if its definition cannot be read
		}
	}
	for _, found := range reply.Waiting {
		t, ok := l.watched(ctx, found.Member, found.Record, found.State)
		switch {
		case !ok || t.State != task.Queued:
		case t.Damage != "":
			w.Damaged = append(w.Damaged, t)
		default:
			w.Queued = append(w.Queued, t)
		}
	}
	slices.SortStableFunc(w.Queued, func(a, b task.Task) int { return a.DueAt.Compare(b.DueAt) })
	for _, t := range w.Queued {
		d := l.delivery(t.Definition, t.Attempt, t.DueAt, t.QueuedAt)
		d.Node = t.Placed
		w.Waiting = append(w.Waiting, d)
	}
	return w, nil
}

// watched decodes a task without payload. ok is false if its name or its state cannot be read.
func (l *Leader) watched(ctx context.Context, member, record, state string) (task.Task, bool) {
	ref, err := task.ParseRef(member)
	t := codec.DecodeTask(ref, codec.Record{Definition: record, State: state, RetriesSince: l.o.Layout.RetriesSince()})
	if err != nil || t.State == task.Unreadable {
		l.o.Layout.Log.ErrorContext(ctx, "skipping unreadable task", "task", member, "error", cmp.Or(t.Damage, fmt.Sprint(err)))
		return task.Task{}, false
	}
	return t, true
}

// Loss says why an attempt counts as lost, and what follows. The zero value has another attempt be due at once.
type Loss struct {
	Reason string      // the error of the attempt
	Due    time.Time   // of the next attempt, by the clock of Redis; zero: at once
	Deaths task.Deaths // of the workers of the newest attempts; if they say that the task is poison, it gets no other attempt
}

// Reap ends the running attempt of a worker that died or has lost the attempt, with the outcome lost. The task is then
// scheduled; failed, if it may make no further attempt, or cannot be read; or cancelled, if it was asked to stop. t is the
// task as it was read; now is the time of Redis. Errors: tasks.ErrStale if the attempt has ended in the meantime, or its lease does not end at
// until any more, and nothing was changed; ErrFenced; or an error of Redis.
func (l *Leader) Reap(ctx context.Context, t task.Task, now, until time.Time, loss Loss) error {
	if loss.Due.Before(now) {
		loss.Due = now
	}
	to := task.Scheduled
	if _, again := t.NextAttempt(task.OutcomeLost, loss.Due, 0, 0); !again || t.Damage != "" || loss.Deaths.Poison() {
		to = task.Failed
	}
	err := l.reap(ctx, t, to, until, loss)
	if redisx.RefusedWith(err, lua.CodeCancelled) {
		to = task.Cancelled
		err = l.reap(ctx, t, to, until, loss)
	}
	if err == nil {
		l.o.Tasks.LogLoss(ctx, t, to, loss.Due, loss.Deaths.Poison(), loss.Reason)
		l.o.Tasks.CountEnd(t, to, task.OutcomeLost, loss.Reason)
	}
	if redisx.RefusedWith(err, lua.CodeState, lua.CodeStale, lua.CodeNotFound, lua.CodeHeld) {
		return fmt.Errorf("task %s, attempt %d: %w", t.Ref, t.Attempt, tasks.ErrStale)
	}
	return fenced(err)
}

// reap ends the attempt and brings the task into the state to. Its error may be a refusal.
func (l *Leader) reap(ctx context.Context, t task.Task, to task.State, until time.Time, loss Loss) error {
	k := l.keys
	reply, err := redisx.Run(ctx, l.o.Layout.DB, lua.Reap{
		Lease: k.Lease(), States: k.States(), Fence: l.fence, Member: t.Ref, Attempt: t.Attempt, Run: lua.RunToken(t.Run), State: to,
		LeaseEnd: until, Reason: task.CutError(loss.Reason, task.ErrorLimit), Due: loss.Due, Retention: t.EffectiveRetention(to),
		Events: l.o.Layout.Keys.Events(), Wake: l.o.Layout.Keys.Wake(l.number),
	})
	l.o.Tasks.WarnIfPaused(ctx, t.Ref, reply.Paused)
	return err
}

// Swept is the result of a sweep.
type Swept struct {
	Deleted      int           // tasks
	Forgotten    int           // names of tasks that were deleted before
	Early        int           // those of them that were forgotten before their time
	Shortest     time.Duration // how long the last one of these was remembered after the end of its task
	Due          int           // scheduled tasks that are due and not claimed yet
	DueSchedules int           // schedules that are due and not planned yet
	Outbox       int           // entries of the outbox that are due
}

// Keep is what a partition keeps of the past.
type Keep struct {
	Tasks    int           // finished ones at most
	Remember time.Duration // how long after its end the name of a task is taken at least
	Names    int           // of deleted tasks at most
}

// Sweep deletes up to limit finished tasks: those whose retention is over, and those nearest to it while too many are stored; and forgets
// up to limit names of tasks that were deleted before. Errors: ErrFenced, or an error of Redis.
func (l *Leader) Sweep(ctx context.Context, keep Keep, limit int) (Swept, error) {
	k := l.keys
	reply, err := redisx.Run(ctx, l.o.Layout.DB, lua.Sweep{
		Lease: k.Lease(), Expiry: k.Expiry(), Wheel: k.Wheel(), Ticks: k.Ticks(), Fence: l.fence, Keep: keep.Tasks, Limit: limit,
		Remember: keep.Remember, RememberLimit: keep.Names, Wake: l.o.Layout.Keys.Wake(l.number),
	})
	if err != nil {
		return Swept{}, fenced(err)
	}
	return Swept{
		Deleted: reply.Deleted, Forgotten: reply.Forgotten, Early: reply.Early, Shortest: reply.Shortest,
		Due: reply.DueTasks, DueSchedules: reply.DueSchedules, Outbox: reply.Outbox,
	}, nil
}

// fenced adds ErrFenced to a refusal for the fence. Other errors stay as they are.
func fenced(err error) error {
	if redisx.RefusedWith(err, lua.CodeFenced) {
		return fmt.Errorf("%w: %w", ErrFenced, err)
	}
	return err
}
