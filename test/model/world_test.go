package model

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/workflow"
	"github.com/dts-sched/dts/lua"
)

const (
	long = 10 * time.Hour // every lease and every delay: time passes only when the world lets it
	ago  = 100 * time.Hour
	each = time.Hour // between two ticks
)

// world is a real Redis with the real scripts, in which the events of a trace happen. Time passes by moving the data back: what has
// a time in Redis gets an earlier one.
type world struct {
	*storetest.World
	t      testing.TB
	ctx    context.Context
	m      *Model
	queues *queue.Queues
	clock  uint8 // ticks that have come
	refs   [maxTasks]task.Ref
	began  time.Time // when the schedule was created; its tick k is that many hours later

	// What stands for the ids of the model.
	fences    map[ID]lua.Fence
	runs      map[ID]string
	ends      map[endOf]time.Time // when tasks have ended
	begun     map[ID]*tasks.Run
	claims    [maxTasks]map[ID]int64 // ms
	leaseEnds [maxTasks]map[ID]int64 // ms

	owners    [maxLeaders]string
	copyOwner string // of a copy of acquire_lease
	agendas   map[uint8]partition.Agenda
	flow      *workflow.Flow
	reads     map[FlowRead]flowRead // what leaders have read
	count     int                   // makes names and times unique
	replica   *replica
}

// replica is what a replica of Redis has.
type replica struct {
	keys      []frozen
	leaseEnds [maxTasks]map[ID]int64
}

// endOf is an end of a task.
type endOf struct {
	task, attempt uint8
	state         TaskState
}

// frozen is a key as DUMP has it.
type frozen struct {
	key, value string
	ttl        time.Duration
}

// newWorld returns the world of the beginning, on that Redis.
func newWorld(t testing.TB, db *redisx.DB, m *Model) *world {
	t.Helper()
	testkit.Must(t, db.FlushDB(t.Context()).Err())
	w := &world{
		World: storetest.On(t, db), t: t, ctx: t.Context(), m: m, queues: queue.New(queue.Options{DB: db}),
		fences: make(map[ID]lua.Fence), runs: map[ID]string{runFlow: task.FlowRun, runForeign: "asynq#1", runLost: "", runUnknown: "#"},
		ends: make(map[endOf]time.Time), begun: make(map[ID]*tasks.Run), agendas: make(map[uint8]partition.Agenda),
	}
	for p := range w.Partitions.Count() { // nobody leads
		key := string(w.Partitions.LeaseKey(p))
		testkit.Must(t, db.Del(w.ctx, key, key+":"+string(storetest.Fence)).Err())
	}
	for i := range w.claims {
		w.claims[i], w.leaseEnds[i] = make(map[ID]int64), make(map[ID]int64)
	}
	for i := range w.owners {
		w.owners[i] = w.name("node")
	}
	if m.Ticks > 0 {
		w.putSchedule()
		return w
	}
	for i := range w.refs {
		w.refs[i] = w.NameIn(w.PartitionOf(storetest.Nightly), "default", fmt.Sprintf("task-%d", i))
	}
	if m.Steps > 0 {
		w.submitRun()
	}
	return w
}

func (w *world) putSchedule() {
	overlap := map[Overlap]schedule.Overlap{Skip: schedule.OverlapSkip, Queue: schedule.OverlapQueue}[w.m.Overlap]
	w.Put(storetest.Daily(func(d *schedule.Definition) {
		d.Rules = []schedule.Rule{{Every: each}}
		d.Overlap = overlap
		d.Misfire = schedule.Misfire{Policy: schedule.MisfireAll, Window: 10 * ago}
		d.Task.Retry, d.Task.OnEnd = w.retry(), w.onEnd()
	}))
	w.Rewind(storetest.Nightly, ago)
	w.began = w.Schedule(storetest.Nightly).CreatedAt
	for i := range w.refs {
		w.refs[i] = task.Ref{Namespace: "default", ID: storetest.Nightly.ID + "@" + schedule.TickName(w.tick(uint8(i)+1))}
	}
	w.score(string(w.keys().Ticks()), storetest.Nightly.String(), w.tick(1).UnixMilli())
}

func (w *world) tick(k uint8) time.Time { return w.began.Add(time.Duration(k) * each) }

// decidedUpTo is the cursor of the schedule when it has decided k ticks, and the time of Redis while k ticks have come.
func (w *world) decidedUpTo(k uint8) time.Time {
	if k == 0 {
		return w.began
	}
	return w.tick(k).Add(time.Second)
}

func (w *world) retry() task.Retry {
	delays := make([]time.Duration, w.m.Attempts-1)
	for i := range delays {
		delays[i] = long
	}
	return task.Retry{MaxAttempts: w.m.Attempts, Delays: delays}
}

// definition is a task that a client submits.
func (w *world) definition(of uint8) task.Definition {
	return task.Definition{
		Ref: w.refs[of], Type: "http", Queue: w.queueOf(of), Delay: long, Retry: w.retry(), OnEnd: w.onEnd(),
	}
}

// onEnd is what follows every task; nil for nothing.
func (w *world) onEnd() *task.FollowUp {
	if !w.m.Follow {
		return nil
	}
	return &task.FollowUp{When: task.WhenEnded, Task: task.Definition{Type: "mail", Queue: "mails", Delay: long}}
}

// followUp is what follows the end of a task.
func (w *world) followUp(of, attempt uint8, state TaskState) (task.Definition, string) {
	w.t.Helper()
	d, _ := task.Task{Definition: w.definition(of)}.Follow(int(attempt), states[state])
	def, err := codec.EncodeDefinition(d)
	testkit.Must(w.t, err)
	return d, def
}

