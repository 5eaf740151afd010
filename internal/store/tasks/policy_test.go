package tasks_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// report ends a failed attempt as a worker does, and returns its task. What the policy draws at random is the least.
func report(w *storetest.World, run *tasks.Run, e tasks.Ending) task.Task {
	now, err := w.Now(w.Ctx, w.PartitionOf(run.Task.Ref))
	for again := err == nil; again; {
		err = w.Tasks.FinishEach(w.Ctx, []tasks.End{run.End(e, now, 0)})[0]
		e, again = e.After(err)
	}
	if err != nil {
		return task.Task{Error: err.Error()}
	}
	return w.Get(run.Task.Ref)
}

// dueTick has the next tick of a schedule come after that time.
func dueTick(t *testing.T, w *storetest.World, ref task.Ref, in time.Duration) {
	t.Helper()
	now, err := w.Now(w.Ctx, w.PartitionOf(ref))
	testkit.Must(t, err)
	at := float64(now.Add(in).UnixMilli())
	testkit.Must(t, w.DB.ZAdd(w.Ctx, string(w.KeysOf(ref).Ticks()), redis.Z{Score: at, Member: ref.String()}).Err())
}

func TestFinish_EndsATicksTaskInTimeForTheNext(t *testing.T) {
	t.Parallel()
	const timeout = time.Minute
	outcome := func(o task.Outcome) tasks.Ending { return tasks.Ending{Outcome: o, Reason: "boom", Timeout: timeout} }
	failed, waiting := outcome(task.OutcomeFailed), outcome(task.OutcomeFailed)
	waiting.Wait = timeout
	for name, c := range map[string]struct {
		change func(*schedule.Definition)
		before func(*storetest.World)
		next   time.Duration
		end    tasks.Ending
		want   task.State
	}{
		"time for another":        {next: timeout + 10*time.Second, end: failed, want: task.Scheduled},
		"no time for another":     {next: timeout - time.Second, end: failed, want: task.Failed},
		"a tick that is late":     {next: -time.Second, end: failed, want: task.Failed},
		"a default timeout":       {next: 5 * time.Minute, end: tasks.Ending{Outcome: task.OutcomeFailed}, want: task.Failed},
		"a timeout":               {next: timeout - time.Second, end: outcome(task.OutcomeTimeout), want: task.Failed},
		"a wait that is too long": {next: 2 * timeout, end: waiting, want: task.Failed},
		"a lost attempt":          {next: time.Second, end: outcome(task.OutcomeLost), want: task.Scheduled},
		"overlap allow": {
			change: func(d *schedule.Definition) { d.Overlap = schedule.OverlapAllow },
			next:   time.Second, end: failed, want: task.Failed,
		},
		"a tick that is held back": { // it runs in place of another attempt
			before: func(w *storetest.World) {
				w.MakeDue(storetest.Nightly)
				held := partition.HoldBack(w.Agenda(storetest.Nightly))
				testkit.Must(t, w.Leader(storetest.Nightly).Fire(w.Ctx, []partition.Planned{held})[0].Err)
			},
			end: failed, want: task.Failed,
		},
		"a next tick that is excluded": { // it counts, too
			before: func(w *storetest.World) {
				now, err := w.Now(w.Ctx, 0)
				testkit.Must(t, err)
				days := now.AddDate(0, 0, -2).Format(time.DateOnly) + "/" + now.AddDate(0, 0, 2).Format(time.DateOnly)
				w.Put(storetest.Daily(func(d *schedule.Definition) {
					d.Rules, d.Exclude = []schedule.Rule{{Every: time.Hour}}, []string{days}
				}))
				w.Fire(storetest.Nightly) // plans it
			},
			end: tasks.Ending{Outcome: task.OutcomeFailed, Reason: "boom", Timeout: time.Hour}, want: task.Failed,
		},
		"a task that is cancelled meanwhile": {
			before: func(w *storetest.World) {
				for id := range w.TasksOf(storetest.Nightly) {
					_, err := w.Tasks.Cancel(w.Ctx, task.Ref{Namespace: "default", ID: id}, "")
					testkit.Must(t, err)
				}
			},
			next: time.Second, end: failed, want: task.Cancelled,
		},
		"the default, spelled out": { // what somebody writes is what somebody wants
			change: func(d *schedule.Definition) { d.Task.Retry = task.Task{Definition: d.Task}.Policy() },
			next:   time.Second, end: failed, want: task.Scheduled,
		},
		"a policy of its own": {
			change: func(d *schedule.Definition) { d.Task.Retry.MaxAttempts = 3 },
			next:   time.Second, end: failed, want: task.Scheduled,
		},
		"a paused schedule": {
			before: func(w *storetest.World) { w.Pause(storetest.Nightly) }, end: failed, want: task.Scheduled,
		},
		"a backfilled tick": {
			before: func(w *storetest.World) {
				testkit.Must(t, w.DB.Del(w.Ctx, string(w.KeysOf(storetest.Nightly).Live(storetest.Nightly))).Err())
			},
			next: time.Second, end: failed, want: task.Scheduled,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := storetest.New(t)
			ticks := w.Hourly(1, c.change)
			w.Fire(storetest.Nightly)
			run := w.BeginTick(storetest.Nightly, ticks[0])
			if c.next != 0 {
				dueTick(t, w, storetest.Nightly, c.next)
			}
			if c.before != nil {
				c.before(w)
			}
			got := report(w, run, c.end)
			if got.State != c.want {
				t.Errorf("the task is %s (%s), want %s", got.State, got.Error, c.want)
			}
			if said := strings.Contains(got.Error, "next tick"); said != (c.want == task.Failed) {
				t.Errorf("the error is %q", got.Error)
			}
			w.CheckSets()
		})
	}
}

