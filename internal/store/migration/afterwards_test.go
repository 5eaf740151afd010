package migration_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// The scripts of this version work on the text of a state, so a task must go through all of them.
func TestOpen_MakesTasksWithWhichEverythingCanBeDone(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	data := storetest.ReadOlder(t, layout1)
	w := storetest.On(t, older(t))
	for _, a := range data.Answers.Tasks {
		ref := task.Ref{Namespace: a.Task["namespace"].(string), ID: a.Task["id"].(string)}
		before, err := w.Tasks.Attempts(w.Ctx, ref)
		testkit.Must(t, err)
		reap(t, w, ref)
		if w.Get(ref).State.Final() {
			_, err := w.Tasks.Retry(w.Ctx, ref)
			testkit.Must(t, err)
		}
		begin(t, w, ref)
		testkit.Must(t, w.Tasks.ReportProgress(w.Ctx, ref, w.Get(ref).Attempt, 50, "half"))
		testkit.Must(t, w.Tasks.RunOf(w.Get(ref)).Reattempt(w.Ctx, 0, task.OutcomeFailed, "again"))
		begin(t, w, ref)
		testkit.Must(t, w.Tasks.RunOf(w.Get(ref)).Finish(w.Ctx, task.Succeeded, task.OutcomeSucceeded, "done", ""))

		after, err := w.Tasks.Attempts(w.Ctx, ref)
		testkit.Must(t, err)
		got := w.Get(ref)
		if got.State != task.Succeeded || got.Result != "done" || got.Error != "" || after[len(after)-1].Number != got.Attempt {
			t.Errorf("%s: %+v, attempts %+v", ref, got, after)
		}
		for i, attempt := range before {
			if after[i].Number != attempt.Number || !after[i].StartedAt.Equal(attempt.StartedAt) {
				t.Errorf("%s: attempt %+v has become %+v", ref, attempt, after[i])
			}
		}
	}
	w.CheckSets()
}

// reap ends the attempt of a running task, whose worker is stopped.
func reap(t *testing.T, w *storetest.World, ref task.Ref) {
	t.Helper()
	if got := w.Get(ref); got.State == task.Running {
		testkit.Must(t, w.Leader(ref).Reap(w.Ctx, got, w.DB.Time(w.Ctx).Val(), time.Time{}, partition.Loss{Reason: "lost"}))
		if w.Get(ref).State == task.Running {
			t.Fatalf("%s runs still", ref)
		}
	}
}

// begin brings a scheduled or queued task into the state running, and lets no other one be claimed.
func begin(t *testing.T, w *storetest.World, ref task.Ref) {
	t.Helper()
	wheel := string(w.KeysOf(ref).Wheel())
	if w.Get(ref).State == task.Scheduled {
		testkit.Must(t, w.DB.ZAddXX(w.Ctx, wheel, redis.Z{Member: ref.String(), Score: 1}).Err())
		claimed, err := w.Leader(ref).Claim(w.Ctx, 1, storetest.Quotas, 0)
		testkit.Must(t, err)
		if len(claimed.Deliveries) != 1 || claimed.Deliveries[0].Ref != ref {
			t.Fatalf("claimed %+v, want %s", claimed.Deliveries, ref)
		}
	}
	_, err := w.Tasks.Begin(w.Ctx, ref, w.Get(ref).Attempt, fmt.Sprintf("node-%s#1", strings.ToLower(ref.Namespace)))
	testkit.Must(t, err)
	if got := w.Get(ref); got.State != task.Running || got.StartedAt.IsZero() || got.QueuedAt.IsZero() {
		t.Fatalf("%s is %+v", ref, got)
	}
}
