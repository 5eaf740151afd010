package storetest

import (
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/store/schedules"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

// Nightly is the name of the schedule that Daily defines.
var Nightly = task.Ref{Namespace: "default", ID: "nightly"}

// Daily is the definition of a schedule whose next tick is a day after its creation, with a change, which may be nil.
func Daily(change func(*schedule.Definition)) schedule.Definition {
	d := schedule.Definition{
		Ref: Nightly, Spec: schedule.Spec{Rules: []schedule.Rule{{Every: 24 * time.Hour}}},
		Task: task.Definition{Type: "http"},
	}
	if change != nil {
		change(&d)
	}
	return d
}

// Put writes a definition in place of whatever is there.
func (w *World) Put(d schedule.Definition) {
	w.t.Helper()
	old, _, at, err := w.Schedules.LookUp(w.Ctx, d.Ref)
	testkit.Must(w.t, err)
	if at.Before(old.Cursor) {
		at = old.Cursor
	}
	_, err = w.Schedules.Write(w.Ctx, d.Normalize(), old.Revision, at, false, "")
	testkit.Must(w.t, err)
}

// Schedule reads a schedule with its counts.
func (w *World) Schedule(ref task.Ref) schedule.Schedule {
	w.t.Helper()
	s, err := w.Schedules.Get(w.Ctx, ref)
	testkit.Must(w.t, err)
	return s
}

// Pause pauses a schedule.
func (w *World) Pause(ref task.Ref) {
	w.t.Helper()
	_, err := w.Schedules.Pause(w.Ctx, ref, "maintenance", "")
	testkit.Must(w.t, err)
}

// Trigger runs a schedule by hand, now, and returns the error of that.
func (w *World) Trigger(ref task.Ref) (schedule.Entry, error) {
	w.t.Helper()
	now, err := w.Now(w.Ctx, 0)
	testkit.Must(w.t, err)
	run, err := w.Schedules.Trigger(w.Ctx, ref, now, schedules.Asker{})
	return run.Entry, err
}

// Rewind makes a schedule that much older, with no tick decided in that time, and due now.
func (w *World) Rewind(ref task.Ref, by time.Duration) {
	w.t.Helper()
	s, _, err := w.Schedules.Read(w.Ctx, ref)
	testkit.Must(w.t, err)
	testkit.Must(w.t, w.DB.HSet(w.Ctx, string(w.KeysOf(ref).Schedule(ref)), "created", s.CreatedAt.Add(-by).UnixMilli(),
		"from", s.UpdatedAt.Add(-by).UnixMilli(), "cursor", s.Cursor.Add(-by).UnixMilli()).Err())
	w.MakeDue(ref)
}

// MakeDue has the leader plan a schedule's ticks now.
func (w *World) MakeDue(ref task.Ref) {
	w.t.Helper()
	testkit.Must(w.t, w.DB.ZAdd(w.Ctx, string(w.KeysOf(ref).Ticks()), redis.Z{Member: ref.String()}).Err())
}

// Hourly puts the schedule Nightly, every hour, and has its first n ticks due. It returns their names. By default all of
// them run, late as they are; change, which may be nil, changes the definition.
func (w *World) Hourly(n int, change func(*schedule.Definition)) []string {
	w.t.Helper()
	w.Put(Daily(func(d *schedule.Definition) {
		d.Rules = []schedule.Rule{{Every: time.Hour}}
		d.Misfire = schedule.Misfire{Policy: schedule.MisfireAll, Window: 1000 * time.Hour}
		if change != nil {
			change(d)
		}
	}))
	w.Rewind(Nightly, time.Duration(n)*time.Hour+time.Minute)
	created := w.Schedule(Nightly).CreatedAt
	names := make([]string, n)
	for i := range names {
		names[i] = schedule.TickName(created.Add(time.Duration(i+1) * time.Hour))
	}
	return names
}

// Agenda reads what the leader of a schedule's partition finds due, which must be that schedule alone.
func (w *World) Agenda(ref task.Ref) partition.Agenda {
	w.t.Helper()
	due, err := w.Leader(ref).Due(w.Ctx, 10, false)
	testkit.Must(w.t, err)
	if len(due.Agendas) != 1 || due.Agendas[0].Ref != ref {
		w.t.Fatalf("due are %v, want %s alone", due.Agendas, ref)
	}
	return due.Agendas[0]
}

// Fire plans and applies the due ticks of a schedule's partition until none is due, and returns what became of them.
func (w *World) Fire(ref task.Ref) []partition.Ticked {
	w.t.Helper()
	var all []partition.Ticked
	for {
		due, err := w.Leader(ref).Due(w.Ctx, 10, false)
		testkit.Must(w.t, err)
		if len(due.Agendas) == 0 {
			return all
		}
		for _, a := range due.Agendas {
			fired := w.FireOnce(Fence, a)
			testkit.Must(w.t, fired.Err)
			all = append(all, fired.Ticked...)
		}
	}
}

// FireOnce plans and applies the due ticks of one schedule, as a leader with that fence.
func (w *World) FireOnce(fence lua.Fence, a partition.Agenda) partition.Fired {
	planned := []partition.Planned{{Agenda: a, Plan: schedule.MakePlan(a.Agenda)}}
	return w.Partitions.At(w.PartitionOf(a.Ref)).Lead(fence).Fire(w.Ctx, planned)[0]
}

// Outcomes are the outcomes of ticks.
func Outcomes(ticked []partition.Ticked) []schedule.Outcome {
	var all []schedule.Outcome
	for _, t := range ticked {
		all = append(all, t.Outcome)
	}
	return all
}

// Recorded reads the outcomes in a schedule's ledger, the oldest tick first.
func (w *World) Recorded(ref task.Ref) []schedule.Outcome {
	w.t.Helper()
	page, err := w.Schedules.Ledger(w.Ctx, ref, schedules.LedgerFilter{}, schedule.LedgerLimit, "")
	testkit.Must(w.t, err)
	var all []schedule.Outcome
	for _, e := range slices.Backward(page.Entries) {
		all = append(all, e.Outcome)
	}
	return all
}

// TasksOf reads the states of a schedule's tasks, by id.
func (w *World) TasksOf(ref task.Ref) map[string]task.State {
	w.t.Helper()
	page, err := w.Tasks.List(w.Ctx, tasks.Filter{Namespace: ref.Namespace, Schedule: ref.ID}, 500, "")
	testkit.Must(w.t, err)
	states := make(map[string]task.State)
	for _, t := range page.Tasks {
		states[t.ID] = t.State
	}
	return states
}

// BeginTick begins the first attempt of the task of a tick, even if the task is not due yet.
func (w *World) BeginTick(ref task.Ref, tick string) *tasks.Run {
	w.t.Helper()
	member := task.Ref{Namespace: ref.Namespace, ID: ref.ID + "@" + tick}
	testkit.Must(w.t, w.DB.ZAdd(w.Ctx, string(w.KeysOf(member).Wheel()), redis.Z{Member: member.String()}).Err())
	w.Claim(member)
	run, err := w.Tasks.Begin(w.Ctx, member, 1, "node#"+member.ID)
	testkit.Must(w.t, err)
	return run
}

// EndTick runs the task of a tick to its end in a state.
func (w *World) EndTick(ref task.Ref, tick string, end task.State) {
	w.t.Helper()
	outcome := map[task.State]task.Outcome{
		task.Succeeded: task.OutcomeSucceeded, task.Failed: task.OutcomeFailed, task.Cancelled: task.OutcomeCancelled,
	}[end]
	testkit.Must(w.t, w.BeginTick(ref, tick).Finish(w.Ctx, end, outcome, "", ""))
}
