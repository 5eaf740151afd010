package tasks_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestFinish_OfAnAttemptWhoseClaimRedisHasLostIsAccepted(t *testing.T) {
	t.Parallel()
	l := loseBegin(t)
	l.unclaimed()
	testkit.Must(t, l.run.Finish(l.Ctx, task.Succeeded, task.OutcomeSucceeded, "done", ""))
	if got := l.Get(l.ref); got.State != task.Succeeded || got.Result != "done" || got.Attempt != 1 {
		t.Errorf("it is %+v", got)
	}
	if claimed := l.Claim(l.ref); len(claimed) > 0 {
		t.Errorf("it is claimed again: %v", claimed)
	}
	l.CheckSets()
	l.expectLoss(t)
}

// expectLoss checks that one loss is recorded, from the start of the run on.
func (l *lostBegin) expectLoss(t *testing.T) {
	t.Helper()
	losses, err := l.Losses(l.Ctx, l.PartitionOf(l.ref))
	if err != nil || len(losses) != 1 || !losses[0].From.Equal(l.run.Task.StartedAt) {
		t.Errorf("losses %v, %v, want one from %s", losses, err, l.run.Task.StartedAt)
	}
}

func TestExtendEach_BeginsARunAgainWhoseClaimRedisHasLost(t *testing.T) {
	t.Parallel()
	l := loseBegin(t)
	l.unclaimed()
	testkit.Must(t, l.Tasks.ExtendEach(l.Ctx, []*tasks.Run{l.run})[0].Err)
	if got := l.Get(l.ref); got.State != task.Running || got.Node != "node-a" || got.Attempt != 1 {
		t.Errorf("it is %+v", got)
	}
	if claimed := l.Claim(l.ref); len(claimed) > 0 {
		t.Errorf("it is claimed again: %v", claimed)
	}
	l.CheckSets()
	l.expectLoss(t)
}

// Another run has begun the attempt: Redis knows no other one, and its word counts.
func TestFinish_IsRefusedIfAnotherRunHasBegunTheLostAttempt(t *testing.T) {
	t.Parallel()
	l := loseBegin(t)
	_, err := l.Tasks.Begin(l.Ctx, l.ref, 1, "node-b#1")
	testkit.Must(t, err)
	if err := l.run.Finish(l.Ctx, task.Succeeded, task.OutcomeSucceeded, "done", ""); !errors.Is(err, tasks.ErrStale) {
		t.Errorf("%v, want ErrStale", err)
	}
	if err := l.Tasks.ExtendEach(l.Ctx, []*tasks.Run{l.run})[0].Err; !errors.Is(err, tasks.ErrStale) {
		t.Errorf("%v, want ErrStale", err)
	}
}

// reports are what a worker says of an attempt.
var reports = map[string]func(*storetest.World, *tasks.Run) error{
	"extend":   func(w *storetest.World, r *tasks.Run) error { return w.Tasks.ExtendEach(w.Ctx, []*tasks.Run{r})[0].Err },
	"progress": func(w *storetest.World, r *tasks.Run) error { return r.Progress(w.Ctx, 50, "") },
	"finish": func(w *storetest.World, r *tasks.Run) error {
		return r.Finish(w.Ctx, task.Succeeded, task.OutcomeSucceeded, "done", "")
	},
}

// Redis has lost that the first attempt ended and the second one began. Its worker may report before Redis hears of that end from another
// node, which must not stop it.
func TestReports_OfAnAttemptWaitUntilRedisHearsHowTheOneBeforeEnded(t *testing.T) {
	t.Parallel()
	for name, report := range reports {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, _ := hearing(t)
			second := loseEndOfFirst(t, w, task.OutcomeFailed, "boom")
			ref := second.Task.Ref
			if err := report(w, second); !errors.Is(err, tasks.ErrBehind) {
				t.Errorf("while the first attempt runs: %v, want ErrBehind", err)
			}
			if n, failed := w.Tasks.ReportAgain(w.Ctx, time.Now()); n != 1 || len(failed) > 0 {
				t.Errorf("%d ends were lost, want that of the first attempt", n)
			}
			testkit.Must(t, report(w, second))
			if got := w.Get(ref); got.Attempt != 2 || name != "finish" && got.State != task.Running || name == "finish" && got.State != task.Succeeded {
				t.Errorf("it is %+v", got)
			}
		})
	}
}

