package tasks_test

import (
	"context"
	"errors"
	"fmt"
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
		_, err := w.Tasks.Cancel(w.Ctx, ref, "")
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
	s, err := w.Schedules.Resume(w.Ctx, storetest.Nightly, "")
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
	page, err := w.Tasks.Logs(w.Ctx, ref, tasks.LogQuery{Limit: 3})
	got := page.Lines
	if err != nil || len(got) != 3 || got[0].Text != "11" || got[0].Cursor != "1-11" || got[0].Attempt != 1 || got[0].At.IsZero() {
		t.Fatalf("%+v, %v", got, err)
	}
	page, err = w.Tasks.Logs(w.Ctx, ref, tasks.LogQuery{After: got[2].Cursor, Limit: 5 * task.LogLimit})
	got = page.Lines
	if err != nil || len(got) != task.LogLimit-3 || got[0].Text != "14" {
		t.Errorf("%d lines, %v", len(got), err)
	}
}

func TestReattempt_KeepsTheNewestAttemptsInTheHistory(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	const surplus = 3
	ref := w.Create(task.Definition{
		Ref: task.Ref{Namespace: "default", ID: "a"}, Retry: task.Retry{MaxAttempts: task.AttemptsLimit},
	}).Ref
	for range task.HistoryLimit + surplus {
		testkit.Must(t, w.Begin(ref).Reattempt(w.Ctx, 0, task.OutcomeFailed, "boom"))
	}
	history := string(w.KeysOf(ref).Attempts(ref))
	if n := w.DB.LLen(w.Ctx, history).Val(); n != task.HistoryLimit {
		t.Errorf("Redis keeps %d attempts, want %d", n, task.HistoryLimit)
	}
	attempts, err := w.Tasks.Attempts(w.Ctx, ref)
	testkit.Must(t, err)
	first, last := attempts[0].Number, attempts[len(attempts)-1].Number
	if len(attempts) != task.HistoryLimit || first != surplus+1 || last != task.HistoryLimit+surplus {
		t.Errorf("%d attempts, from %d to %d; want the newest %d", len(attempts), first, last, task.HistoryLimit)
	}
}

func TestBegin_RepeatedStartsTheLeaseAnew(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	ref := w.Bring("a", task.Running)
	w.Lapse(ref) // as if the reply to the first call had been lost, and Redis had been away
	_, err := w.Tasks.Begin(w.Ctx, ref, 1, "node-a#1")
	testkit.Must(t, err)
	err = w.Leader(ref).Reap(w.Ctx, w.Get(ref), time.Now(), time.Time{}, partition.Loss{Reason: "lost"})
	if got := w.Get(ref).State; got != task.Running || !errors.Is(err, tasks.ErrStale) {
		t.Errorf("it is %s, %v; want running: its lease began anew", got, err)
	}
}

// lostBegin is an attempt of which Redis has lost that it began, as in a failover.
type lostBegin struct {
	*storetest.World
	ref    task.Ref
	run    *tasks.Run
	queued string // the state of the task before it began
}

func loseBegin(t *testing.T) *lostBegin {
	t.Helper()
	l := &lostBegin{World: storetest.New(t)}
	l.ref = l.Bring("a", task.Queued)
	l.queued = l.DB.HGet(l.Ctx, string(l.KeysOf(l.ref).States()), l.ref.String()).Val()
	var err error
	l.run, err = l.Tasks.Begin(l.Ctx, l.ref, 1, "node-a#1")
	testkit.Must(t, err)
	l.goBack(l.queued)
	return l
}

// goBack brings the task back to a queued state.
func (l *lostBegin) goBack(state string) {
	k := l.KeysOf(l.ref)
	l.DB.HSet(l.Ctx, string(k.States()), l.ref.String(), state)
	l.DB.ZRem(l.Ctx, string(k.Running()), l.ref.String())
	l.DB.ZRem(l.Ctx, string(k.Held()), l.ref.String())
	l.DB.ZAdd(l.Ctx, string(k.Queued()), redis.Z{Score: 1, Member: l.ref.String()})
}

// another brings the task back as one of the same name that was created after the run was claimed; own makes it the same one again.
func (l *lostBegin) another() { l.created("9") }
func (l *lostBegin) own()     { l.created("1") }

// created changes the first digit of the time at which the task was created.
func (l *lostBegin) created(digit string) {
	defs := string(l.KeysOf(l.ref).Defs())
	record := l.DB.HGet(l.Ctx, defs, l.ref.String()).Val()
	l.DB.HSet(l.Ctx, defs, l.ref.String(), digit+record[1:])
	l.goBack(l.queued)
}

