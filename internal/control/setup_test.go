package control

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/handover"
	"github.com/dts-sched/dts/internal/lease/leasetest"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// fence is the lease on all partitions of a world.
const fence = "1:tester"

var (
	me      = Caller{Namespace: "default"}
	nightly = task.Ref{Namespace: "default", ID: "nightly"}
)

// world is the use cases on a Redis of their own, with nobody else at work: tests do by hand what leaders and workers do.
type world struct {
	*Control
	t      *testing.T
	ctx    context.Context
	server *redistest.Server
	db     *redisx.DB
}

func newWorld(t *testing.T) *world {
	t.Helper()
	server := redistest.Start(t)
	w := &world{t: t, ctx: t.Context(), server: server, db: server.DB(t)}
	w.Control = w.open(w.db)
	for p := range w.store.Partitions.Count() {
		leasetest.Grant(t, w.db, w.store.Partitions.LeaseKey(p), fence, 0)
	}
	return w
}

// open makes use cases that work over a client.
func (w *world) open(db *redisx.DB) *Control {
	w.t.Helper()
	s, err := store.Open(w.ctx, store.Options{DB: db, Partitions: 2})
	testkit.Must(w.t, err)
	return New(Options{Store: s, Queues: queue.New(queue.Options{DB: db})})
}

// key is the key of that kind that belongs to a schedule.
func (w *world) key(ref task.Ref, kind string) string {
	return w.partitionKey(ref, kind+":"+ref.String())
}

// partitionKey is a key of the partition of a task or schedule.
func (w *world) partitionKey(ref task.Ref, kind string) string {
	return fmt.Sprintf("dts:{%d}:%s", w.store.PartitionOf(ref), kind)
}

func z(score float64, member string) redis.Z { return redis.Z{Score: score, Member: member} }

func (w *world) submit(defs []task.Definition) []Submitted {
	w.t.Helper()
	answers, err := w.SubmitEach(w.ctx, me, defs)
	testkit.Must(w.t, err)
	return answers
}

// daily is a schedule whose next tick is far away, whatever the time is.
func daily(change func(*schedule.Definition)) schedule.Definition {
	d := schedule.Definition{
		Ref: nightly, Spec: schedule.Spec{Rules: []schedule.Rule{{Every: 24 * time.Hour}}},
		Task: task.Definition{Type: "http"},
	}
	if change != nil {
		change(&d)
	}
	return d
}

func (w *world) put(d schedule.Definition) {
	w.t.Helper()
	_, err := w.PutSchedule(w.ctx, me, d, PutOptions{})
	testkit.Must(w.t, err)
}

func (w *world) schedule(ref task.Ref) schedule.Schedule {
	w.t.Helper()
	s, err := w.GetSchedule(w.ctx, me, ref.ID)
	testkit.Must(w.t, err)
	return s
}

// rewind makes a schedule that much older, with nobody having looked at it since.
func (w *world) rewind(ref task.Ref, by time.Duration) {
	w.t.Helper()
	s := w.schedule(ref)
	testkit.Must(w.t, w.db.HSet(w.ctx, w.key(ref, "schedule"), "created", s.CreatedAt.Add(-by).UnixMilli(),
		"from", s.UpdatedAt.Add(-by).UnixMilli(), "cursor", s.Cursor.Add(-by).UnixMilli()).Err())
	testkit.Must(w.t, w.db.ZAdd(w.ctx, w.partitionKey(ref, "ticks"), z(0, ref.String())).Err())
}

// now is the time of Redis.
func (w *world) now() time.Time {
	w.t.Helper()
	now, err := w.store.Now(w.ctx, 0)
	testkit.Must(w.t, err)
	return now
}

// lookNow lets the leader look at a schedule, whether a tick is due or not.
func (w *world) lookNow(ref task.Ref) {
	w.t.Helper()
	testkit.Must(w.t, w.db.ZAdd(w.ctx, w.partitionKey(ref, "ticks"), z(0, ref.String())).Err())
	w.fire(ref)
}