// Redis has lost two attempts: the task waits for the second one, and the third one runs. That must not stop it.
func TestReports_OfAnAttemptWaitWhileTheTaskIsScheduledForAnEarlierOne(t *testing.T) {
	t.Parallel()
	for name, report := range reports {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, _ := hearing(t)
			ref := w.Bring("a", task.None)
			w.Create(task.Definition{Ref: ref, Retry: task.Retry{MaxAttempts: 3}})
			k := w.KeysOf(ref)
			testkit.Must(t, w.Begin(ref).Reattempt(w.Ctx, 0, task.OutcomeFailed, "boom"))
			before := w.DB.HGet(w.Ctx, string(k.States()), ref.String()).Val()
			testkit.Must(t, w.Begin(ref).Reattempt(w.Ctx, 0, task.OutcomeFailed, "boom"))
			third := w.Begin(ref)
			testkit.Must(t, w.DB.HSet(w.Ctx, string(k.States()), ref.String(), before).Err())
			testkit.Must(t, w.DB.Del(w.Ctx, string(k.Running()), string(k.Held())).Err())
			if err := report(w, third); !errors.Is(err, tasks.ErrBehind) {
				t.Errorf("before Redis hears of the second attempt: %v, want ErrBehind", err)
			}
			if n, failed := w.Tasks.ReportAgain(w.Ctx, time.Now()); n != 1 || len(failed) > 0 {
				t.Errorf("%d ends were lost, %v, want that of the second attempt", n, failed)
			}
			testkit.Must(t, report(w, third))
			if got := w.Get(ref); got.Attempt != 3 || name != "finish" && got.State != task.Running || name == "finish" && got.State != task.Succeeded {
				t.Errorf("it is %+v", got)
			}
		})
	}
}

// A leader ended the first attempt, whose worker was dead, and the second one has run. When nobody is going to tell of that, what the node of
// the second one knows is enough.
func TestReports_EndAnAttemptBeforeThatNobodyTellsTheEndOf(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"extend", "finish"} {
		report := reports[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, heard := hearing(t)
			second := loseEndOfFirst(t, w, task.OutcomeLost, "its worker died")
			ref := second.Task.Ref
			if err := report(w, second); !errors.Is(err, tasks.ErrBehind) {
				t.Errorf("while others may tell of it: %v, want ErrBehind", err)
			}
			heard()
			testkit.Must(t, report(w, second))
			attempts, err := w.Tasks.Attempts(w.Ctx, ref)
			testkit.Must(t, err)
			if got := w.Get(ref); got.Attempt != 2 || len(attempts) != 2 || attempts[0].Outcome != task.OutcomeLost || got.State != task.Running && name == "extend" {
				t.Errorf("it is %+v, with the attempts %+v", got, attempts)
			}
			w.CheckSets()
		})
	}
}

