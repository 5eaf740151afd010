package model

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/handover"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/store/schedules"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

// states are the states of the model in the words of package task.
var states = map[TaskState]task.State{
	Scheduled: task.Scheduled, Succeeded: task.Succeeded, Failed: task.Failed, Cancelled: task.Cancelled,
}

// call makes a call as DTS does: through the methods of packages tasks, partition and queue where these say what was refused. modelled is
// what the model replied.
func (w *world) call(c Call, modelled Reply) Reply {
	w.t.Helper()
	switch c.Script {
	case Create, Cancel, Signal, Forget, Retry:
		return w.callClient(c)
	case AcquireLease, RenewLease, ReleaseLease:
		return w.callLease(c)
	case Claim, LookAfter, TakeBackScript, ReapScript, DueSchedules, Fire:
		return w.callLeader(c)
	case ReadFlow, ReadSteps, Advance:
		return w.callFlow(c, modelled)
	case ReadOutbox, FollowUp:
		return w.callFollow(c)
	case Begin, ExtendRuns, Finish, Restore, ReadTasks:
		return w.callRun(c)
	}
	return w.callQueue(c, modelled)
}

// code is the code of a refusal. Some errors have it as their last word.
func (w *world) code(err error) lua.Code {
	w.t.Helper()
	var refusal *redisx.Refusal
	switch {
	case err == nil:
		return ""
	case errors.As(err, &refusal):
		return refusal.Code
	case errors.Is(err, tasks.ErrCancelled):
		return lua.CodeCancelled
	case errors.Is(err, schedules.ErrMoved):
		return lua.CodeChanged
	case errors.Is(err, tasks.ErrStale), errors.Is(err, tasks.ErrLeftover):
		return lua.Code(err.Error()[strings.LastIndexByte(err.Error(), ' ')+1:])
	}
	w.t.Fatal(err)
	return ""
}

func (w *world) callClient(c Call) Reply {
	w.t.Helper()
	ref := w.refs[c.Task]
	if c.Script == Create {
		w.nextMillisecond() // no task is created at the time of a claim
		created := w.Tasks.Create(w.ctx, []task.Definition{w.definition(c.Task)})[0]
		testkit.Must(w.t, created.Err)
		return Reply{}
	}
	switch c.Script {
	case Forget:
		return w.callForget(ref)
	case Retry:
		return w.callRetry(c)
	case Signal:
		return w.callSignal(ref)
	}
	k := w.Layout.Keys
	_, err := redisx.Run(w.ctx, w.DB, lua.Cancel{
		Defs: w.KeysOf(ref).Defs(), Member: ref, By: "", Events: k.Events(), Control: k.Control(), Wake: w.WakeOf(ref),
	})
	return Reply{Refused: w.code(err)}
}

// callForget deletes a task if it has ended.
func (w *world) callForget(ref task.Ref) Reply {
	w.t.Helper()
	ended := time.UnixMilli(1)
	if t := w.Get(ref); t.State.Final() {
		ended = t.FinishedAt
	}
	deleted, err := w.Tasks.Forget(w.ctx, ref, ended, tasks.Forgetting{Remember: long, Names: 100 * w.Layout.Partitions()})
	return Reply{Refused: w.code(err), Deleted: deleted}
}

// callRetry runs a task again. Of a task that has not ended, the caller means some end of long ago. Two ends have never
// the same time.
func (w *world) callRetry(c Call) Reply {
	w.t.Helper()
	w.nextMillisecond()
	k, ref := w.KeysOf(w.refs[c.Task]), w.refs[c.Task]
	ended, known := w.ends[endOf{c.Task, c.Attempt, c.To}]
	if !known {
		ended = time.UnixMilli(1)
	}
	_, err := redisx.Run(w.ctx, w.DB, lua.Retry{
		States: k.States(), Member: ref, Attempts: 1, Delay: long, Ended: ended, Tick: time.Time{},
		Events: w.Layout.Keys.Events(), Wake: w.WakeOf(ref),
	})
	return Reply{Refused: w.code(err)}
}

