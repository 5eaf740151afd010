package tasks_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

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

func TestBegin_RepeatedStartsTheLeaseAnew(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	ref := w.Bring("a", task.Running)
	w.Lapse(ref) // as if the reply to the first call had been lost, and Redis had been away
	_, err := w.Tasks.Begin(w.Ctx, ref, 1, "node-a#1")
	testkit.Must(t, err)
	testkit.Must(t, w.Leader(ref).Reap(w.Ctx, w.Get(ref), time.Now(), time.Time{}, "lost"))
	if got := w.Get(ref).State; got != task.Running {
		t.Errorf("it is %s, want running: its lease began anew", got)
	}
}

func TestFinish_OfAnAttemptWhoseBeginRedisHasLostIsAccepted(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	ref := w.Bring("a", task.Queued)
	states := string(w.KeysOf(ref).States())
	queued := w.DB.HGet(w.Ctx, states, ref.String()).Val()
	run, err := w.Tasks.Begin(w.Ctx, ref, 1, "node-a#1")
	testkit.Must(t, err)
	lose := func(state string) {
		testkit.Must(t, w.DB.HSet(w.Ctx, states, ref.String(), state).Err())
		k := w.KeysOf(ref)
		w.DB.ZRem(w.Ctx, string(k.Running()), ref.String())
		w.DB.ZRem(w.Ctx, string(k.Held()), ref.String())
		testkit.Must(t, w.DB.ZAdd(w.Ctx, string(k.Queued()), redis.Z{Score: 1, Member: ref.String()}).Err())
	}
	// Another task of the same name, which was claimed at another time, is none of the worker's business.
	lose(queued[:len(queued)-1] + map[bool]string{true: "1", false: "2"}[queued[len(queued)-1] != '1'])
	if err := run.Finish(w.Ctx, task.Succeeded, task.OutcomeSucceeded, "stale", ""); !errors.Is(err, tasks.ErrStale) {
		t.Errorf("another task of that name: %v, want ErrStale", err)
	}
	lose(queued)
	if err := run.Finish(w.Ctx, task.Succeeded, task.OutcomeSucceeded, "done", ""); err != nil {
		t.Errorf("the same attempt: %v", err)
	}
	if got := w.Get(ref); got.State != task.Succeeded || got.Result != "done" || got.Node != "node-a" {
		t.Errorf("it is %s with result %q, by %s", got.State, got.Result, got.Node)
	}
	w.CheckSets()
}