// The node that ran the two attempts before is silent.
func TestReports_EndAllAttemptsBeforeThatNobodyTellsTheEndOf(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]task.State{
		"waits for the second": task.Scheduled, "is queued for the first": task.Queued, "runs the first": task.Running, "was never claimed": task.None,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, heard := hearing(t)
			ref := w.Bring("a", task.None)
			w.Create(task.Definition{Ref: ref, Retry: task.Retry{MaxAttempts: 5}})
			k, before := w.KeysOf(ref), map[task.State]string{}
			state := func() string { return w.DB.HGet(w.Ctx, string(k.States()), ref.String()).Val() }
			delivery := w.Claim(ref)[0]
			before[task.Queued] = state()
			first, err := w.Tasks.Begin(w.Ctx, ref, delivery.Attempt, "node-b#1")
			testkit.Must(t, err)
			before[task.Running] = state()
			testkit.Must(t, first.Reattempt(w.Ctx, 0, task.OutcomeFailed, "boom"))
			before[task.Scheduled] = state()
			testkit.Must(t, w.Begin(ref).Reattempt(w.Ctx, 0, task.OutcomeFailed, "boom"))
			third := w.Begin(ref)
			if at == task.None {
				testkit.Must(t, w.DB.HDel(w.Ctx, string(k.States()), ref.String()).Err())
				testkit.Must(t, w.DB.Del(w.Ctx, string(k.Running()), string(k.Held())).Err())
			} else {
				testkit.Must(t, w.DB.HSet(w.Ctx, string(k.States()), ref.String(), before[at]).Err())
			}
			testkit.Must(t, w.DB.LTrim(w.Ctx, string(k.Attempts(ref)), 0, 0).Err())
			if at != task.Scheduled {
				testkit.Must(t, w.DB.Del(w.Ctx, string(k.Attempts(ref))).Err())
			}
			if err := w.Tasks.ExtendEach(w.Ctx, []*tasks.Run{third})[0].Err; !errors.Is(err, tasks.ErrBehind) {
				t.Errorf("while others may tell of them: %v, want ErrBehind", err)
			}
			heard()
			testkit.Must(t, w.Tasks.ExtendEach(w.Ctx, []*tasks.Run{third})[0].Err)
			attempts, err := w.Tasks.Attempts(w.Ctx, ref)
			testkit.Must(t, err)
			if got := w.Get(ref); got.State != task.Running || got.Attempt != 3 || got.Run != third.Task.Run || len(attempts) != 3 {
				t.Errorf("it is %+v, with the attempts %+v", got, attempts)
			}
			if attempts[1].Outcome != task.OutcomeLost {
				t.Errorf("the second attempt is %+v, want it to be lost", attempts[1])
			}
			w.CheckSets()
		})
	}
}

// Redis has lost a task whose second attempt runs, and somebody has submitted its name again.
func TestReports_EndNoAttemptOfALaterTaskOfTheSameName(t *testing.T) {
	t.Parallel()
	w, heard := hearing(t)
	heard()
	ref := w.Bring("a", task.None)
	w.Create(task.Definition{Ref: ref, Retry: task.Retry{MaxAttempts: 3}})
	testkit.Must(t, w.Begin(ref).Reattempt(w.Ctx, 0, task.OutcomeFailed, "boom"))
	second := w.Begin(ref)
	lose(t, w, ref)
	queued := second.Task.QueuedAt
	testkit.Eventually(t, "the clock goes on", func() bool {
		now, err := w.Store.Now(w.Ctx, w.PartitionOf(ref))
		return err == nil && now.After(queued.Add(time.Millisecond))
	})
	w.Create(task.Definition{Ref: ref})
	later := w.Begin(ref)
	if err := w.Tasks.ExtendEach(w.Ctx, []*tasks.Run{second})[0].Err; err == nil {
		t.Error("the lease of the run of the lost task is extended")
	}
	if got := w.Get(ref); got.State != task.Running || got.Run != later.Task.Run {
		t.Errorf("it is %+v, want the run of the later task", got)
	}
}

// loseEndOfFirst begins a second attempt after one that ended so, and brings Redis back to the time at which the first one ran.
func loseEndOfFirst(t *testing.T, w *storetest.World, o task.Outcome, reason string) (second *tasks.Run) {
	t.Helper()
	ref := w.Bring("a", task.None)
	w.Create(task.Definition{Ref: ref, Retry: task.Retry{MaxAttempts: 3}})
	first := w.Begin(ref)
	k := w.KeysOf(ref)
	before := w.DB.HGet(w.Ctx, string(k.States()), ref.String()).Val()
	testkit.Must(t, first.Reattempt(w.Ctx, 0, o, reason))
	second = w.Begin(ref)
	testkit.Must(t, w.DB.HSet(w.Ctx, string(k.States()), ref.String(), before).Err())
	testkit.Must(t, w.DB.Del(w.Ctx, string(k.Attempts(ref))).Err())
	return second
}