func (w *world) callLease(c Call) Reply {
	w.t.Helper()
	key := w.keys().Lease()
	var err error
	switch c.Script {
	case AcquireLease:
		_, err = redisx.Run(w.ctx, w.DB, lua.AcquireLease{Lease: key, Owner: lua.NodeID(w.ownerOf(c)), TTL: long})
	case RenewLease:
		_, err = redisx.Run(w.ctx, w.DB, lua.RenewLease{Lease: key, Fence: w.fences[c.Fence], TTL: long})
	default:
		_, err = redisx.Run(w.ctx, w.DB, lua.ReleaseLease{Lease: key, Fence: w.fences[c.Fence], Channel: "", Message: ""})
	}
	return Reply{Refused: w.code(err)}
}

func (w *world) callLeader(c Call) Reply {
	w.t.Helper()
	leader := w.leader(c)
	switch c.Script {
	case Claim:
		return w.callClaim(c, leader)
	case LookAfter:
		w.count++
		watched, err := leader.LookAfter(w.ctx, partition.Look{Again: long + time.Duration(w.count)*time.Second, Limit: 100})
		reply := Reply{Refused: w.code(err)}
		for _, t := range watched.Lapsed {
			reply.Found[w.numberOf(t.Ref)] = Hand{Doing: Reap, Attempt: uint8(t.Attempt)}
		}
		for _, d := range watched.Waiting {
			reply.Found[w.numberOf(d.Ref)] = Hand{Doing: HandAgain, Attempt: uint8(d.Attempt)}
		}
		return reply
	case TakeBackScript:
		err := leader.TakeBack(w.ctx, []task.Delivery{{Ref: w.refs[c.Task], Attempt: int(c.Attempt)}}, false)
		return Reply{Refused: w.code(err)}
	case ReapScript:
		k, ref := w.Layout.Keys, w.refs[c.Task]
		_, err := redisx.Run(w.ctx, w.DB, lua.Reap{
			Lease: w.keys().Lease(), States: w.keys().States(), Fence: w.fences[c.Fence], Member: ref, Attempt: int(c.Attempt),
			Run: lua.RunToken(w.runs[c.Run]), State: states[c.To], LeaseEnd: time.UnixMilli(w.leaseEnds[c.Task][c.LeaseEnd]), Reason: "lost",
			Due: time.UnixMilli(1), Retention: long, Events: k.Events(), Wake: w.WakeOf(ref),
		})
		return Reply{Refused: w.code(err)}
	case DueSchedules:
		return w.callDue(leader)
	}
	agenda := w.agendas[c.Plan.Cursor]
	agenda.Agenda.Now = w.decidedUpTo(c.Plan.Upto)
	fired := leader.Fire(w.ctx, []partition.Planned{{Agenda: agenda, Plan: schedule.MakePlan(agenda.Agenda)}})[0]
	return Reply{Refused: w.code(fired.Err)}
}

// callClaim claims one task. Two claims of a task have never the same time.
func (w *world) callClaim(c Call, leader *partition.Leader) Reply {
	w.t.Helper()
	quotas := handover.Grant{}
	if c.Task != noTask {
		quotas.Lanes = handover.Quotas{{Queue: w.queueOf(c.Task)}: {Number: 1}}
	}
	w.nextMillisecond()
	claimed, err := leader.Claim(w.ctx, 100, quotas, long)
	reply := Reply{Refused: w.code(err)}
	for _, d := range claimed.Deliveries {
		reply.Task, reply.Attempt = w.numberOf(d.Ref), uint8(d.Attempt)
	}
	return reply
}

