package control

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/why"
)

func (w *world) expectSchedule(want ...why.Code) why.Reason {
	w.t.Helper()
	answer, err := w.WhySchedule(w.ctx, me, nightly.ID)
	testkit.Must(w.t, err)
	got, first := codes(answer)
	if !slices.Equal(got, want) {
		w.t.Errorf("the schedule waits for %v, want %v: %+v", got, want, first)
	}
	return first
}

func TestWhySchedule_TellsOfPauses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes = fleet{worker("node", 0, nil, "default")}
	w.put(daily(func(d *schedule.Definition) { d.PauseOnFailure = 1 }))
	if r := w.expectSchedule(why.NotDue); !r.NextAttemptAt.After(w.now()) {
		t.Errorf("%+v, want the next tick", r)
	}
	_, err := w.PauseSchedule(w.ctx, Caller{Namespace: "default", Name: "ann"}, nightly.ID, "the disk is full")
	testkit.Must(t, err)
	if r := w.expectSchedule(why.SchedulePaused); !strings.Contains(r.Detail, "ann") || !strings.Contains(r.Detail,
		"the disk is full") {
		t.Errorf("%+v, want who paused it, and the note", r)
	}
	_, err = w.ResumeSchedule(w.ctx, me, nightly.ID)
	testkit.Must(t, err)
	w.rewind(nightly, 24*time.Hour+time.Second)
	w.fire(nightly)
	for id := range w.tasksOf(nightly) {
		_, tick, _ := strings.Cut(id, "@")
		w.end(nightly, tick, task.Failed)
	}
	if r := w.expectSchedule(why.PausedByFailures); !strings.Contains(r.LastError, "in a row failed") {
		t.Errorf("%+v, want the failures", r)
	}
}

func TestWhySchedule_TellsForWhichTaskATickWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes = fleet{worker("node", 0, nil, "default")}
	ticks := w.hourly(2, func(d *schedule.Definition) { d.Overlap = schedule.OverlapQueue })
	w.fire(nightly)
	r := w.expectSchedule(why.Overlap)
	if !strings.Contains(r.Do, fmt.Sprintf("task why nightly@%s.", ticks[0])) || r.Since.IsZero() || *r.Ahead != 1 {
		t.Errorf("%+v, want the task of %s", r, ticks[0])
	}
	w.end(nightly, ticks[0], task.Succeeded)
	w.lookNow(nightly)
	w.expectSchedule(why.NotDue)
}

func TestWhySchedule_TellsThatItHasEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes = fleet{}
	w.hourly(1, func(d *schedule.Definition) { d.MaxRuns = 1 })
	w.fire(nightly)
	if r := w.expectSchedule(why.Ended); !strings.Contains(r.Detail, "max_runs is 1") {
		t.Errorf("%+v, want max_runs", r)
	}
}

func TestWhySchedule_TellsWhyADueTickIsHeldBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes = fleet{worker("node", 0, nil, "small")}
	testkit.Must(t, w.SetQueueCapacity(w.ctx, me, "small", 5))
	d := daily(func(d *schedule.Definition) {
		d.Rules, d.Task.Queue = []schedule.Rule{{Every: time.Hour}}, "small"
	})
	w.holdBack(d)
	r := w.expectSchedule(why.QueueFull)
	if !strings.Contains(r.Detail, "capacity of waiting tasks (5)") || r.Since.IsZero() {
		t.Errorf("%+v, want the limit, and the tick", r)
	}
	k := w.store.KeysOf(nightly)
	testkit.Must(t, w.db.Del(w.ctx, string(k.Term(fence))).Err())
	w.expectSchedule(why.NoLeader, why.QueueFull)
	testkit.Must(t, w.db.Set(w.ctx, string(k.Term(fence)), "1", 0).Err())
	w.lookNow(nightly)
	w.expectSchedule(why.NotDue)
}

func TestWhySchedule_TellsThatRedisIsAlmostFull(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes = fleet{worker("node", 0, nil, "default")}
	w.hourly(1, nil)
	w.expectSchedule(why.Delivery)
	testkit.Must(t, w.db.ConfigSet(w.ctx, "maxmemory", "1").Err())
	w.Control = w.open(w.db) // which has read the memory of Redis at no time
	w.nodes = fleet{worker("node", 0, nil, "default")}
	w.expectSchedule(why.RedisFull)
}

// triesAgain has the first attempt of the task of a due tick fail, and returns the id of the task.
func (w *world) triesAgain(change func(*schedule.Definition)) string {
	w.t.Helper()
	id := nightly.ID + "@" + w.hourly(1, change)[0]
	w.fire(nightly)
	run := w.begun(task.Ref{Namespace: "default", ID: id})
	testkit.Must(w.t, run.Reattempt(w.ctx, time.Hour, task.OutcomeFailed, "connection refused"))
	return id
}