// suspicious is a World whose Redis may have lost writes.
func suspicious(t *testing.T) *storetest.World {
	t.Helper()
	return doubting(t, func() bool { return true })
}

// doubting is a World whose store asks that function whether Redis may have lost writes.
func doubting(t *testing.T, mayHaveLost func() bool) *storetest.World {
	t.Helper()
	w := storetest.New(t)
	s, err := store.Open(t.Context(), store.Options{DB: w.DB, MayHaveLost: mayHaveLost})
	testkit.Must(t, err)
	w.Store = s
	return w
}

// hearing is a suspicious World in which nodes may yet tell what Redis has lost, until heard is called.
func hearing(t *testing.T) (_ *storetest.World, heard func()) {
	t.Helper()
	w := storetest.New(t)
	yes := true
	s, err := store.Open(t.Context(), store.Options{DB: w.DB, MayHaveLost: func() bool { return true }, AwaitsReports: func() bool { return yes }})
	testkit.Must(t, err)
	w.Store = s
	return w, func() { yes = false }
}

// lose removes all keys of tasks, but not the leases.
func lose(t *testing.T, w *storetest.World, refs ...task.Ref) {
	t.Helper()
	for _, ref := range refs {
		k := w.KeysOf(ref)
		testkit.Must(t, w.DB.Del(w.Ctx, string(k.Defs()), string(k.States()), string(k.Running()), string(k.Held()), string(k.Expiry()),
			string(k.Results()), string(k.Index(ref.Namespace, task.Succeeded)), string(k.Attempts(ref))).Err())
	}
}

// A task that could not be restored is not one that Redis has deleted: its end is not told, and its run goes on.
func TestReportAgain_TellsAgainWhatCouldNotBeRestored(t *testing.T) {
	t.Parallel()
	w := suspicious(t)
	since := time.Now()
	ended, runs, other := w.Bring("ended", task.Succeeded), w.Bring("runs", task.Queued), w.Bring("another", task.Queued)
	if p := w.PartitionOf(other); p == w.PartitionOf(ended) || p == w.PartitionOf(runs) {
		t.Fatal("the names must be in other partitions")
	}
	run, otherRun := w.Begin(runs), w.Begin(other)
	lose(t, w, ended, runs, other)
	for _, ref := range []task.Ref{ended, runs} {
		testkit.Must(t, w.DB.Del(w.Ctx, string(w.KeysOf(ref).Queued())).Err())
		testkit.Must(t, w.DB.Set(w.Ctx, string(w.KeysOf(ref).Queued()), "no sorted set", 0).Err())
	}
	if n, failed := w.Tasks.ReportAgain(w.Ctx, since); n != 0 || len(failed) == 0 {
		t.Errorf("%d ends were lost, %v, want an error", n, failed)
	}
	extended := w.Tasks.ExtendEach(w.Ctx, []*tasks.Run{run, otherRun})
	if err := extended[0].Err; err == nil || errors.Is(err, tasks.ErrStale) {
		t.Errorf("the run of a task that could not be restored: %v", err)
	}
	if err := extended[1].Err; err != nil || w.Get(other).State != task.Running {
		t.Errorf("a run in another partition: %v, and it is %s", err, w.Get(other).State)
	}
	testkit.Must(t, w.DB.Del(w.Ctx, string(w.KeysOf(ended).Queued()), string(w.KeysOf(runs).Queued())).Err())
	testkit.Must(t, w.Tasks.ExtendEach(w.Ctx, []*tasks.Run{run})[0].Err)
	if n, failed := w.Tasks.ReportAgain(w.Ctx, since); n != 1 || len(failed) > 0 {
		t.Errorf("%d ends were lost, %v, want 1", n, failed)
	}
	if a, b := w.Get(ended).State, w.Get(runs).State; a != task.Succeeded || b != task.Running {
		t.Errorf("they are %s and %s", a, b)
	}
}