// nextMillisecond waits until the clock of Redis shows a later time.
func (w *world) nextMillisecond() {
	w.t.Helper()
	before, err := w.Now(w.ctx, 0)
	testkit.Must(w.t, err)
	testkit.Eventually(w.t, "the next millisecond", func() bool {
		now, err := w.Now(w.ctx, 0)
		return err == nil && now.UnixMilli() > before.UnixMilli()
	})
}

// callDue reads the due schedules. They are due by the clock of the model, which shows an earlier time than that of Redis.
func (w *world) callDue(leader *partition.Leader) Reply {
	w.t.Helper()
	due, err := leader.Due(w.ctx, 10, false)
	reply := Reply{Refused: w.code(err)}
	for _, agenda := range due.Agendas {
		v := seen{}
		w.realSchedule(&v)
		if v.Next <= int(w.clock) {
			reply.Planned, reply.Cursor = true, uint8(v.Cursor)
		}
		w.agendas[uint8(v.Cursor)] = agenda
	}
	return reply
}

func (w *world) numberOf(ref task.Ref) uint8 {
	for i, known := range w.refs {
		if known == ref {
			return uint8(i)
		}
	}
	w.t.Fatalf("there is no task %s", ref)
	return 0
}

// callFollow reads the outbox, or has an end followed up, as a leader does. The model has a leader do that for one end
// at a time.
func (w *world) callFollow(c Call) Reply {
	w.t.Helper()
	k, ref := w.keys(), w.refs[c.Task]
	if c.Script == ReadOutbox {
		outbox, err := redisx.Run(w.ctx, w.DB, lua.ReadOutbox{Outbox: k.Outbox(), Limit: 10})
		testkit.Must(w.t, err)
		for _, e := range outbox.Entries {
			if f := strings.Fields(e.Entry); f[1] == ref.String() {
				attempt, err := strconv.Atoi(f[2])
				testkit.Must(w.t, err)
				return Reply{State: stateOf(task.State(f[3])), Attempt: uint8(attempt)}
			}
		}
		return Reply{}
	}
	item := lua.FollowItem{Entry: w.entry(c.Task, c.Attempt, c.To), Parent: ref, Later: time.UnixMilli(1)}
	if c.Child {
		d, def := w.followUp(c.Task, c.Attempt, c.To)
		item.Child, item.Def, item.Due, item.Later = d.Ref.String(), def, time.Now().Add(long), time.Time{}
	}
	reply, err := redisx.Run(w.ctx, w.DB, lua.Follow{
		Lease: k.Lease(), Defs: k.Defs(), Outbox: k.Outbox(), Fence: w.fences[c.Fence],
		Events: w.Layout.Keys.Events(), Wake: w.WakeOf(ref),
		Items: []lua.FollowItem{item},
	})
	return Reply{Refused: w.code(err), Created: slices.Equal(reply.Answers, []string{"new"})}
}

// entry is an end as the outbox has it.
func (w *world) entry(of, attempt uint8, state TaskState) string {
	return fmt.Sprintf("end %s %d %s", w.refs[of], attempt, states[state])
}