// unclaimed brings the task back to the time before it was claimed.
func (l *lostBegin) unclaimed() {
	l.goBack(l.queued)
	k := l.KeysOf(l.ref)
	l.DB.HDel(l.Ctx, string(k.States()), l.ref.String())
	l.DB.ZRem(l.Ctx, string(k.Queued()), l.ref.String())
	l.DB.ZAdd(l.Ctx, string(k.Wheel()), redis.Z{Score: 1, Member: l.ref.String()})
}

// The run goes on as it was, with the lease of its worker: a worker by HTTP extends it more seldom than a node does.
func TestReport_BeginsARunAgainWhoseBeginRedisHasLost(t *testing.T) {
	t.Parallel()
	for name, report := range map[string]func(context.Context, *tasks.Run) error{
		"progress":   func(ctx context.Context, r *tasks.Run) error { return r.Progress(ctx, 40, "") },
		"checkpoint": func(ctx context.Context, r *tasks.Run) error { return r.Save(ctx, []byte(`5`)) },
		"log": func(ctx context.Context, r *tasks.Run) error {
			return r.Log(ctx, 1, []tasks.Line{{Stream: "stdout", Text: "a"}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := loseBegin(t)
			l.run.Limit, l.run.Lease = l.run.Task.StartedAt.Add(time.Hour), time.Minute
			before := l.DB.Time(l.Ctx).Val()
			elsewhere, err := l.Tasks.RunWith(l.ref, 1, l.run.Token())
			testkit.Must(t, err)
			l.another()
			if err := report(l.Ctx, elsewhere); !errors.Is(err, tasks.ErrStale) {
				t.Errorf("another task of that name: %v, want ErrStale", err)
			}
			l.own()
			testkit.Must(t, report(l.Ctx, elsewhere))
			if got := l.Get(l.ref); got.State != task.Running || got.Run != l.run.Task.Run || !got.StartedAt.Equal(l.run.Task.StartedAt) {
				t.Errorf("it is %+v", got)
			}
			held := l.DB.ZScore(l.Ctx, string(l.KeysOf(l.ref).Held()), l.ref.String()).Val()
			if held < float64(before.Add(time.Minute).UnixMilli()) {
				t.Errorf("leased until %f, want for a minute from %d", held, before.UnixMilli())
			}
			l.CheckSets()
		})
	}
}

func TestFinish_OfAnAttemptWhoseBeginRedisHasLostIsAccepted(t *testing.T) {
	t.Parallel()
	l := loseBegin(t)
	l.another()
	if err := l.run.Finish(l.Ctx, task.Succeeded, task.OutcomeSucceeded, "stale", ""); !errors.Is(err, tasks.ErrStale) {
		t.Errorf("another task of that name: %v, want ErrStale", err)
	}
	l.own()
	if err := l.run.Finish(l.Ctx, task.Succeeded, task.OutcomeSucceeded, "done", ""); err != nil {
		t.Errorf("the same attempt: %v", err)
	}
	if got := l.Get(l.ref); got.State != task.Succeeded || got.Result != "done" || got.Node != "node-a" {
		t.Errorf("it is %s with result %q, by %s", got.State, got.Result, got.Node)
	}
	l.CheckSets()
}

func TestExtendEach_BeginsARunAgainWhoseBeginRedisHasLost(t *testing.T) {
	t.Parallel()
	l := loseBegin(t)
	extend := func() error { return l.Tasks.ExtendEach(l.Ctx, []*tasks.Run{l.run})[0].Err }
	l.another()
	if err := extend(); !errors.Is(err, tasks.ErrStale) {
		t.Errorf("another task of that name: %v, want ErrStale", err)
	}
	l.own()
	for range 2 {
		testkit.Must(t, extend())
	}
	got := l.Get(l.ref)
	if got.State != task.Running || got.Node != "node-a" || !got.StartedAt.Equal(l.run.Task.StartedAt) {
		t.Errorf("it is %s by %s, started at %s, want running by node-a, started at %s", got.State, got.Node, got.StartedAt, l.run.Task.StartedAt)
	}
	l.CheckSets()
	testkit.Must(t, l.run.Finish(l.Ctx, task.Succeeded, task.OutcomeSucceeded, "done", ""))
	if _, err := l.Tasks.Begin(l.Ctx, l.ref, 1, "node-b#1"); !errors.Is(err, tasks.ErrLeftover) {
		t.Errorf("a second run of the attempt: %v, want ErrLeftover", err)
	}
}
