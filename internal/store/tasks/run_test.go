package tasks_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestBegin_LetsOneRunOfAnAttemptThrough(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	ref := w.Bring("a", task.Queued)
	if _, err := w.Tasks.Begin(w.Ctx, ref, 2, "node-a#x"); !errors.Is(err, tasks.ErrLeftover) {
		t.Errorf("another attempt's number: %v", err)
	}
	if _, err := w.Tasks.Begin(w.Ctx, ref, 1, "node-a#1"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Tasks.Begin(w.Ctx, ref, 1, "node-a#1"); err != nil {
		t.Errorf("the same run again: %v", err)
	}
	if _, err := w.Tasks.Begin(w.Ctx, ref, 1, "node-a#2"); !errors.Is(err, tasks.ErrLeftover) {
		t.Errorf("another run on the same node: %v", err)
	}
	if _, err := w.Tasks.Begin(w.Ctx, ref, 1, "node-b#1"); !errors.Is(err, tasks.ErrLeftover) {
		t.Errorf("another node: %v", err)
	}
}

func TestFinish_ATaskThatWasAskedToStopEndsCancelled(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	for name, end := range map[string]func(*tasks.Run) error{
		"reattempt": func(r *tasks.Run) error { return r.Reattempt(w.Ctx, 0, task.OutcomeFailed, "x") },
		"fail":      func(r *tasks.Run) error { return r.Finish(w.Ctx, task.Failed, task.OutcomeFailed, "", "x") },
	} {
		ref := w.Bring(name, task.Running)
		_, err := w.Tasks.Cancel(w.Ctx, ref)
		testkit.Must(t, err)
		run := w.Tasks.RunOf(w.Get(ref))
		if got := w.Tasks.ExtendEach(w.Ctx, []*tasks.Run{run})[0]; !got.Cancelled || got.Err != nil {
			t.Errorf("asked to stop: %+v", got)
		}
		if err := end(run); !errors.Is(err, tasks.ErrCancelled) {
			t.Errorf("%s after a cancel: %v", name, err)
		}
	}
	w.CheckSets()
}

func TestFinish_FailuresInARowPauseTheSchedule(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	ticks := w.Hourly(4, func(d *schedule.Definition) { d.Overlap, d.PauseOnFailure = schedule.OverlapAllow, 2 })
	w.Fire(storetest.Nightly)
	for i, c := range []struct {
		end    task.State
		paused bool
	}{{task.Failed, false}, {task.Succeeded, false}, {task.Failed, false}, {task.Failed, true}} {
		w.EndTick(storetest.Nightly, ticks[i], c.end)
		if paused := !w.Schedule(storetest.Nightly).PausedAt.IsZero(); paused != c.paused {
			t.Fatalf("after tick %d, which %s: paused is %v, want %v", i, c.end, paused, c.paused)
		}
	}
	s, err := w.Schedules.Resume(w.Ctx, storetest.Nightly)
	if err != nil || !s.PausedAt.IsZero() || s.Failures != 0 {
		t.Errorf("resumed, it is %+v, %v", s, err)
	}
}

func TestLog_KeepsTheNewestLinesAndTheirNumbers(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	ref := w.Bring("a", task.Running)
	var lines []tasks.Line
	for i := range task.LogLimit + 10 {
		lines = append(lines, tasks.Line{Stream: "stdout", Text: fmt.Sprint(i + 1)})
	}
	testkit.Must(t, w.Tasks.RunOf(w.Get(ref)).Log(w.Ctx, 1, lines))
	got, err := w.Tasks.Logs(w.Ctx, ref, "", 3)
	if err != nil || len(got) != 3 || got[0].Text != "11" || got[0].Cursor != "1-11" || got[0].Attempt != 1 || got[0].At.IsZero() {
		t.Fatalf("%+v, %v", got, err)
	}
	got, err = w.Tasks.Logs(w.Ctx, ref, got[2].Cursor, 5*task.LogLimit)
	if err != nil || len(got) != task.LogLimit-3 || got[0].Text != "14" {
		t.Errorf("%d lines, %v", len(got), err)
	}
}
