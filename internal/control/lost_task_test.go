package control

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/remote"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/telemetry"
	"github.com/dts-sched/dts/internal/testkit"
)

type noMembers struct{}

func (noMembers) View() cluster.View                        { return cluster.View{} }
func (noMembers) BeatNow()                                  {}
func (noMembers) RemoveGuest(context.Context, string) error { return nil }

// losing is a task whose attempt a worker by HTTP has, and that Redis may lose.
type losing struct {
	*storetest.World
	t       *testing.T
	ref     task.Ref
	hearing atomic.Bool
	token   string
	through *Control // that the worker took the attempt through
}

func hold(t *testing.T) *losing {
	t.Helper()
	w := &losing{World: storetest.On(t, redistest.Start(t).DB(t)), t: t, ref: task.Ref{Namespace: "default", ID: "a"}}
	w.hearing.Store(true)
	w.World.Create(task.Definition{Ref: w.ref, Type: "count"})
	queues := queue.New(queue.Options{DB: w.DB})
	testkit.Must(t, queues.HandOver(w.Ctx, w.Claim(w.ref), nil).Failure())
	w.through = w.node()
	taken, err := w.through.TakeAttempts(w.Ctx, me, "w1", WorkerOffer{Types: []string{"count"}, Queues: []string{"default"}, Capacity: 1, Lease: time.Minute},
		TakeRequest{Limit: 1, Wait: testkit.Limit})
	if err != nil || len(taken) != 1 {
		t.Fatalf("took %v, %v", taken, err)
	}
	w.token = taken[0].Token
	return w
}

// node is another node.
func (w *losing) node() *Control {
	w.t.Helper()
	s, err := store.Open(w.Ctx, store.Options{DB: w.DB, MayHaveLost: func() bool { return true }, AwaitsReports: w.hearing.Load})
	testkit.Must(w.t, err)
	workers := remote.New(remote.Options{DB: w.DB, Store: s, Members: noMembers{}, Metrics: telemetry.New(), Log: slog.New(slog.DiscardHandler)})
	ended := make(chan error, 1)
	go func() { ended <- workers.Run(w.t.Context()) }()
	w.t.Cleanup(func() { testkit.Must(w.t, <-ended) })
	return New(Options{Store: s, Queues: queue.New(queue.Options{DB: w.DB}), Workers: workers})
}

func (w *losing) lose() {
	w.t.Helper()
	k := w.KeysOf(w.ref)
	testkit.Must(w.t, w.DB.Del(w.Ctx, string(k.Defs()), string(k.States()), string(k.Running()), string(k.Held())).Err())
}

// expect checks that the task is in its first attempt, and in that state.
func (w *losing) expect(state task.State) {
	w.t.Helper()
	if got := w.Get(w.ref); got.State != state || got.Attempt != 1 {
		w.t.Errorf("it is %+v", got)
	}
}

func (w *losing) extend(through *Control) ([]Extended, error) {
	return through.ExtendAttempts(w.Ctx, me, "w1", Extension{
		Attempts: []Held{{ID: w.ref, Attempt: 1, Token: w.token}}, Lease: time.Minute,
	})
}

// A worker may extend its lease before the node that it asks has told Redis what it knows.
func TestExtendAttempts_RestoresATaskThatRedisHasLost(t *testing.T) {
	t.Parallel()
	w := hold(t)
	w.lose()
	if v, err := w.extend(w.through); err != nil || !slices.Equal(v, []Extended{{Verdict: VerdictRunning}}) {
		t.Errorf("%v, %v, want %s", v, err, VerdictRunning)
	}
	w.expect(task.Running)
}

func TestFinishAttempt_RestoresATaskThatRedisHasLost(t *testing.T) {
	t.Parallel()
	w := hold(t)
	w.lose()
	testkit.Must(t, w.through.FinishAttempt(w.Ctx, me, w.ref.ID, 1, w.token, AttemptEnding{Outcome: task.OutcomeSucceeded, Result: "done"}))
	w.expect(task.Succeeded)
}

// A node that does not know the task waits for the one that does.
func TestReports_ThroughAnotherNodeWaitUntilRedisHasHeardOfTheTask(t *testing.T) {
	t.Parallel()
	w := hold(t)
	w.lose()
	other := w.node()
	if v, err := w.extend(other); task.CodeOf(err) != task.CodeUnavailable {
		t.Errorf("%v, %v, want %s", v, err, task.CodeUnavailable)
	}
	finish := AttemptEnding{Outcome: task.OutcomeSucceeded}
	if err := other.FinishAttempt(w.Ctx, me, w.ref.ID, 1, w.token, finish); task.CodeOf(err) != task.CodeUnavailable {
		t.Errorf("finishing: %v, want %s", err, task.CodeUnavailable)
	}
	w.hearing.Store(false)
	if v, err := w.extend(other); err != nil || !slices.Equal(v, []Extended{{Verdict: VerdictLost}}) {
		t.Errorf("when nobody tells of it any more: %v, %v, want %s", v, err, VerdictLost)
	}
}