func (w *world) callRun(c Call) Reply {
	w.t.Helper()
	run := w.begun[c.Run]
	switch {
	case c.Script == Begin:
		start := tasks.Start{Ref: w.refs[c.Task], Attempt: int(c.Attempt), Run: w.runs[c.Run], Queue: w.queueOf(c.Task)}
		begun := w.Tasks.BeginEach(w.ctx, tasks.Runner{Node: "worker", Lease: long}, []tasks.Start{start})[0]
		if begun.Err != nil {
			return Reply{Refused: w.code(begun.Err)}
		}
		w.begun[c.Run] = begun.Run
		return Reply{Stopped: !begun.Run.Task.CancelRequested.IsZero()}
	case c.Script == ExtendRuns:
		extended := w.Tasks.ExtendFor(w.ctx, long, []*tasks.Run{run})[0]
		return w.refusedReport(c, Reply{Refused: w.code(extended.Err), Stopped: extended.Cancelled})
	case c.Script == Restore && c.Child:
		d, _ := w.followUp(c.Task, c.Attempt, Cancelled)
		now, err := w.Now(w.ctx, 0)
		testkit.Must(w.t, err)
		return w.callRestore(task.Task{
			Definition: d, State: task.Queued, Attempt: 1, CreatedAt: now, DueAt: now, QueuedAt: now,
		})
	case c.Script == Restore:
		return w.callRestore(run.Task)
	case c.Script == ReadTasks:
		return w.callRead(c)
	case c.Run == runForeign || c.Run == runUnknown:
		run = w.Tasks.RunOf(task.Task{
			Definition: task.Definition{Ref: w.refs[c.Task]}, Attempt: int(c.Attempt), Run: w.runs[c.Run],
			QueuedAt: time.UnixMilli(w.claims[c.Task][c.Claim]),
		})
	}
	outcomes := map[TaskState]task.Outcome{
		Scheduled: task.OutcomeFailed, Succeeded: task.OutcomeSucceeded, Failed: task.OutcomeFailed, Cancelled: task.OutcomeCancelled,
	}
	end := tasks.End{Run: run, State: states[c.To], Outcome: outcomes[c.To]}
	if c.To == Scheduled {
		end.Delay = long
	}
	return w.refusedReport(c, Reply{Refused: w.code(w.Tasks.FinishEach(w.ctx, []tasks.End{end})[0])})
}

// refusedReport completes the reply to a report: one that is refused changes nothing, so Redis still has what it was refused for.
func (w *world) refusedReport(c Call, r Reply) Reply {
	w.t.Helper()
	r.Behind = r.Refused == lua.CodeStale && w.Get(w.refs[c.Task]).Attempt < int(c.Attempt)
	return r
}

func (w *world) callRead(c Call) Reply {
	w.t.Helper()
	shown, err := w.Tasks.GetEach(w.ctx, []task.Ref{w.refs[c.Task]})
	testkit.Must(w.t, err)
	if len(shown) == 0 {
		return Reply{}
	}
	return Reply{State: stateOf(shown[0].State), Attempt: uint8(shown[0].Attempt)}
}

// stateOf is a state in the words of the model.
func stateOf(state task.State) TaskState {
	for s := Scheduled; s <= Cancelled; s++ {
		if s.String() == string(state) {
			return s
		}
	}
	return None
}

// callRestore restores a task as package tasks does when it has seen a failover.
func (w *world) callRestore(t task.Task) Reply {
	w.t.Helper()
	def, err := codec.EncodeDefinition(t.Definition)
	testkit.Must(w.t, err)
	restored := lua.RestoreTask{Member: t.Ref, Created: t.CreatedAt, Def: def, State: codec.FormatState(task.Task{
		Definition: t.Definition,
		State:      task.Queued, Attempt: t.Attempt, MaxAttempts: t.MaxAttempts,
		FirstDueAt: t.FirstDueAt, DueAt: t.DueAt, QueuedAt: t.QueuedAt,
	})}
	if _, name, ok := schedule.OfTask(t.Ref); ok {
		restored.Tick, _, err = schedule.ParseTickName(name)
		testkit.Must(w.t, err)
	}
	_, err = redisx.Run(w.ctx, w.DB, lua.Restore{Defs: w.KeysOf(t.Ref).Defs(), Tasks: []lua.RestoreTask{restored}})
	return Reply{Refused: w.code(err)}
}