func (w *world) keys() lua.Partition { return w.KeysOf(storetest.Nightly) }

func (w *world) asynq(task uint8) lua.AsynqQueue { return lua.AsynqQueue(w.queueOf(task)) }

// queueOf is the queue of a task. Each has its own, but those of the schedule.
func (w *world) queueOf(of uint8) string {
	switch {
	case w.m.Ticks > 0:
		return "default"
	case w.m.isOwn(of):
		return task.WorkflowQueue
	}
	return fmt.Sprintf("queue-%d", of)
}

func (w *world) name(kind string) string {
	w.count++
	return fmt.Sprintf("%s-%d", kind, w.count)
}

func (w *world) leader(c Call) *partition.Leader {
	return w.Partitions.At(w.PartitionOf(storetest.Nightly)).Lead(w.fences[c.Fence])
}

// score sets the score of a member that a sorted set has.
func (w *world) score(set, member string, score int64) {
	w.t.Helper()
	testkit.Must(w.t, w.DB.ZAddXX(w.ctx, set, redis.Z{Member: member, Score: float64(score)}).Err())
}

// happen has a step of a trace happen, and returns what the script replied.
func (w *world) happen(before *State, s Step) Reply {
	w.t.Helper()
	var reply Reply
	e := s.Event
	switch e.What {
	case Calls:
		reply = w.call(e.Call, s.Reply)
	case Arrives:
		reply = w.call(before.Copy, s.Reply)
	case Sends:
		w.copyOwner = w.ownerOf(e.Call)
	case Dies:
		if e.Who.Kind == ALeader {
			w.owners[e.Who.Index] = w.name("node")
		}
	case Lags:
		w.replica = w.freeze()
	case FailsOver:
		w.failOver()
	default:
		w.pass(e, &before.Redis)
	}
	switch e.What {
	case Calls:
		w.learn(e.Call.Script, &before.Redis, &s.After.Redis)
	case Arrives:
		w.learn(before.Copy.Script, &before.Redis, &s.After.Redis)
	}
	return reply
}

func (w *world) ownerOf(c Call) string {
	if c.Script == AcquireLease && c.Owner != ofCopy {
		return w.owners[c.Owner-1]
	}
	return w.copyOwner
}

// pass lets time pass.
func (w *world) pass(e Event, r *Redis) {
	w.t.Helper()
	k, member := w.keys(), w.refs[e.Task].String()
	w.count++
	past := int64(w.count)
	switch e.What {
	case ComesDue:
		w.score(string(k.Wheel()), member, past)
	case MustLook:
		w.score(string(k.Queued()), member, past)
	case LeaseOver:
		w.score(string(k.Held()), member, past)
		w.leaseEnds[e.Task][r.Tasks[e.Task].LeaseEnd] = past
	case TurnsStale:
		w.score(string(w.asynq(e.Task).Deadline()), w.delivery(e.Task, e.Attempt), 0)
	case Expires:
		testkit.Must(w.t, w.DB.Del(w.ctx, string(k.Term(string(w.fences[r.Lease.Newest])))).Err())
	case Deletes:
		testkit.Must(w.t, w.DB.Del(w.ctx, string(w.asynq(e.Task).Pending())).Err())
	}
}

func (w *world) delivery(of, attempt uint8) string {
	return task.Delivery{Ref: w.refs[of], Attempt: int(attempt)}.String()
}

// learn reads what Redis has for ids that a script has made.
func (w *world) learn(script Script, before, after *Redis) {
	w.t.Helper()
	if before.Lease.Newest != after.Lease.Newest {
		w.fences[after.Lease.Newest] = lua.Fence(read(w, w.DB.Get(w.ctx, string(w.keys().Lease()))))
	}
	for i := range after.Tasks {
		was, is := &before.Tasks[i], &after.Tasks[i]
		member := w.refs[i].String()
		if script == Claim && is.Claim != 0 && was.Claim != is.Claim {
			w.claims[i][is.Claim] = w.Get(w.refs[i]).QueuedAt.UnixMilli()
		}
		if is.State.Final() && was.State != is.State {
			w.ends[endOf{uint8(i), is.Attempt, is.State}] = w.Get(w.refs[i]).FinishedAt
		}
		if is.LeaseEnd != 0 && was.LeaseEnd != is.LeaseEnd {
			w.leaseEnds[i][is.LeaseEnd] = int64(read(w, w.DB.ZScore(w.ctx, string(w.keys().Held()), member)))
		}
	}
}

// freeze reads everything that is in Redis.
func (w *world) freeze() *replica {
	w.t.Helper()
	r := &replica{}
	for _, key := range read(w, w.DB.Keys(w.ctx, "*")) {
		r.keys = append(r.keys, frozen{key, read(w, w.DB.Dump(w.ctx, key)), max(read(w, w.DB.PTTL(w.ctx, key)), 0)})
	}
	for i := range w.leaseEnds {
		r.leaseEnds[i] = maps.Clone(w.leaseEnds[i])
	}
	return r
}

// failOver makes the replica Redis.
func (w *world) failOver() {
	w.t.Helper()
	testkit.Must(w.t, w.DB.FlushDB(w.ctx).Err())
	for _, f := range w.replica.keys {
		testkit.Must(w.t, w.DB.Restore(w.ctx, f.key, f.ttl, f.value).Err())
	}
	for i := range w.leaseEnds {
		maps.Copy(w.leaseEnds[i], w.replica.leaseEnds[i])
	}
}