// A primary that lacks a task can take over while a call for its run is on its way: that one gets the answer of a task that does not exist.
func TestReports_RestoreATaskIfAnotherPrimaryTakesOverDuringTheCall(t *testing.T) {
	t.Parallel()
	var looks atomic.Int64
	w := doubting(t, func() bool { return looks.Add(1) > 1 })
	for name, test := range map[string]struct {
		report func(*tasks.Run) error
		want   task.State
	}{
		"extend": {func(r *tasks.Run) error { return w.Tasks.ExtendEach(w.Ctx, []*tasks.Run{r})[0].Err }, task.Running},
		"finish": {func(r *tasks.Run) error { return r.Finish(w.Ctx, task.Succeeded, task.OutcomeSucceeded, "", "") }, task.Succeeded},
	} {
		ref := w.Bring(name, task.Queued)
		run := w.Begin(ref)
		lose(t, w, ref)
		looks.Store(0)
		if err := test.report(run); err != nil || w.Get(ref).State != test.want {
			t.Errorf("%s: %v, and the task is %q", name, err, w.Get(ref).State)
		}
	}
}

// Its worker stops at its limit, so a leader ends it: an attempt that Redis has lost would be begun again by somebody else otherwise.
func TestExtendFor_BeginsALostRunAgainAlsoIfItsLimitIsOver(t *testing.T) {
	t.Parallel()
	w := suspicious(t)
	ref := w.Bring("a", task.Queued)
	run := w.Begin(ref)
	run.Limit = run.Task.StartedAt
	lose(t, w, ref)
	if err := w.Tasks.ExtendFor(w.Ctx, time.Hour, []*tasks.Run{run})[0].Err; !errors.Is(err, tasks.ErrOver) {
		t.Errorf("%v, want ErrOver", err)
	}
	until := w.DB.ZScore(w.Ctx, string(w.KeysOf(ref).Held()), ref.String()).Val()
	if got := w.Get(ref); got.State != task.Running || got.Run != run.Task.Run || until != float64(run.Limit.UnixMilli()) {
		t.Errorf("it is %+v, leased until %f; want it to run, leased until %d", got, until, run.Limit.UnixMilli())
	}
}

func TestReportAgain_RestoresEndsThatRedisHasLost(t *testing.T) {
	t.Parallel()
	w := suspicious(t)
	once, kept := w.Bring("once", task.Succeeded), w.Bring("kept", task.Succeeded)
	twice := w.Bring("twice", task.None)
	w.Create(task.Definition{Ref: twice, Payload: []byte(`{"n":1}`), Retry: task.Retry{MaxAttempts: 2}})
	testkit.Must(t, w.Begin(twice).Reattempt(w.Ctx, 0, task.OutcomeFailed, "boom"))
	testkit.Must(t, w.Begin(twice).Finish(w.Ctx, task.Succeeded, task.OutcomeSucceeded, "done", ""))
	before := map[task.Ref]task.Task{once: w.Get(once), twice: w.Get(twice), kept: w.Get(kept)}
	if n, failed := w.Tasks.ReportAgain(w.Ctx, time.Now()); n != 0 || len(failed) > 0 {
		t.Errorf("%d ends were lost, want 0", n)
	}

	lose(t, w, once, twice)
	want := 3 // two attempts of twice
	if w.PartitionOf(kept) == w.PartitionOf(once) || w.PartitionOf(kept) == w.PartitionOf(twice) {
		want++
	}
	if n, failed := w.Tasks.ReportAgain(w.Ctx, time.Now()); n != want || len(failed) > 0 {
		t.Errorf("%d ends were lost, want %d", n, want)
	}
	times := cmp.FilterPath(func(p cmp.Path) bool {
		return p.Last().String() == ".FinishedAt" || p.Last().String() == ".StartedAt" || p.Last().String() == ".DueAt" || p.Last().String() == ".QueuedAt" || p.Last().String() == ".FirstDueAt"
	}, cmp.Ignore())
	for ref, task := range before {
		if diff := cmp.Diff(task, w.Get(ref), times); diff != "" {
			t.Errorf("%s is not as it was (-want +got):\n%s", ref, diff)
		}
	}
	w.CheckSets()
}

