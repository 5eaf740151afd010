package control

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/store/bulks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// packed is a world with an index of lists.
func packed(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.pack()
	return w
}

// pack brings the index of lists up to date.
func (w *world) pack() {
	w.t.Helper()
	for p := range w.store.Partitions.Count() {
		packer := w.store.Listing.Packer(p, fence)
		for more := true; more; {
			var err error
			more, err = packer.Pack(w.ctx, false)
			testkit.Must(w.t, err)
		}
	}
}

// fail has tasks of those ids end failed, with an error that names them.
func (w *world) fail(ids ...string) {
	w.t.Helper()
	for _, id := range ids {
		w.submit([]task.Definition{{Ref: task.Ref{ID: id}, Type: "http", Retry: task.Retry{MaxAttempts: 1}}})
		run := w.begun(task.Ref{Namespace: "default", ID: id})
		testkit.Must(w.t, run.Finish(w.ctx, task.Failed, task.OutcomeFailed, "", "order "+id+"7 not found"))
	}
}

// awaitBulk runs bulk actions until the one of that id has ended.
func (w *world) awaitBulk(id string) (b Bulk) {
	w.t.Helper()
	ctx, stop := context.WithCancel(w.ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.KeepBulks(ctx, nil)
	}()
	testkit.Eventually(w.t, "the bulk action has ended", func() bool {
		var err error
		b, err = w.GetBulk(w.ctx, me, id)
		testkit.Must(w.t, err)
		return b.State.Ended()
	})
	stop()
	<-ended
	return b
}

func (w *world) startBulk(r BulkRequest) Bulk {
	w.t.Helper()
	b, err := w.StartBulk(w.ctx, me, r)
	testkit.Must(w.t, err)
	return b
}

func (w *world) state(id string) task.State {
	w.t.Helper()
	state, err := w.TaskState(w.ctx, me, id)
	if task.CodeOf(err) == task.CodeTaskNotFound {
		return task.None
	}
	testkit.Must(w.t, err)
	return state
}

func TestBulk_ConcernsTasksAsTheyWereAtThePreview(t *testing.T) {
	t.Parallel()
	w := packed(t)
	w.fail("a", "b")
	request := BulkRequest{Action: BulkRetry, Filter: TaskFilter{Error: "ORDER #"}, Spread: time.Hour}
	preview, err := w.PreviewBulk(w.ctx, me, request)
	if err != nil || preview.Total != 2 || preview.About || len(preview.Examples) != 2 || preview.Missing != "" {
		t.Fatalf("%+v, %v", preview, err)
	}
	next := preview.AsOf.Add(time.Millisecond)
	testkit.Eventually(t, "Redis's clock goes on", func() bool { return w.now().After(next) })
	w.fail("later")
	request.AsOf = preview.AsOf
	b := w.awaitBulk(w.startBulk(request).ID)
	if b.State != bulks.Done || b.Changed != 2 || b.Skipped+b.Failed != 0 || b.EndedAt.IsZero() {
		t.Errorf("%+v", b)
	}
	if w.state("a") != task.Scheduled || w.state("b") != task.Scheduled || w.state("later") != task.Failed {
		t.Errorf("a is %s, b %s, and the one that failed later %s", w.state("a"), w.state("b"), w.state("later"))
	}
	got, err := w.GetTask(w.ctx, me, "b")
	testkit.Must(t, err)
	if wait := got.DueAt.Sub(b.StartedAt); wait < 25*time.Minute || wait > 35*time.Minute {
		t.Errorf("the second of two that are spread over an hour is due after %s", wait)
	}
}

func TestBulk_CancelsMovesAndForgets(t *testing.T) {
	t.Parallel()
	w := packed(t)
	var defs []task.Definition
	for i := range 450 { // more than two pieces
		defs = append(defs, task.Definition{
			Ref: task.Ref{ID: fmt.Sprint("t", i)}, Type: "http", Queue: []string{"low", "high"}[i%2], Delay: time.Hour,
			Labels: map[string]string{"customer": fmt.Sprint(i % 3)},
		})
	}
	w.submit(defs)
	w.pack()
	low := TaskFilter{Queue: "low"}
	moved := w.awaitBulk(w.startBulk(BulkRequest{Action: BulkRequeue, Filter: low, ToQueue: "other"}).ID)
	if moved.State != bulks.Done || moved.Changed != 225 || moved.Total != 225 {
		t.Errorf("moved: %+v", moved)
	}
	ofOne := TaskFilter{Labels: map[string]string{"customer": "1"}}
	cancelled := w.awaitBulk(w.startBulk(BulkRequest{Action: BulkCancel, Filter: ofOne, Note: "it left"}).ID)
	if cancelled.State != bulks.Done || cancelled.Changed != 150 {
		t.Errorf("cancelled: %+v", cancelled)
	}
	ofOne.States = []task.State{task.Cancelled}
	forgotten := w.awaitBulk(w.startBulk(BulkRequest{Action: BulkForget, Filter: ofOne}).ID)
	if forgotten.State != bulks.Done || forgotten.Changed != 150 || w.state("t1") != task.None {
		t.Errorf("forgotten: %+v, the task is %q", forgotten, w.state("t1"))
	}
	rest := BulkRequest{Action: BulkCancel, Filter: TaskFilter{Queue: "other"}}
	preview, err := w.PreviewBulk(w.ctx, me, rest)
	if err != nil || preview.Total != 150 {
		t.Errorf("%d tasks are left in the other queue, %v", preview.Total, err)
	}
}

func TestBulk_StopsWithThePiece(t *testing.T) {
	t.Parallel()
	w := packed(t)
	w.submit([]task.Definition{{Ref: task.Ref{ID: "a"}, Type: "http", Delay: time.Hour}})
	b := w.startBulk(BulkRequest{Action: BulkCancel, Filter: TaskFilter{Type: "http"}})
	stopped, err := w.StopBulk(w.ctx, me, b.ID)
	testkit.Must(t, err)
	if stopped.State != bulks.Stopping {
		t.Errorf("it is %s", stopped.State)
	}
	if b := w.awaitBulk(b.ID); b.State != bulks.Stopped || w.state("a") != task.Scheduled {
		t.Errorf("it is %s, and the task %s", b.State, w.state("a"))
	}
	if again, err := w.StopBulk(w.ctx, me, b.ID); err != nil || again.State != bulks.Stopped {
		t.Errorf("stopped again: %+v, %v", again, err)
	}
	if _, err := w.GetBulk(w.ctx, me, "nosuch"); task.CodeOf(err) != CodeBulkNotFound {
		t.Errorf("an unknown id: %v", err)
	}
}

func TestBulk_RefusesWhatMakesNoSense(t *testing.T) {
	t.Parallel()
	w := packed(t)
	for field, r := range map[string]BulkRequest{
		"action":       {Action: "explode"},
		"filter.state": {Action: BulkRetry, Filter: TaskFilter{States: []task.State{task.Scheduled}}},
		"to_queue":     {Action: BulkRequeue},
		"spread":       {Action: BulkCancel, Spread: time.Minute},
	} {
		_, err := w.PreviewBulk(w.ctx, me, r)
		var refused *task.Error
		if !errors.As(err, &refused) || refused.Code != task.CodeInvalid || refused.Field != field {
			t.Errorf("%+v: %v, want one for the field %s", r, err, field)
		}
	}
	without := newWorld(t)
	_, err := without.StartBulk(without.ctx, me, BulkRequest{Action: BulkCancel})
	if task.CodeOf(err) != task.CodeUnavailable {
		t.Errorf("without an index: %v", err)
	}
}