// hourly makes n ticks of an hourly schedule due, and returns their names.
func (w *world) hourly(n int, change func(*schedule.Definition)) []string {
	w.t.Helper()
	w.put(daily(func(d *schedule.Definition) {
		d.Rules = []schedule.Rule{{Every: time.Hour}}
		d.Misfire = schedule.Misfire{Policy: schedule.MisfireAll, Window: 1000 * time.Hour}
		if change != nil {
			change(d)
		}
	}))
	w.rewind(nightly, time.Duration(n)*time.Hour+time.Minute)
	created := w.schedule(nightly).CreatedAt
	var names []string
	for i := range n {
		names = append(names, schedule.TickName(created.Add(time.Duration(i+1)*time.Hour)))
	}
	return names
}

// fire does what the leader does about schedules that are due, until none is.
func (w *world) fire(ref task.Ref) []partition.Ticked {
	w.t.Helper()
	leader := w.store.Partitions.At(w.store.PartitionOf(ref)).Lead(fence)
	var all []partition.Ticked
	for {
		due, err := leader.Due(w.ctx, 10, false)
		testkit.Must(w.t, err)
		if len(due.Agendas) == 0 {
			return all
		}
		var plans []partition.Planned
		for _, a := range due.Agendas {
			plans = append(plans, partition.Planned{Agenda: a, Plan: schedule.MakePlan(a.Agenda)})
		}
		for _, fired := range leader.Fire(w.ctx, plans) {
			testkit.Must(w.t, fired.Err)
			all = append(all, fired.Ticked...)
		}
	}
}

// claim does what the leader does about tasks that are due: it marks them queued and puts their deliveries into asynq.
func (w *world) claim(ref task.Ref) {
	w.t.Helper()
	testkit.Must(w.t, w.db.ZAddXX(w.ctx, w.partitionKey(ref, "wheel"), z(0, ref.String())).Err())
	claimed, err := w.store.Partitions.At(w.store.PartitionOf(ref)).Lead(fence).Claim(w.ctx, 100, handover.Grant{Default: 1000}, time.Second)
	testkit.Must(w.t, err)
	for _, d := range claimed.Deliveries {
		testkit.Must(w.t, w.queues.HandOver(w.ctx, []task.Delivery{d}, nil).Failure())
	}
}

// pending returns how many deliveries wait in a queue of asynq.
func (w *world) pending(queue string) int {
	w.t.Helper()
	queues, err := w.ListQueues(w.ctx, me)
	testkit.Must(w.t, err)
	for _, q := range queues {
		if q.Name == queue {
			return q.Pending
		}
	}
	return 0
}

// begun lets a worker begin the first attempt of a task.
func (w *world) begun(ref task.Ref) *tasks.Run {
	w.t.Helper()
	w.claim(ref)
	run, err := w.store.Tasks.Begin(w.ctx, ref, 1, "node#"+ref.ID)
	testkit.Must(w.t, err)
	return run
}

// end runs the task of a tick to its end.
func (w *world) end(ref task.Ref, tick string, final task.State) {
	w.t.Helper()
	run := w.begun(task.Ref{Namespace: ref.Namespace, ID: ref.ID + "@" + tick})
	outcome := map[task.State]task.Outcome{task.Succeeded: task.OutcomeSucceeded, task.Failed: task.OutcomeFailed}[final]
	testkit.Must(w.t, run.Finish(w.ctx, final, outcome, "", ""))
}

// recorded returns the outcomes in the ledger, oldest tick first.
func (w *world) recorded(ref task.Ref) []schedule.Outcome {
	w.t.Helper()
	page, err := w.Ledger(w.ctx, me, ref.ID, LedgerFilter{}, 10_000, "")
	testkit.Must(w.t, err)
	var all []schedule.Outcome
	for _, e := range slices.Backward(page.Entries) {
		all = append(all, e.Outcome)
	}
	return all
}

// tasksOf returns the states of the tasks of a schedule, by id.
func (w *world) tasksOf(ref task.Ref) map[string]task.State {
	w.t.Helper()
	page, err := w.ListTasks(w.ctx, me, TaskFilter{Schedule: ref.ID}, 500, "")
	testkit.Must(w.t, err)
	states := make(map[string]task.State)
	for _, t := range page.Tasks {
		states[t.ID] = t.State
	}
	return states
}
