package tasks_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestRetry_AllowsAllAttemptsAgain(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	ref := w.Bring("a", task.Failed)
	got, err := w.Tasks.Retry(w.Ctx, ref)
	if err != nil || got.State != task.Scheduled || got.Attempt != 1 || got.MaxAttempts != 3 || got.Error != "" {
		t.Fatalf("%+v, %v", got, err)
	}
	w.Begin(ref)
	if got := w.Get(ref); got.Attempt != 2 {
		t.Errorf("attempt %d, want 2: numbers continue", got.Attempt)
	}
}

func TestRetry_OfATickCountsAsNotEnded(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	ticks := w.Hourly(1, nil)
	w.Fire(storetest.Nightly)
	w.EndTick(storetest.Nightly, ticks[0], task.Failed)
	_, err := w.Tasks.Retry(w.Ctx, task.Ref{Namespace: "default", ID: "nightly@" + ticks[0]})
	testkit.Must(t, err)
	if live := w.Schedule(storetest.Nightly).Live; live != 1 {
		t.Errorf("%d live tasks, want 1", live)
	}
}

// retry.max_elapsed counts from the time at which the first attempt was due, however that came about, and anew after a
// retry.
func TestClaim_RemembersWhenTheFirstAttemptWasDue(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	ref := w.Create(task.Definition{Ref: task.Ref{Namespace: "default", ID: "a"}, Type: "http", Delay: time.Hour, Retry: task.Retry{MaxAttempts: 2, MaxElapsed: time.Minute}}).Ref
	before := w.Get(ref).Definition
	_, err := w.Tasks.Change(w.Ctx, before, before, tasks.NewDue{Delay: new(time.Duration(0))}, 0)
	testkit.Must(t, err)
	moved := w.Get(ref).DueAt
	run := w.Begin(ref)
	if first := run.Task.FirstDueAt; !first.Equal(moved) {
		t.Errorf("the first attempt was due at %s, want %s, where it was moved to", first, moved)
	}
	testkit.Must(t, run.Reattempt(w.Ctx, 0, task.OutcomeFailed, "boom"))
	earlier := moved.Add(-time.Hour) // so that it cannot be the due time of attempt 2
	states := string(w.KeysOf(ref).States())
	state := strings.Fields(w.DB.HGet(w.Ctx, states, ref.String()).Val())
	state[3] = strconv.FormatInt(earlier.UnixMilli(), 10)
	testkit.Must(t, w.DB.HSet(w.Ctx, states, ref.String(), strings.Join(state, " ")).Err())
	run = w.Begin(ref)
	if first := run.Task.FirstDueAt; !first.Equal(earlier) {
		t.Errorf("at attempt 2 the first one was due at %s, want %s", first, earlier)
	}
	testkit.Must(t, run.Finish(w.Ctx, task.Failed, task.OutcomeFailed, "", "boom"))
	retried, err := w.Tasks.Retry(w.Ctx, ref)
	testkit.Must(t, err)
	if run = w.Begin(ref); !run.Task.FirstDueAt.Equal(retried.DueAt) {
		t.Errorf("after a retry the first attempt was due at %s, want %s", run.Task.FirstDueAt, retried.DueAt)
	}
}

func TestRetry_MovesThePayloadOnce(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	ref := w.Create(task.Definition{Ref: task.Ref{Namespace: "default", ID: "long"}, Payload: longPayload("x")}).Ref
	testkit.Must(t, w.Begin(ref).Finish(w.Ctx, task.Failed, task.OutcomeFailed, "", "boom"))
	before := sent(t, w)
	got, err := w.Tasks.Retry(w.Ctx, ref)
	if err != nil || len(got.Payload) != task.PayloadLimit {
		t.Fatalf("a payload of %d bytes, %v", len(got.Payload), err)
	}
	if n := sent(t, w) - before; n > task.PayloadLimit*3/2 {
		t.Errorf("Redis sent %d bytes for a payload of %d", n, task.PayloadLimit)
	}
}