func TestWhySchedule_TellsOfATaskThatTriesAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.triesAgain(nil)
	answer, err := w.WhySchedule(w.ctx, me, nightly.ID)
	testkit.Must(t, err)
	if len(answer.Beside) != 1 {
		t.Fatalf("beside: %+v, want the task", answer.Beside)
	}
	r := answer.Beside[0]
	if r.Code != why.Retry || r.LastError != "connection refused" || r.Since.IsZero() ||
		!strings.HasSuffix(r.Do, "task why "+id+".") || !r.NextAttemptAt.After(w.now()) {
		t.Errorf("%+v, want why it failed, and when it tries again", r)
	}
	if s := w.schedule(nightly); s.Retry.Task != id || s.Retry.Attempts != 1 || !s.Retry.DueAt.Equal(r.NextAttemptAt) {
		t.Errorf("the schedule has %+v", s.Retry)
	}
	list, err := w.ListSchedules(w.ctx, me, ScheduleFilter{}, 10, "")
	testkit.Must(t, err)
	if got := list.Schedules[0].Retry; got.Task != id || got.Error != "connection refused" {
		t.Errorf("the list has %+v", got)
	}
	_, err = w.CancelTask(w.ctx, me, id, "")
	testkit.Must(t, err)
	if answer, err = w.WhySchedule(w.ctx, me, nightly.ID); len(answer.Beside) > 0 || err != nil {
		t.Errorf("after its end: %+v, %v", answer.Beside, err)
	}
}

// A task that was put off has not failed.
func TestWhySchedule_TellsOfNoTaskThatWasPutOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := nightly.ID + "@" + w.hourly(1, nil)[0]
	w.fire(nightly)
	run := w.begun(task.Ref{Namespace: "default", ID: id})
	testkit.Must(t, run.Reattempt(w.ctx, time.Hour, task.OutcomeSnoozed, "the file is not there yet"))
	answer, err := w.WhySchedule(w.ctx, me, nightly.ID)
	if len(answer.Beside) > 0 || err != nil {
		t.Errorf("beside: %+v, %v", answer.Beside, err)
	}
}

// Whoever changes a definition hears of the task that still has the old one; not if the tasks stay the same.
func TestPutSchedule_TellsOfATaskWithTheOldDefinition(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes = fleet{worker("node", 0, nil, "default")}
	id := w.triesAgain(nil)
	definition := w.schedule(nightly).Definition
	put := func(dry bool, change func(*schedule.Definition)) []string {
		t.Helper()
		change(&definition)
		put, err := w.PutSchedule(w.ctx, me, definition, PutOptions{DryRun: dry})
		testkit.Must(t, err)
		return put.Warnings
	}
	if got := put(false, func(d *schedule.Definition) { d.Description = "other words" }); len(got) > 0 {
		t.Errorf("the tasks are the same: %q", got)
	}
	want := []string{"a task of revision 1 still tries again with the old definition: " +
		"cancel it (dtsctl task cancel " + id + "), then trigger the schedule (dtsctl schedule trigger nightly)"}
	for _, dry := range []bool{true, false} {
		if got := put(dry, func(d *schedule.Definition) { d.Task.Queue = "other" }); !slices.Contains(got, want[0]) {
			t.Errorf("dry %v: %q, want %q", dry, got, want)
		}
	}
	answer, err := w.WhySchedule(w.ctx, me, nightly.ID)
	testkit.Must(t, err)
	const old = "A task of revision 1 still tries again with the old definition."
	if r := answer.Beside[0]; !strings.Contains(r.Detail, old) ||
		r.Do != "Cancel the task: dtsctl task cancel "+id+". Then trigger the schedule: dtsctl schedule trigger nightly." {
		t.Errorf("%+v, want what to do", r)
	}
	back, err := w.RollbackSchedule(w.ctx, me, nightly.ID, 2, 0)
	if err != nil || len(back.Warnings) > 0 {
		t.Errorf("the definition of the task is in force again: %q, %v", back.Warnings, err)
	}
	again, err := w.RollbackSchedule(w.ctx, me, nightly.ID, 3, 0)
	if err != nil || !slices.Equal(again.Warnings, want) {
		t.Errorf("a rollback: %q, %v", again.Warnings, err)
	}
}

// What is advised can be done: nobody is told to trigger a schedule that refuses it.
func TestWhySchedule_AdvisesWhatIsNotRefused(t *testing.T) {
	t.Parallel()
	for _, overlap := range []schedule.Overlap{"", "allow", "skip", "queue", "replace"} {
		for _, live := range []bool{false, true} {
			w := newWorld(t)
			w.nodes = fleet{worker("node", 0, nil, "default")}
			with := func(d *schedule.Definition) { d.Overlap = overlap }
			if live {
				w.triesAgain(with)
			} else {
				w.put(daily(with))
			}
			do := w.expectSchedule(why.NotDue).Do
			if before, cancels := strings.CutSuffix(do, "Then run it now: dtsctl schedule trigger nightly."); cancels {
				_, id, _ := strings.Cut(before, "dtsctl task cancel ")
				_, err := w.CancelTask(w.ctx, me, strings.TrimSuffix(id, ". "), "")
				testkit.Must(t, err)
			}
			if _, err := w.TriggerSchedule(w.ctx, me, nightly.ID); err != nil {
				t.Errorf("%s, live: %v: %s It answers: %v", overlap, live, do, err)
			}
			if !strings.HasSuffix(do, ": dtsctl schedule trigger nightly.") {
				t.Errorf("%s, live: %v: no advice: %s", overlap, live, do)
			}
		}
	}
}