// callQueue calls a script of a queue of asynq.
func (w *world) callQueue(c Call, modelled Reply) Reply {
	w.t.Helper()
	q, arrivals := w.asynq(c.Task), w.Layout.Keys.Arrivals(w.queueOf(c.Task))
	if c.Script == TendQueue {
		_, err := redisx.Run(w.ctx, w.DB, lua.TendQueue{
			Pending: q.Pending(), Active: q.Active(), Deadline: q.Deadline(), Scheduled: q.Scheduled(), Retry: q.Retry(), Archived: q.Archived(),
			Completed: q.Completed(), Grace: time.Minute, Arrivals: arrivals,
		})
		return Reply{Refused: w.code(err)}
	}
	delivery := task.Delivery{
		Ref: w.refs[c.Task], Attempt: int(c.Attempt), Type: "http", Queue: w.queueOf(c.Task), ClaimedAt: time.UnixMilli(w.claims[c.Task][c.Claim]),
	}
	id := delivery.String()
	var err error
	switch c.Script {
	case Enqueue:
		handed := w.queues.HandOver(w.ctx, []task.Delivery{delivery}, nil)
		return Reply{Refused: w.code(handed.Failure()), Handled: len(handed.Ended) > 0}
	case Recall:
		recalled, err := w.queues.Recall(w.ctx, []task.Delivery{delivery})
		return Reply{Refused: w.code(err), Recalled: len(recalled) > 0}
	case Take:
		return w.callTake(q, arrivals, id, modelled)
	case GiveBack:
		_, err = redisx.Run(w.ctx, w.DB, lua.GiveBack{
			Pending: q.Pending(), Active: q.Active(), Deadline: q.Deadline(), Arrivals: arrivals, Ids: []string{id},
		})
	case Extend:
		_, err = redisx.Run(w.ctx, w.DB, lua.Extend{Deadline: q.Deadline(), Lease: long, Ids: []string{id}})
	case Done:
		_, err = redisx.Run(w.ctx, w.DB, lua.Done{
			Active: q.Active(), Deadline: q.Deadline(), ProcessedToday: q.ProcessedToday("today"), Processed: q.Processed(),
			Ends: []lua.DoneEnd{{ID: id, Lock: ""}},
		})
	case Archive:
		msg := read(w, w.DB.HGet(w.ctx, string(q.Delivery(id)), "msg"))
		_, err = redisx.Run(w.ctx, w.DB, lua.Archive{
			Active: q.Active(), Deadline: q.Deadline(), Archived: q.Archived(), ProcessedToday: q.ProcessedToday("today"), Processed: q.Processed(),
			FailedToday: q.FailedToday("today"), Failed: q.Failed(), Letters: []lua.ArchiveLetter{{ID: id, Msg: msg}},
		})
	}
	return Reply{Refused: w.code(err)}
}

// callTake takes one delivery. The model says nothing about their order, so this one is put where it is the next.
func (w *world) callTake(q lua.AsynqQueue, arrivals lua.ArrivalsChannel, id string, modelled Reply) Reply {
	w.t.Helper()
	if read(w, w.DB.LRem(w.ctx, string(q.Pending()), 0, id)) == 0 {
		return Reply{}
	}
	testkit.Must(w.t, w.DB.RPush(w.ctx, string(q.Pending()), id).Err())
	reply, err := redisx.Run(w.ctx, w.DB, lua.Take{
		Pending: q.Pending(), Paused: q.Paused(), Active: q.Active(), Deadline: q.Deadline(), Awaited: q.Awaited(), Called: q.Called(),
		Skipped: q.Skipped(), Limit: 1, Lease: long, Queue: string(q), Types: "", Leaders: w.Layout.Keys.Leaders(), Arrivals: arrivals,
	})
	testkit.Must(w.t, err)
	taken := len(reply.Taken) == 1 && reply.Taken[0].ID == id
	if taken {
		w.runs[modelled.Run] = w.name("worker#")
	}
	return Reply{Taken: taken}
}

// withoutIDs is a reply of the model as a call returns it.
func (r Reply) withoutIDs() Reply {
	r.Fence, r.Claim, r.Run = 0, 0, 0
	for i := range r.Found {
		r.Found[i].Claim, r.Found[i].Run, r.Found[i].LeaseEnd = 0, 0, 0
	}
	return r
}