// keeps are settings for how long names of deleted tasks are remembered.
var keeps = map[string]partition.Keep{
	"remembered": {Remember: time.Hour, Names: 10}, "not for long": {Remember: time.Millisecond, Names: 10}, "no time to remember": {Names: 10},
	"no names": {Remember: time.Hour},
}

// History that was deleted soon after the end of its task, as it is when Redis is full or retention is short, is not taken for lost.
func TestReportAgain_RestoresNothingThatWasDeleted(t *testing.T) {
	t.Parallel()
	for name, keep := range keeps {
		for _, without := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, without the schedule: %t", name, without), func(t *testing.T) {
				t.Parallel()
				testNothingDeletedIsRestored(t, keep, without)
			})
		}
	}
}

func testNothingDeletedIsRestored(t *testing.T, keep partition.Keep, withoutSchedule bool) {
	w := suspicious(t)
	ended := []task.Ref{w.Bring("submitted", task.Succeeded)}
	w.Hourly(1, nil)
	for range 2 { // a tick that is a minute late, and one on time, whose record is packed
		for _, ticked := range w.Fire(storetest.Nightly) {
			ref := task.Ref{Namespace: storetest.Nightly.Namespace, ID: storetest.Nightly.ID + "@" + ticked.Name}
			testkit.Must(t, w.Begin(ref).Finish(w.Ctx, task.Succeeded, task.OutcomeSucceeded, "done", ""))
			ended = append(ended, ref)
		}
		w.Rewind(storetest.Nightly, time.Hour-time.Minute+time.Millisecond)
	}
	if len(ended) != 3 {
		t.Fatalf("ended are %v, want 3", ended)
	}
	for _, ref := range ended {
		deleteHistory(t, w, ref, keep)
	}
	if withoutSchedule {
		w.Pause(storetest.Nightly)
		testkit.Must(t, w.Schedules.Delete(w.Ctx, storetest.Nightly, ""))
	}
	if n, failed := w.Tasks.ReportAgain(w.Ctx, time.Now()); n != 0 || len(failed) > 0 {
		t.Errorf("%d ends of %v were lost, want 0", n, ended)
	}
	for _, ref := range ended {
		if losses, err := w.Losses(w.Ctx, w.PartitionOf(ref)); (w.Get(ref).State != task.None) || err != nil || len(losses) > 0 {
			t.Errorf("%s is restored: losses %v, %v", ref, losses, err)
		}
	}
}

// deleteHistory has the leader of a task's partition delete all that has ended.
func deleteHistory(t *testing.T, w *storetest.World, ref task.Ref, keep partition.Keep) {
	t.Helper()
	_, err := w.Leader(ref).Sweep(w.Ctx, keep, 100)
	testkit.Must(t, err)
	if w.Get(ref).State != task.None {
		t.Fatalf("%s is there still", ref)
	}
}

// The name of the task that was deleted was free.
func TestReportAgain_RestoresALaterTaskOfTheNameOfADeletedOne(t *testing.T) {
	t.Parallel()
	w := suspicious(t)
	ref := w.Bring("again", task.Succeeded)
	ended := w.Get(ref).FinishedAt
	deleteHistory(t, w, ref, partition.Keep{})
	testkit.Eventually(t, "the clock goes on", func() bool {
		now, err := w.Store.Now(w.Ctx, w.PartitionOf(ref))
		return err == nil && now.After(ended.Add(time.Millisecond))
	})
	w.Bring("again", task.Failed)
	lose(t, w, ref)
	if n, err := w.Tasks.ReportAgain(w.Ctx, time.Now()); n != 1 || err.Err() != nil || w.Get(ref).State != task.Failed {
		t.Errorf("%d ends were lost, %v, and the task is %q; want that of the second task, restored", n, err, w.Get(ref).State)
	}
}