// The refusal says nothing of a task that no schedule has created.
func TestFinish_TriesAnyOtherTaskForHours(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	ref := w.Create(task.Definition{Ref: task.Ref{Namespace: "default", ID: "nightly"}, Type: "http"}).Ref
	w.Put(storetest.Daily(nil))
	dueTick(t, w, storetest.Nightly, time.Second)
	got := report(w, w.Begin(ref), tasks.Ending{Outcome: task.OutcomeFailed, Reason: "boom", Timeout: time.Minute})
	if got.State != task.Scheduled || got.MaxAttempts != 25 {
		t.Errorf("the task is %s with %d attempts, want 25", got.State, got.MaxAttempts)
	}
}

// A submission is stored without what it leaves to the defaults, so that its repeat is the same task in either release.
func TestCreate_KeepsDefaultsOfBeforeForOldTasks(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	d := task.Definition{Ref: task.Ref{Namespace: "default", ID: "a"}, Type: "http"}
	old := w.Create(d)
	if old.MaxAttempts != 25 || old.Earlier {
		t.Errorf("a new task has %d attempts", old.MaxAttempts)
	}
	since := old.CreatedAt.Add(time.Millisecond)
	testkit.Must(t, w.DB.HSet(w.Ctx, "dts:meta", "retries", since.UnixMilli()).Err())
	_, err := w.Check(w.Ctx, func(context.Context) (bool, error) { return false, nil })
	testkit.Must(t, err)
	repeated := w.Tasks.Create(w.Ctx, []task.Definition{d})[0]
	if repeated.Err != nil || !repeated.Existed || repeated.Task.MaxAttempts != 4 {
		t.Errorf("a repeat: %+v", repeated)
	}
	for attempt := 1; attempt <= 4; attempt++ {
		if attempt > 1 {
			testkit.Must(t, w.DB.ZAdd(w.Ctx, string(w.KeysOf(d.Ref).Wheel()), redis.Z{Member: d.Ref.String()}).Err())
		}
		got := report(w, w.Begin(d.Ref), tasks.Ending{Outcome: task.OutcomeFailed, Reason: "boom"})
		if want := map[bool]task.State{true: task.Failed, false: task.Scheduled}[attempt == 4]; got.State != want {
			t.Fatalf("after attempt %d it is %s (%s), want %s", attempt, got.State, got.Error, want)
		}
	}
	again, err := w.Tasks.Retry(w.Ctx, d.Ref)
	if err != nil || again.MaxAttempts != 8 {
		t.Errorf("retried by hand it has %d attempts, %v; want four more", again.MaxAttempts, err)
	}
}

func TestFinish_SnoozedAttemptsDoNotCount(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	d := task.Definition{Ref: task.Ref{Namespace: "default", ID: "a"}}
	d.Retry = task.Retry{MaxAttempts: 2, Delays: []time.Duration{time.Minute}}
	w.Create(d)
	snoozed := tasks.Ending{Outcome: task.OutcomeFailed, Reason: "HTTP 429", Snooze: true, Wait: time.Hour}
	failed := tasks.Ending{Outcome: task.OutcomeFailed, Reason: "HTTP 500"}
	for i, c := range []struct {
		end  tasks.Ending
		want task.State
		last int
		wait time.Duration // until the next attempt
	}{
		{snoozed, task.Scheduled, 3, time.Hour},
		{failed, task.Scheduled, 3, time.Minute},
		{snoozed, task.Scheduled, 4, time.Hour},
		{failed, task.Failed, 4, 0},
	} {
		if i > 0 {
			testkit.Must(t, w.DB.ZAdd(w.Ctx, string(w.KeysOf(d.Ref).Wheel()), redis.Z{Member: d.Ref.String()}).Err())
		}
		run := w.Begin(d.Ref)
		got := report(w, run, c.end)
		if got.State != c.want || got.Attempt != i+1 || got.MaxAttempts != c.last {
			t.Fatalf("after attempt %d: %+v; want %s, and %d attempts", i+1, got, c.want, c.last)
		}
		attempts, err := w.Tasks.Attempts(w.Ctx, d.Ref)
		testkit.Must(t, err)
		a := attempts[len(attempts)-1]
		outcome := map[bool]task.Outcome{true: task.OutcomeSnoozed, false: task.OutcomeFailed}[c.end.Snooze]
		if len(attempts) != i+1 || a.Outcome != outcome || a.Error != c.end.Reason {
			t.Errorf("attempt %d is recorded as %+v, want %s", i+1, a, outcome)
		}
		if wait := got.DueAt.Sub(a.FinishedAt); c.wait != 0 && (wait < c.wait-time.Second || wait > c.wait) {
			t.Errorf("after attempt %d it waits %s, want %s", i+1, wait, c.wait)
		}
		if c.end.Snooze {
			again := tasks.End{Run: run, State: task.Scheduled, Outcome: task.OutcomeSnoozed, Last: c.last, Delay: time.Hour}
			if err := w.Tasks.FinishEach(w.Ctx, []tasks.End{again})[0]; err != nil || w.Get(d.Ref).MaxAttempts != c.last {
				t.Errorf("a repeated report: %v, %d attempts", err, w.Get(d.Ref).MaxAttempts)
			}
		}
	}
	w.CheckSets()
}
