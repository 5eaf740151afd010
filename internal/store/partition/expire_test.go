package partition_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// passed lets time pass for a task that waits on the wheel.
func (f *followed) passed(d time.Duration) {
	f.t.Helper()
	for _, entry := range [][2]string{
		{string(f.KeysOf(f.ref).Wheel()), f.ref.String()}, {string(f.KeysOf(f.ref).Outbox()), "late " + f.ref.String()},
	} {
		at, err := f.DB.ZScore(f.Ctx, entry[0], entry[1]).Result()
		testkit.Must(f.t, err)
		testkit.Must(f.t, f.DB.ZAdd(f.Ctx, entry[0], redis.Z{Score: at - float64(d.Milliseconds()), Member: entry[1]}).Err())
	}
}

// owedNow makes the entry of the task due.
func (f *followed) owedNow() {
	f.t.Helper()
	entry := redis.Z{Score: 1, Member: "late " + f.ref.String()}
	testkit.Must(f.t, f.DB.ZAdd(f.Ctx, string(f.KeysOf(f.ref).Outbox()), entry).Err())
}

// expired has the leader look at the outbox, and returns whether the task has expired.
func (f *followed) expired() bool {
	f.t.Helper()
	done, err := f.Leader(f.ref).Follow(f.Ctx, 10)
	testkit.Must(f.t, err)
	return len(done.Expired) == 1 && done.Expired[0].Ref == f.ref
}

// What nobody has begun in time is cancelled, wherever it waits; what has begun goes on.
func TestFollow_EndsWhatNobodyHasBegunInTime(t *testing.T) {
	t.Parallel()
	const bound = 500 * time.Millisecond
	for name, c := range map[string]struct {
		before func(f *followed)
		want   task.State
	}{
		"on the wheel": {func(f *followed) { f.passed(time.Second) }, task.Cancelled},
		"in its queue": {func(f *followed) { f.passed(time.Second); f.Claim(f.ref) }, task.Cancelled},
		"not due yet":  {func(*followed) {}, task.Scheduled},
		"begun": {func(f *followed) {
			f.Begin(f.ref)
			f.owedNow()
		}, task.Running},
		"ended": {func(f *followed) {
			f.finish(task.Succeeded, task.OutcomeSucceeded, "", "")
			f.owedNow()
		}, task.Succeeded},
		"put off": {func(f *followed) {
			f.passed(time.Second)
			before := f.Get(f.ref)
			later := time.Now().Add(time.Hour)
			_, err := f.Tasks.Change(f.Ctx, before.Definition, before.Definition, tasks.NewDue{RunAt: &later}, 0)
			testkit.Must(f.t, err)
		}, task.Scheduled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFollowed(t, task.Definition{StartBy: bound, OnEnd: child(task.WhenEnded)})
			c.before(f)
			ends := c.want == task.Cancelled
			if f.expired() != ends {
				t.Errorf("it has expired: %v", !ends)
			}
			got := f.Get(f.ref)
			if got.State != c.want || ends != strings.HasPrefix(got.Error, "expired: ") {
				t.Errorf("it is %s: %q", got.State, got.Error)
			}
			if waits := slices.Contains(f.outbox(), "late "+f.ref.String()); waits != (c.want == task.Scheduled) {
				t.Errorf("the outbox has %q", f.outbox())
			}
			if ends && len(f.follow()) != 1 {
				t.Error("nothing follows it")
			}
			f.CheckSets()
		})
	}
}

// The leader comes again when a task that has more time than its entry says is late.
func TestFollow_ComesAgainWhenATaskIsLate(t *testing.T) {
	t.Parallel()
	f := newFollowed(t, task.Definition{StartBy: time.Hour})
	f.owedNow()
	done, err := f.Leader(f.ref).Follow(f.Ctx, 10)
	testkit.Must(t, err)
	if by := f.Get(f.ref).StartsBy(); !done.Next.Equal(by) {
		t.Errorf("it comes again at %s, want %s", done.Next, by)
	}
}

// No worker begins what is too late, whether or not a leader has seen it. Retried by hand, the task has its time again.
func TestFollow_LetsNobodyBeginTooLate(t *testing.T) {
	t.Parallel()
	f := newFollowed(t, task.Definition{StartBy: 500 * time.Millisecond})
	f.passed(time.Second)
	f.Claim(f.ref)
	if _, err := f.Tasks.Begin(f.Ctx, f.ref, 1, "node-a#1"); err == nil {
		t.Error("a worker began it")
	}
	if !f.expired() {
		t.Fatal("it has not expired")
	}
	_, err := f.Tasks.Retry(f.Ctx, f.ref)
	testkit.Must(t, err)
	if got := f.Get(f.ref); got.State != task.Scheduled || got.Error != "" {
		t.Errorf("it is %s: %q", got.State, got.Error)
	}
	if f.Begin(f.ref) == nil || f.expired() {
		t.Error("its second attempt has expired")
	}
}

// The names of fields in a payload, a label or a follow-up are not those of the task.
func TestFollow_ReadsTheBoundOfTheTaskOnly(t *testing.T) {
	t.Parallel()
	next := child(task.WhenEnded)
	next.Task.StartBy = time.Hour
	f := newFollowed(t, task.Definition{
		Payload: []byte(`{"a":1,"start_by":5}`), Labels: map[string]string{"a": "b", "start_by": "5"}, OnEnd: next,
	})
	if left := f.outbox(); len(left) > 0 {
		t.Errorf("the outbox has %q", left)
	}
	f.finish(task.Succeeded, task.OutcomeSucceeded, "", "")
	f.follow()
	if left, want := f.outbox(), []string{"late " + f.ref.FollowUp(1).String()}; !slices.Equal(left, want) {
		t.Errorf("the outbox has %q, want %q", left, want)
	}
}

// The tasks of ticks end in the same way, and their schedule counts them as cancelled.
func TestFollow_EndsTheTaskOfATickInTime(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	ref := task.Ref{Namespace: task.DefaultNamespace, ID: "hourly"}
	w.Put(schedule.Definition{
		Ref: ref, Spec: schedule.Spec{Rules: []schedule.Rule{{Every: time.Hour}}},
		Task: task.Definition{Type: "http", StartBy: time.Hour},
	})
	_, err := w.Trigger(ref)
	testkit.Must(t, err)
	states := w.TasksOf(ref)
	if len(states) != 1 {
		t.Fatalf("its tasks are %v", states)
	}
	for name := range states {
		f := &followed{World: w, t: t, ref: task.Ref{Namespace: ref.Namespace, ID: name}}
		f.passed(2 * time.Hour)
		if !f.expired() || f.Get(f.ref).State != task.Cancelled {
			t.Errorf("its task is %s", f.Get(f.ref).State)
		}
	}
}