// Nodes report again what ended lately, not counting an outage. So what is noted does not age; only those that end later take its place.
func TestSweep_NotesTasksThatAreDeletedWithinTwoMinutesOfTheirEnd(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	ref := w.Bring("a", task.Succeeded)
	deleted := string(w.KeysOf(ref).Deleted())
	now, err := w.Store.Now(w.Ctx, w.PartitionOf(ref))
	testkit.Must(t, err)
	before := make([]redis.Z, task.ReportedLimit)
	for i := range before {
		before[i] = redis.Z{Score: float64(now.Add(-time.Hour).UnixMilli() + int64(i)), Member: fmt.Sprintf("%05d", i)}
	}
	testkit.Must(t, w.DB.ZAdd(w.Ctx, deleted, before...).Err())
	deleteHistory(t, w, ref, partition.Keep{})
	noted := w.DB.ZRange(w.Ctx, deleted, 0, -1).Val()
	if n := len(noted); n != task.ReportedLimit || noted[0] != "00001" || noted[n-1] != ref.String() {
		t.Errorf("%d are noted, the oldest is %s and the newest %s; want %d, 00001 and %s", n, noted[0], noted[n-1], task.ReportedLimit, ref)
	}
	if left := w.DB.PTTL(w.Ctx, deleted).Val(); left != -1 {
		t.Errorf("all are forgotten in %s, want never", left)
	}
	old := w.Bring("b", task.Succeeded)
	k := w.KeysOf(old)
	state := strings.Fields(w.DB.HGet(w.Ctx, string(k.States()), old.String()).Val())
	state[10] = strconv.FormatInt(now.Add(-121*time.Second).UnixMilli(), 10) // the end
	testkit.Must(t, w.DB.HSet(w.Ctx, string(k.States()), old.String(), strings.Join(state, " ")).Err())
	deleteHistory(t, w, old, partition.Keep{})
	if err := w.DB.ZScore(w.Ctx, string(k.Deleted()), old.String()).Err(); !errors.Is(err, redis.Nil) {
		t.Errorf("a task that ended long before it was deleted is noted: %v", err)
	}
}

// What runs was in Redis before, and a primary that has taken over has the same limit.
func TestExtendEach_RestoresATaskWhileRedisIsFull(t *testing.T) {
	t.Parallel()
	w := suspicious(t)
	ref := w.Bring("a", task.None)
	w.Create(task.Definition{Ref: ref})
	run := w.Begin(ref)
	lose(t, w, ref)
	testkit.Must(t, w.DB.ConfigSet(w.Ctx, "maxmemory", "1").Err())
	testkit.Must(t, w.Tasks.ExtendEach(w.Ctx, []*tasks.Run{run})[0].Err)
	if got := w.Get(ref); got.State != task.Running || got.Attempt != 1 {
		t.Errorf("it is %+v", got)
	}
}

// The end of a restored task owes its follow-up, and that of a step is told to its run.
func TestFinish_OfARestoredTaskOwesItsFollowUp(t *testing.T) {
	t.Parallel()
	mail := &task.FollowUp{When: task.WhenEnded, Task: task.Definition{Type: "mail"}}
	for name, follow := range map[string]*task.FollowUp{"follow-up": mail, "step": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := suspicious(t)
			ref := w.Bring("a", task.None)
			if follow == nil {
				ref = ref.Step("load")
			}
			w.Create(task.Definition{Ref: ref, OnEnd: follow})
			run := w.Begin(ref)
			lose(t, w, ref)
			testkit.Must(t, run.Finish(w.Ctx, task.Succeeded, task.OutcomeSucceeded, "", ""))
			if owed := w.DB.ZCard(w.Ctx, string(w.KeysOf(ref).Outbox())).Val(); owed != 1 {
				t.Errorf("the outbox has %d entries, want 1", owed)
			}
		})
	}
}

// A full Redis deletes a restored task soon after its end, also when nobody has decided its tick again yet.
func TestExtendEach_RestoresATickThatDoesNotRunAgainWhenItIsDeleted(t *testing.T) {
	t.Parallel()
	for name, keep := range keeps {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testRestoredTickIsDeleted(t, keep)
		})
	}
}

