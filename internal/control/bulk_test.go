package control

import (
	"context"
	"errors"
	"fmt"
	"sync"
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
			more, err = packer.Pack(w.ctx)
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

// A form may reach two nodes, one after the other or both at once.
func TestBulk_StartsOnceForAKey(t *testing.T) {
	t.Parallel()
	w := packed(t)
	w.fail("a")
	other, request := w.open(w.db), BulkRequest{Action: BulkRetry}
	keyed, next := me, me
	keyed.Key, next.Key = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "BBCDEFGHIJKLMNOPQRSTUVWXYZ"
	var started [4]Bulk
	var calls sync.WaitGroup
	for i := range started {
		calls.Go(func() {
			var err error
			if started[i], err = []*Control{w.Control, other}[i%2].StartBulk(w.ctx, keyed, request); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	for _, b := range started {
		if b.ID == "" || b.ID != started[0].ID || !b.StartedAt.Equal(started[0].StartedAt) {
			t.Errorf("one call has started %+v, another %+v", started[0], b)
		}
	}
	done := w.awaitBulk(started[0].ID)
	if again, err := other.StartBulk(w.ctx, keyed, request); err != nil || again.State != bulks.Done || done.Changed != 1 {
		t.Errorf("sent again after its end: %+v, %v", again, err)
	}
	if b, err := other.StartBulk(w.ctx, next, request); err != nil || b.ID == done.ID {
		t.Errorf("with another key: %+v, %v", b, err)
	}
	if all, err := w.ListBulks(w.ctx, me); err != nil || len(all) != 2 {
		t.Errorf("there are %+v, %v", all, err)
	}
}

func TestBulkDelay_GrowsWithTheTasksThatCameBefore(t *testing.T) {
	t.Parallel()
	const total = 5_000_000
	b := Bulk{Spread: SpreadLimit, Total: total}
	last := time.Duration(-1)
	for _, came := range []int{0, 1, 1000, 106_752, total / 2, total, total + 10} {
		delay := bulkDelay(b, came)
		if delay < last || delay > SpreadLimit {
			t.Errorf("after %d tasks: %s", came, delay)
		}
		last = delay
	}
	if half := bulkDelay(b, total/2); half != SpreadLimit/2 {
		t.Errorf("in the middle: %s", half)
	}
}

func TestBulk_DoesNotRetryWhatFailsAgain(t *testing.T) {
	t.Parallel()
	w := packed(t)
	w.fail("a")
	preview, err := w.PreviewBulk(w.ctx, me, BulkRequest{Action: BulkRetry, AsOf: w.now().Add(time.Hour)})
	testkit.Must(t, err)
	if preview.AsOf.After(w.now()) {
		t.Errorf("it is as of %s, which is to come", preview.AsOf)
	}
	failed, err := w.GetTask(w.ctx, me, "a")
	testkit.Must(t, err)
	_, err = w.retry(w.ctx, me, "a", 0, failed.FinishedAt.Add(-time.Millisecond))
	if task.CodeOf(err) != task.CodeNotFinished {
		t.Errorf("a retry for an end before: %v", err)
	}
	if _, err := w.retry(w.ctx, me, "a", 0, failed.FinishedAt); err != nil {
		t.Errorf("a retry for its end: %v", err)
	}
}

func TestBulk_ALateLeaderSetsNothingBack(t *testing.T) {
	t.Parallel()
	w := packed(t)
	w.submit([]task.Definition{{Ref: task.Ref{ID: "a"}, Type: "http", Delay: time.Hour}})
	late := w.startBulk(BulkRequest{Action: BulkCancel, Filter: TaskFilter{Type: "http"}})
	done := w.awaitBulk(late.ID)
	behind := late
	behind.Skipped = 1
	if _, err := w.updateBulk(w.ctx, late, behind); !errors.Is(err, bulks.ErrChanged) {
		t.Errorf("got %v", err)
	}
	now, err := w.GetBulk(w.ctx, me, late.ID)
	if err != nil || now.State != bulks.Done || now.Progress != done.Progress || now.EndedAt.IsZero() {
		t.Errorf("it is %+v, and was %+v", now, done)
	}
}

func TestBulk_WaitsWhileThereIsNoIndex(t *testing.T) {
	t.Parallel()
	w := packed(t)
	w.submit([]task.Definition{{Ref: task.Ref{ID: "a"}, Type: "http", Delay: time.Hour}})
	b := w.startBulk(BulkRequest{Action: BulkCancel, Filter: TaskFilter{Type: "http"}})
	for p := range w.store.Partitions.Count() {
		testkit.Must(t, w.store.Listing.BeginAnew(w.ctx, p))
	}
	if _, err := w.bulkPiece(w.ctx, b); task.CodeOf(err) != task.CodeUnavailable {
		t.Errorf("got %v", err)
	}
	w.pack()
	if b := w.awaitBulk(b.ID); b.State != bulks.Done || b.Changed != 1 {
		t.Errorf("with the index: %+v", b)
	}
}
