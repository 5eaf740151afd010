package worker

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor"
)

// A run that is lost after it saved a checkpoint is as one whose worker died: another node goes on from there, and what the first one
// saves then counts for nothing.
func TestCheckpoint_GoesToTheNextAttemptOnAnotherNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	saved, again, late, end := make(chan error, 1), make(chan struct{}), make(chan error, 1), make(chan struct{})
	w.start(func(_ context.Context, a executor.Attempt) (string, error) {
		saved <- a.Save(t.Context(), json.RawMessage(`{"row": 5}`))
		<-again
		late <- a.Save(t.Context(), json.RawMessage(`"stale"`))
		return "", nil
	}, func(o *Options) { o.Capacity = 1 })
	ref := w.submit(task.Definition{})
	testkit.Must(t, testkit.Receive(t, saved, "the checkpoint"))
	w.reap(ref)
	second := make(chan string, 1)
	w.start(func(_ context.Context, a executor.Attempt) (string, error) {
		second <- string(a.Checkpoint)
		<-end
		return "", errors.New("not yet")
	}, func(o *Options) { o.Node = "node-b" })
	w.dispatch()
	if got := testkit.Receive(t, second, "the second attempt"); got != `{"row":5}` {
		t.Errorf("the second attempt got %q", got)
	}
	close(again)
	if err := testkit.Receive(t, late, "the stale run's save"); !errors.Is(err, executor.ErrNotCurrent) {
		t.Errorf("the stale run's save: %v, want %v", err, executor.ErrNotCurrent)
	}
	close(end)
	w.reaches(ref, task.Scheduled)
	if got := string(w.get(ref).Checkpoint); got != `{"row":5}` {
		t.Errorf("the checkpoint is %q", got)
	}
}

func TestCheckpoint_ThatIsRefusedStopsTheRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	reaped, stopped := make(chan struct{}), make(chan error, 1)
	begun := make(chan struct{})
	w.start(func(ctx context.Context, a executor.Attempt) (string, error) {
		close(begun)
		<-reaped
		err := a.Save(t.Context(), json.RawMessage(`1`))
		stopped <- errors.Join(err, context.Cause(ctx))
		return "", err
	})
	ref := w.submit(task.Definition{})
	testkit.Receive(t, begun, "the attempt")
	w.reap(ref)
	close(reaped)
	err := testkit.Receive(t, stopped, "its end")
	if !errors.Is(err, executor.ErrNotCurrent) || !errors.Is(err, executor.ErrNoGrace) {
		t.Errorf("it ended with %v, want %v and %v", err, executor.ErrNotCurrent, executor.ErrNoGrace)
	}
}