func testRestoredTickIsDeleted(t *testing.T, keep partition.Keep) {
	w := suspicious(t)
	ticks := w.Hourly(1, nil)
	before := w.Schedule(storetest.Nightly)
	w.Fire(storetest.Nightly)
	ref := task.Ref{Namespace: storetest.Nightly.Namespace, ID: storetest.Nightly.ID + "@" + ticks[0]}
	run, k := w.Begin(ref), w.KeysOf(ref)
	lose(t, w, ref)
	testkit.Must(t, w.DB.Del(w.Ctx, string(k.Live(storetest.Nightly)), string(k.Ledger(storetest.Nightly))).Err())
	testkit.Must(t, w.DB.HSet(w.Ctx, string(k.Schedule(storetest.Nightly)), "cursor", before.Cursor.UnixMilli(), "runs", before.Runs).Err())
	w.MakeDue(storetest.Nightly)
	testkit.Must(t, run.Finish(w.Ctx, task.Succeeded, task.OutcomeSucceeded, "done", ""))
	lead := w.Partitions.At(w.PartitionOf(ref)).Lead(storetest.Fence)
	swept, err := lead.Sweep(w.Ctx, keep, 100)
	testkit.Must(t, err)
	if got := w.Get(ref); got.State != task.None || swept.Forgotten != 0 {
		t.Fatalf("it is %s, want it to be deleted; %d names were forgotten", got.State, swept.Forgotten)
	}
	ticked := w.Fire(storetest.Nightly)
	if len(ticked) != 1 || ticked[0].Name != ticks[0] || ticked[0].Outcome != schedule.Fired {
		t.Errorf("ticks %+v, want that one to have fired", ticked)
	}
	if got := w.Get(ref); got.State != task.None {
		t.Errorf("it is %s again", got.State)
	}
	w.CheckSets()

	entry := w.DB.HGet(w.Ctx, string(k.Remembered()), ref.String()).Val()
	at, err := strconv.ParseInt(entry[strings.LastIndexByte(entry, ' ')+1:], 10, 64)
	testkit.Must(t, err)
	elevenMinutesAgo := strconv.FormatInt(at-(11*time.Minute).Milliseconds(), 10)
	testkit.Must(t, w.DB.HSet(w.Ctx, string(k.Remembered()), ref.String(), strings.TrimSuffix(entry, strconv.FormatInt(at, 10))+elevenMinutesAgo).Err())
	if swept, err := lead.Sweep(w.Ctx, keep, 100); err != nil || swept.Forgotten != 1 || swept.Early != 0 {
		t.Errorf("after 11 minutes: %+v, %v; want one forgotten, and not early", swept, err)
	}
}

func TestExtendEach_RestoresATickWhoseTaskRedisHasLost(t *testing.T) {
	t.Parallel()
	w := suspicious(t)
	ticks := w.Hourly(1, func(d *schedule.Definition) { d.Overlap = schedule.OverlapSkip })
	w.Fire(storetest.Nightly)
	ref := task.Ref{Namespace: storetest.Nightly.Namespace, ID: storetest.Nightly.ID + "@" + ticks[0]}
	run := w.Begin(ref)
	lose(t, w, ref)
	testkit.Must(t, w.DB.Del(w.Ctx, string(w.KeysOf(ref).Live(storetest.Nightly)), string(w.KeysOf(ref).Ledger(storetest.Nightly))).Err())
	testkit.Must(t, w.Tasks.ExtendEach(w.Ctx, []*tasks.Run{run})[0].Err)
	if got := w.Get(ref); got.State != task.Running || !got.StartedAt.Equal(run.Task.StartedAt.Truncate(time.Millisecond)) {
		t.Errorf("it is %+v", got)
	}
	if live := w.Schedule(storetest.Nightly).Live; live != 1 {
		t.Errorf("%d tasks are live, want 1", live)
	}
	w.CheckSets()
}
