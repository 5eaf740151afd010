package worker

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/handover"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor"
)

// newestWorld is a world in the newest layout: all of its nodes are of this release.
func newestWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	testkit.Must(t, w.store.Advance(t.Context(), func(context.Context) ([]cluster.Node, error) { return nil, nil }))
	return w
}

// movable is an executor that gives its first attempt up when it is asked to move, with a checkpoint. later gets the
// checkpoints of further attempts.
func movable() (_ work, begun chan struct{}, later chan string) {
	begun, later = make(chan struct{}, 10), make(chan string, 10)
	return func(ctx context.Context, a executor.Attempt) (string, error) {
		if a.Number > 1 {
			later <- string(a.Checkpoint)
			return "", nil
		}
		begun <- struct{}{}
		select {
		case <-a.Moving:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
		if err := a.Save(ctx, json.RawMessage(`{"row": 5}`)); err != nil {
			return "", err
		}
		return "", executor.Moved(errors.New("moved at row 5"))
	}, begun, later
}

// goOn hands a task over to a node that was given up and waits.
func (w *world) goOn(ref task.Ref, node string) {
	w.t.Helper()
	lane := handover.Lane{Queue: task.DefaultQueue, Type: w.get(ref).Type, Reach: "^node-a^^"}
	grant := handover.Grant{Lanes: handover.Quotas{lane: {Number: 1, Nodes: []string{node}}}}
	p := w.store.Partitions.At(w.store.PartitionOf(ref))
	c, err := p.Lead(fence).Claim(w.t.Context(), 100, grant, time.Second)
	testkit.Must(w.t, err)
	testkit.Must(w.t, w.queues.HandOver(w.t.Context(), c.Deliveries, nil).Failure())
}

// expectMove waits until a task that has moved has ended, and says what is wrong with it. Then it goes on on a node.
func (w *world) expectMove(ref task.Ref, node string, later <-chan string) {
	w.t.Helper()
	w.reaches(ref, task.Scheduled)
	a := w.last(ref, task.OutcomeMoved)
	got := w.get(ref)
	if got.DueAt.After(a.FinishedAt) || got.MovedFrom != a.Node || a.Error != "moved at row 5" {
		const text = "it ended at %s on %s (%s), and is due at %s; given up by %s"
		w.t.Errorf(text, a.FinishedAt, a.Node, a.Error, got.DueAt, got.MovedFrom)
	}
	w.dispatch() // into the lane of what was given up
	w.goOn(ref, node)
	if got := testkit.Receive(w.t, later, "the second attempt"); got != `{"row":5}` {
		w.t.Errorf("the second attempt got %q", got)
	}
	if got := w.reaches(ref, task.Succeeded); got.MaxAttempts != 2 || got.MovedFrom != "" {
		const text = "it may make %d attempts, want 1 and the one that moved; given up by %q"
		w.t.Errorf(text, got.MaxAttempts, got.MovedFrom)
	}
}

func TestMove_HasTheNextAttemptGoOn(t *testing.T) {
	t.Parallel()
	w := newestWorld(t)
	do, begun, later := movable()
	w.start(do)
	ref := w.submit(task.Definition{Retry: task.Retry{MaxAttempts: 1}})
	testkit.Receive(t, begun, "the attempt")
	for range 2 { // asking again is harmless
		got, err := w.useCases().MoveTask(t.Context(), caller, ref.ID, "")
		if err != nil && task.CodeOf(err) != task.CodeNotRunning {
			t.Errorf("%+v, %v", got, err)
		}
	}
	w.expectMove(ref, "node-a", later)
}

// The message to the worker is lost.
func TestMove_IsFoundWithTheLease(t *testing.T) {
	t.Parallel()
	w := newestWorld(t)
	do, begun, later := movable()
	w.start(do)
	ref := w.submit(task.Definition{Retry: task.Retry{MaxAttempts: 1}})
	testkit.Receive(t, begun, "the attempt")
	states := string(w.store.KeysOf(ref).States())
	before := w.db.HGet(t.Context(), states, ref.String()).Val()
	testkit.Must(t, w.db.HSet(t.Context(), states, ref.String(), before+" 0 0 0 0 1764000000000::").Err())
	w.expectMove(ref, "node-a", later)
}

func TestSetMoving_AsksWhatRunsAndWhatBegins(t *testing.T) {
	t.Parallel()
	w := newestWorld(t)
	do, begun, later := movable()
	running := w.start(do)
	runs := w.submit(task.Definition{Retry: task.Retry{MaxAttempts: 1}})
	testkit.Receive(t, begun, "the attempt")
	running.SetMoving(true)
	w.expectMove(runs, "node-a", later)
	w.expectMove(w.submit(task.Definition{Retry: task.Retry{MaxAttempts: 1}}), "node-a", later)
}

// A worker that is told to stop asks as well, so that its tasks need not be interrupted.
func TestRun_AsksToMoveAtItsEnd(t *testing.T) {
	t.Parallel()
	w := newestWorld(t)
	do, begun, later := movable()
	running := w.start(do, func(o *Options) { o.DrainTimeout = testkit.Limit })
	ref := w.submit(task.Definition{Retry: task.Retry{MaxAttempts: 1}})
	testkit.Receive(t, begun, "the attempt")
	running.end()
	w.start(do, func(o *Options) { o.Node = "node-b" })
	w.expectMove(ref, "node-b", later)
}

func TestMove_LeavesAHandlerThatGoesOn(t *testing.T) {
	t.Parallel()
	w := newestWorld(t)
	begun, end := make(chan (<-chan struct{}), 1), make(chan struct{})
	w.start(func(_ context.Context, a executor.Attempt) (string, error) {
		begun <- a.Moving
		<-end
		return "done", nil
	})
	ref := w.submit(task.Definition{})
	asked := testkit.Receive(t, begun, "the attempt")
	moved, err := w.useCases().MoveTask(t.Context(), caller, ref.ID, "")
	if err != nil || moved.State != task.Running || moved.MoveRequested.IsZero() {
		t.Errorf("%+v, %v", moved, err)
	}
	testkit.Receive(t, asked, "the request")
	close(end)
	if got := w.reaches(ref, task.Succeeded); got.Attempt != 1 || got.Result != "done" || !got.MoveRequested.IsZero() {
		t.Errorf("after attempt %d it has the result %q; asked to move: %s", got.Attempt, got.Result, got.MoveRequested)
	}
}

// Who is asked to stop is not asked to move, and what gives up then is cancelled.
func TestMove_ComesAfterACancel(t *testing.T) {
	t.Parallel()
	w := newestWorld(t)
	begun, end := make(chan (<-chan struct{}), 1), make(chan struct{})
	w.start(func(_ context.Context, a executor.Attempt) (string, error) {
		begun <- a.Moving
		<-end
		return "", executor.Moved(errors.New("moved"))
	})
	ref := w.submit(task.Definition{})
	asked := testkit.Receive(t, begun, "the attempt")
	w.cancel(ref)
	moved, err := w.useCases().MoveTask(t.Context(), caller, ref.ID, "")
	if err != nil || moved.CancelRequested.IsZero() || !moved.MoveRequested.IsZero() {
		t.Errorf("asked to move: %+v, %v", moved, err)
	}
	close(end)
	w.reaches(ref, task.Cancelled)
	w.last(ref, task.OutcomeCancelled)
	select {
	case <-asked:
		t.Error("it was asked to move")
	default:
	}
}
