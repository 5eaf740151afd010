package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor"
)

// A run that is lost after it saved a checkpoint is as one whose worker died: another node goes on from there, and what
// the first one saves then counts for nothing.
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

// A command can write checkpoints much faster than Redis should save them.
func TestSaveSoon_SavesAFloodAFewTimesASecond(t *testing.T) {
	t.Parallel()
	var saved []string
	l := newLines(t.Context(), nil, func(_ context.Context, c json.RawMessage) error {
		saved = append(saved, string(c))
		return nil
	}, nil)
	n, begin := 0, clock.Now()
	for clock.Since(begin) < 3*linesInterval {
		n++
		testkit.Must(t, l.saveSoon(json.RawMessage(strconv.Itoa(n))))
	}
	l.close()
	most := int(clock.Since(begin)/linesInterval) + 2 // at the begin and at the end
	if len(saved) > most || len(saved) < 2 || saved[len(saved)-1] != strconv.Itoa(n) {
		t.Errorf("of %d checkpoints, %d were saved, the last one %s; want 2 to %d, and the last",
			n, len(saved), saved[len(saved)-1], most)
	}
}

func TestSaveSoon_TriesAgainUntilItIsSaved(t *testing.T) {
	t.Parallel()
	tries := make(chan string, 9)
	fails := 2
	l := newLines(t.Context(), nil, func(_ context.Context, c json.RawMessage) error {
		tries <- string(c)
		if fails--; fails >= 0 {
			return errors.New("Redis does not answer")
		}
		return nil
	}, nil)
	testkit.Must(t, l.saveSoon(json.RawMessage(`{"row": 5}`)))
	for n := range 3 {
		if got := testkit.Receive(t, tries, fmt.Sprint("try ", n+1)); got != `{"row":5}` {
			t.Errorf("it tried to save %q", got)
		}
	}
	if err := l.saveSoon(json.RawMessage(`{`)); task.CodeOf(err) != task.CodeInvalid {
		t.Errorf("no JSON: %v, want %s", err, task.CodeInvalid)
	}
	l.close()
	if len(tries) != 0 || len(l.kept) != 0 {
		t.Errorf("%d more tries; the log has %d lines", len(tries), len(l.kept))
	}
}

func TestSaveSoon_SavesTheLastOneBeforeTheEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(func(_ context.Context, a executor.Attempt) (string, error) {
		for row := range 100 {
			testkit.Must(t, a.SaveSoon(json.RawMessage(strconv.Itoa(row+1))))
		}
		return "", errors.New("not yet")
	})
	ref := w.submit(task.Definition{})
	w.reaches(ref, task.Scheduled)
	if got := string(w.get(ref).Checkpoint); got != "100" {
		t.Errorf("the checkpoint is %q", got)
	}
}

func TestSaveSoon_SaysThatTheLastOneIsLost(t *testing.T) {
	t.Parallel()
	l := newLines(t.Context(), nil, func(context.Context, json.RawMessage) error {
		return errors.New("Redis does not answer")
	}, nil)
	l.pumping = true // so that nothing is sent but by this test
	testkit.Must(t, l.saveSoon(json.RawMessage(`1`)))
	l.sendCheckpoint(t.Context(), true)
	if len(l.kept) != 1 || l.kept[0].Text != "the last checkpoint was not saved: Redis does not answer" {
		t.Errorf("the log has %+v", l.kept)
	}
}
