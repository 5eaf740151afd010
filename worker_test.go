package dts_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
)

// shop is a Redis with a worker that leads, and a client.
type shop struct {
	*dts.Client
	t *testing.T
}

// newShop starts a worker with the handlers that add adds.
func newShop(t *testing.T, add func(w *dts.Worker)) shop {
	t.Helper()
	redis := redistest.Start(t)
	w := dts.NewWorker(dts.WorkerOptions{
		Redis: redis.URL(), Lead: true, Name: "shop", Version: "v1", Labels: map[string]string{"zone": "eu"}, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	add(w)
	start(t, w.Run)
	testkit.Receive(t, w.Ready(), "the worker takes tasks")
	c, err := dts.Open(redis.URL())
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, c.Close()) })
	return shop{c, t}
}

// run submits a task and waits for its end.
func (s shop) run(submission dts.Submission) *dts.Task {
	s.t.Helper()
	submitted, err := s.Submit(s.t.Context(), submission)
	testkit.Must(s.t, err)
	ended, err := s.Wait(s.t.Context(), submitted.ID)
	testkit.Must(s.t, err)
	return ended
}

// lines returns the log of a task.
func (s shop) lines(id string) []string {
	s.t.Helper()
	var lines []string
	for _, l := range collect(s.t, s.Logs(s.t.Context(), id)) {
		lines = append(lines, fmt.Sprintf("%d %s %s", l.Attempt, l.Stream, l.Text))
	}
	return lines
}

type email struct {
	To string `json:"to"`
}

func TestHandle_DecodesThePayloadAndEncodesTheResult(t *testing.T) {
	t.Parallel()
	s := newShop(t, func(w *dts.Worker) {
		dts.Handle(w, "email.send", func(_ context.Context, e email) error {
			if e.To != "ada" {
				return errors.New("sent to " + e.To)
			}
			return nil
		})
		dts.HandleResult(w, "sum", func(_ context.Context, numbers []int) (map[string]int, error) {
			sum := 0
			for _, n := range numbers {
				sum += n
			}
			return map[string]int{"sum": sum}, nil
		})
		w.Handle("raw", func(_ context.Context, t *dts.Task) (any, error) { return string(t.Payload), nil })
	})
	for name, row := range map[string]struct {
		submission dts.Submission
		state      dts.State
		result     string
	}{
		"a struct":          {dts.Submission{Type: "email.send", Payload: email{To: "ada"}}, dts.StateSucceeded, ""},
		"a slice":           {dts.Submission{Type: "sum", Payload: []int{1, 2, 3}}, dts.StateSucceeded, `{"sum":6}`},
		"no payload":        {dts.Submission{Type: "raw"}, dts.StateSucceeded, "{}"},
		"untyped":           {dts.Submission{Type: "raw", Payload: json.RawMessage(`{"a": 1}`)}, dts.StateSucceeded, `{"a":1}`},
		"the wrong payload": {dts.Submission{Type: "sum", Payload: "x"}, dts.StateFailed, ""},
	} {
		got := s.run(row.submission)
		if got.State != row.state || got.Result != row.result || got.Attempt != 1 {
			t.Errorf("%s: %s with result %q and error %q at attempt %d", name, got.State, got.Result, got.Error, got.Attempt)
		}
	}
}

func TestHandle_RunsNothingWithADamagedPayload(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	db := redis.DB(t)
	c, err := dts.Open(redis.URL())
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, c.Close()) })
	for _, taskType := range []string{"raw", "any", "nothing"} {
		_, err := c.Submit(t.Context(), dts.Submission{ID: taskType, Type: taskType, Payload: json.RawMessage(`{"to":"ada"}`)})
		testkit.Must(t, err)
	}
	for p := range 16 {
		defs := fmt.Sprintf("dts:{%d}:defs", p)
		for name, stored := range db.HGetAll(t.Context(), defs).Val() {
			testkit.Must(t, db.HSet(t.Context(), defs, name, strings.TrimSuffix(stored, "}")).Err())
		}
	}
	w := dts.NewWorker(dts.WorkerOptions{Redis: redis.URL(), Lead: true, Logger: slog.New(slog.DiscardHandler)})
	w.Handle("raw", func(_ context.Context, task *dts.Task) (any, error) {
		t.Errorf("the handler got %s", task.Payload)
		return nil, nil
	})
	dts.Handle(w, "any", func(_ context.Context, args any) error { t.Errorf("the function got %v", args); return nil })
	dts.Handle(w, "nothing", func(context.Context, struct{}) error { t.Error("the function was called"); return nil })
	start(t, w.Run)
	for _, id := range []string{"raw", "any", "nothing"} {
		ended, err := c.Wait(t.Context(), id)
		testkit.Must(t, err)
		if ended.State != dts.StateFailed || ended.Attempt != 1 || !strings.HasPrefix(ended.Error, "payload: ") {
			t.Errorf("%s: %s after attempt %d: %s", id, ended.State, ended.Attempt, ended.Error)
		}
	}
}

func TestHandle_ErrorsSayWhatFollows(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	s := newShop(t, func(w *dts.Worker) {
		w.Handle("permanent", func(context.Context, *dts.Task) (any, error) {
			return nil, fmt.Errorf("while at it: %w", dts.Permanent(errors.New("never")))
		})
		w.Handle("cancelled", func(context.Context, *dts.Task) (any, error) { return nil, dts.Cancelled(errors.New("not needed")) })
		w.Handle("later", func(_ context.Context, t *dts.Task) (any, error) {
			if t.Attempt == 1 {
				return nil, dts.RetryAfter(errors.New("busy"), 300*time.Millisecond)
			}
			return t.Attempt, nil
		})
		w.Handle("snoozed", func(_ context.Context, t *dts.Task) (any, error) {
			if t.Attempt == 1 {
				return nil, fmt.Errorf("no file yet: %w", dts.Snooze(time.Millisecond)) // counts as a second
			}
			return t.MaxAttempts, nil
		})
		w.Handle("again", func(_ context.Context, t *dts.Task) (any, error) { return nil, fmt.Errorf("failure %d", t.Attempt) })
		w.Handle("panic", func(context.Context, *dts.Task) (any, error) { panic("oops") })
		w.Handle("unfit", func(context.Context, *dts.Task) (any, error) { return func() {}, nil })
		w.Handle("nothing", func(context.Context, *dts.Task) (any, error) {
			return nil, errors.Join(dts.Permanent(nil), dts.RetryAfter(nil, time.Hour), dts.Cancelled(nil))
		})
		w.Handle("exit", func(context.Context, *dts.Task) (any, error) { runtime.Goexit(); return nil, nil })
		w.Handle("long", func(context.Context, *dts.Task) (any, error) {
			return strings.Split(strings.Repeat("x", 20_000), ""), nil
		})
		w.Handle("permanent-after-all", func(context.Context, *dts.Task) (any, error) {
			return nil, dts.Permanent(dts.RetryAfter(errors.New("never"), time.Hour))
		})
		w.Handle("again-after-all", func(context.Context, *dts.Task) (any, error) {
			return nil, dts.RetryAfter(dts.Permanent(errors.New("soon")), time.Millisecond)
		})
		w.Handle("error", func(context.Context, *dts.Task) (any, error) { panic(dts.Permanent(errors.New("never again"))) })
	})
	quick := dts.Retry{MaxAttempts: 3, Delays: []time.Duration{time.Millisecond}}
	for _, row := range []struct {
		taskType string
		state    dts.State
		attempts int
		err      string
	}{
		{"permanent", dts.StateFailed, 1, "while at it: never"},
		{"cancelled", dts.StateCancelled, 1, "not needed"},
		{"later", dts.StateSucceeded, 2, ""},
		{"snoozed", dts.StateSucceeded, 2, ""},
		{"again", dts.StateFailed, 3, "failure 3"},
		{"panic", dts.StateFailed, 3, "panic: oops\n"},
		{"unfit", dts.StateFailed, 1, "result: "},
		{"nothing", dts.StateSucceeded, 1, ""},
		{"exit", dts.StateFailed, 3, "the handler ended its goroutine"},
		{"long", dts.StateFailed, 1, "result: is 80001 bytes long"},
		{"error", dts.StateFailed, 1, "panic: never again\n"},
		{"permanent-after-all", dts.StateFailed, 1, "never"},
		{"again-after-all", dts.StateFailed, 3, "soon"},
	} {
		got := s.run(dts.Submission{ID: row.taskType, Type: row.taskType, Retry: quick})
		if got.State != row.state || got.Attempt != row.attempts || !strings.HasPrefix(got.Error, row.err) || (row.err == "") != (got.Error == "") {
			t.Errorf("%s: %s after %d attempts: %q", row.taskType, got.State, got.Attempt, got.Error)
		}
	}
	attempts, err := s.Attempts(t.Context(), "later")
	testkit.Must(t, err)
	if wait := attempts[1].StartedAt.Sub(attempts[0].FinishedAt); wait < 300*time.Millisecond {
		t.Errorf("the next attempt came after %s", wait)
	}
	panicked, err := s.Get(t.Context(), "panic")
	testkit.Must(t, err)
	if log := strings.Join(s.lines("panic"), "\n"); !strings.Contains(log, "worker_test.go") || !strings.Contains(panicked.Error, "worker_test.go") {
		t.Errorf("the log shows no stack of the handler:\n%s\nerror: %s", log, panicked.Error)
	}
}

func TestHandler_LogsAndTellsItsProgress(t *testing.T) {
	t.Parallel()
	s := newShop(t, func(w *dts.Worker) {
		w.Handle("rows", func(ctx context.Context, t *dts.Task) (any, error) {
			log := dts.Logger(ctx).With("table", "a")
			log.Info("copying", "rows", 3)
			log.WithGroup("g").Warn("slow", "ms", 40)
			dts.Progress(ctx, 40, "3 rows")
			current := dts.Current(ctx)
			return fmt.Sprint(current == t, t.IdempotencyKey(), " ", t.Queue, " ", t.Labels["k"], " ", t.MaxAttempts, " ", t.State), nil
		})
	})
	got := s.run(dts.Submission{ID: "a", Type: "rows", Queue: "low", Labels: map[string]string{"k": "v"}})
	if got.Result != "truedefault:a low v 25 running" || got.Progress != 40 || got.ProgressNote != "3 rows" {
		t.Errorf("result %q, progress %d %q", got.Result, got.Progress, got.ProgressNote)
	}
	want := []string{`1 stdout level=INFO msg=copying table=a rows=3`, `1 stderr level=WARN msg=slow table=a g.ms=40`}
	if diff := cmp.Diff(want, s.lines("a")); diff != "" {
		t.Errorf("the log (-want +got):\n%s", diff)
	}
	if followed := collect(t, s.FollowLogs(t.Context(), "a")); len(followed) != 2 {
		t.Errorf("following the log: %+v", followed)
	}
}

// The log has more bytes than one page of the API.
func TestLogs_FollowShortPages(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	s := newShop(t, func(w *dts.Worker) {
		w.Handle("rows", func(ctx context.Context, _ *dts.Task) (any, error) {
			for range 600 {
				dts.Logger(ctx).Info(strings.Repeat(`"`, 2000))
			}
			return nil, nil
		})
	})
	s.run(dts.Submission{ID: "a", Type: "rows"})
	if got := len(s.lines("a")); got != 600 {
		t.Errorf("%d lines, want 600", got)
	}
}

func TestMoving_AsksAHandlerThatGoesOnElsewhere(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{})
	s := newShop(t, func(w *dts.Worker) {
		dts.HandleResult(w, "train", func(ctx context.Context, _ struct{}) (int, error) {
			var epoch int
			if found, err := dts.LoadCheckpoint(ctx, &epoch); found || err != nil {
				return epoch, err
			}
			close(begun)
			select {
			case <-dts.Moving(ctx):
			case <-ctx.Done():
				return 0, context.Cause(ctx)
			}
			if err := dts.SaveCheckpoint(ctx, 7); err != nil {
				return 0, err
			}
			return 0, fmt.Errorf("after epoch 7: %w", dts.ErrMoved)
		})
	})
	_, err := s.Submit(t.Context(), dts.Submission{ID: "a", Type: "train", Retry: dts.Retry{MaxAttempts: 1}})
	testkit.Must(t, err)
	testkit.Receive(t, begun, "the attempt")
	asked, err := s.Move(t.Context(), "a")
	testkit.Must(t, err)
	if asked.State != dts.StateRunning || asked.MoveRequestedAt.IsZero() {
		t.Errorf("it is %s, asked to move at %s", asked.State, asked.MoveRequestedAt)
	}
	got, err := s.Wait(t.Context(), "a")
	testkit.Must(t, err)
	if got.State != dts.StateSucceeded || got.Result != "7" || got.Attempt != 2 || got.MaxAttempts != 2 {
		t.Errorf("%s after attempt %d of %d with %q: %s", got.State, got.Attempt, got.MaxAttempts, got.Result, got.Error)
	}
	attempts, err := s.Attempts(t.Context(), "a")
	testkit.Must(t, err)
	if attempts[0].Outcome != dts.OutcomeMoved || attempts[0].Error != "after epoch 7: moved: another worker goes on" {
		t.Errorf("the first attempt is %+v", attempts[0])
	}
	if dts.Moving(t.Context()) != nil {
		t.Error("there is a channel outside of a handler")
	}
	if _, err := s.Move(t.Context(), "a"); dts.CodeOf(err) != dts.CodeTaskNotRunning {
		t.Errorf("after its end: %v", err)
	}
}

func TestDrainNode_MovesWhatRunsThere(t *testing.T) {
	t.Parallel()
	redis, begun := redistest.Start(t), make(chan string, 2)
	for _, name := range []string{"a", "b"} {
		w := dts.NewWorker(dts.WorkerOptions{
			Redis: redis.URL(), Lead: true, Name: name, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		})
		w.Handle("train", func(ctx context.Context, task *dts.Task) (any, error) {
			if task.Attempt > 1 {
				return name, nil
			}
			begun <- name
			select {
			case <-dts.Moving(ctx):
				return nil, dts.ErrMoved
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		})
		start(t, w.Run)
		testkit.Receive(t, w.Ready(), "the worker takes tasks")
	}
	c, err := dts.Open(redis.URL())
	testkit.Must(t, err)
	defer func() { testkit.Must(t, c.Close()) }()
	_, err = c.Submit(t.Context(), dts.Submission{ID: "a", Type: "train"})
	testkit.Must(t, err)
	from := testkit.Receive(t, begun, "the attempt")
	drained, err := c.DrainNode(t.Context(), from, "a new kernel", time.Hour)
	testkit.Must(t, err)
	if len(drained) != 1 || drained[0].Cordon == nil || !drained[0].Cordon.Drain {
		t.Errorf("drained: %+v", drained)
	}
	got, err := c.Wait(t.Context(), "a")
	testkit.Must(t, err)
	if got.State != dts.StateSucceeded || got.Attempt != 2 || got.Result == from {
		t.Errorf("%s after attempt %d on %q, while %q is drained", got.State, got.Attempt, got.Result, from)
	}
}

// A task moves to the node that is named, and what a drained node gives up goes elsewhere: nothing is lost, runs twice at
// once, or comes back. Half of the tasks have a selector.
func TestMove_OfThreeNodes(t *testing.T) {
	t.Parallel()
	y := newMovers(t, "a", "b", "c")
	y.submit("one", dts.Submission{})
	from := y.of("one")
	for to, want := range map[string]string{from: "runs on", "gone": "no living node"} {
		_, err := y.Move(t.Context(), "one", dts.MoveTo(to))
		if dts.CodeOf(err) != dts.CodeInvalid || !strings.Contains(err.Error(), want) {
			t.Errorf("to %s: %v", to, err)
		}
	}
	to := map[string]string{"a": "c", "b": "a", "c": "b"}[from]
	asked, err := y.Move(t.Context(), "one", dts.MoveTo(to))
	testkit.Must(t, err)
	if asked.MoveTo != to || asked.MoveRequestedAt.IsZero() {
		t.Errorf("it was asked to move to %q at %s", asked.MoveTo, asked.MoveRequestedAt)
	}
	y.awaits("it goes on there", func() bool { return y.of("one") == to })
	_, err = y.Move(t.Context(), "one")
	testkit.Must(t, err)
	y.awaits("it leaves", func() bool { now := y.of("one"); return now != to && now != "" })

	var all []string
	for i := range 12 {
		id := fmt.Sprint("many-", i)
		y.submit(id, dts.Submission{Select: []string{"", "zone=eu"}[i%2], Route: dts.Route{By: dts.RouteFirst}})
		all = append(all, id)
	}
	_, err = y.DrainNode(t.Context(), "a", "a new kernel", time.Hour)
	testkit.Must(t, err)
	y.awaits("all go on elsewhere", func() bool {
		return !slices.ContainsFunc(all, func(id string) bool { now := y.of(id); return now == "a" || now == "" })
	})
	close(y.done)
	for _, id := range append(all, "one") {
		got, err := y.Wait(t.Context(), id)
		testkit.Must(t, err)
		if got.State != dts.StateSucceeded {
			t.Errorf("%s is %s: %s", id, got.State, got.Error)
		}
	}
	if y.moves.Load() < 3 {
		t.Errorf("%d attempts moved: too few to say something", y.moves.Load())
	}
}

// movers are nodes whose tasks move when they are asked, and run until done is closed.
type movers struct {
	*dts.Client
	t     *testing.T
	done  chan struct{}
	moves atomic.Int32
	mu    sync.Mutex
	on    map[string]string // task: the node on which it runs
}

func newMovers(t *testing.T, names ...string) *movers {
	t.Helper()
	y := &movers{t: t, done: make(chan struct{}), on: make(map[string]string)}
	redis := redistest.Start(t)
	for _, name := range names {
		w := dts.NewWorker(dts.WorkerOptions{
			Redis: redis.URL(), Lead: true, Name: name, Concurrency: 20, Labels: map[string]string{"zone": "eu"},
			Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		})
		w.Handle("train", func(ctx context.Context, task *dts.Task) (any, error) { return nil, y.run(ctx, task.ID, name) })
		start(t, w.Run)
		testkit.Receive(t, w.Ready(), "the worker takes tasks")
	}
	var err error
	y.Client, err = dts.Open(redis.URL())
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, y.Close()) })
	return y
}

// run runs a task on a node.
func (y *movers) run(ctx context.Context, id, node string) error {
	y.mu.Lock()
	if before := y.on[id]; before != "" {
		y.t.Errorf("%s runs on %s and %s at once", id, before, node)
	}
	y.on[id] = node
	y.mu.Unlock()
	defer func() {
		y.mu.Lock()
		y.on[id] = ""
		y.mu.Unlock()
	}()
	select {
	case <-dts.Moving(ctx):
		y.moves.Add(1)
		return dts.ErrMoved
	case <-y.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// submit submits a task, and waits until it runs.
func (y *movers) submit(id string, s dts.Submission) {
	y.t.Helper()
	s.ID, s.Type, s.Retry = id, "train", dts.Retry{MaxAttempts: 1}
	_, err := y.Submit(y.t.Context(), s)
	testkit.Must(y.t, err)
	y.awaits(id+" runs", func() bool { return y.of(id) != "" })
}

// of returns the node on which a task runs; "" for none.
func (y *movers) of(id string) string {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.on[id]
}

func (y *movers) awaits(what string, is func() bool) {
	y.t.Helper()
	testkit.Eventually(y.t, what, is)
}

func TestCheckpoint_IsWhereTheNextAttemptGoesOn(t *testing.T) {
	t.Parallel()
	type place struct{ Row int }
	s := newShop(t, func(w *dts.Worker) {
		dts.HandleResult(w, "copy", func(ctx context.Context, _ struct{}) (int, error) {
			var at place
			found, err := dts.LoadCheckpoint(ctx, &at)
			if err != nil || found != (at.Row > 0) {
				return 0, dts.Permanent(fmt.Errorf("found %t: %w", found, err))
			}
			if err := dts.SaveCheckpoint(ctx, place{at.Row + 10}); err != nil {
				return 0, dts.Permanent(err)
			}
			if at.Row < 20 {
				return 0, errors.New("interrupted")
			}
			return at.Row, nil
		})
		w.Handle("unfit", func(ctx context.Context, _ *dts.Task) (any, error) {
			return nil, dts.Permanent(errors.Join(dts.SaveCheckpoint(ctx, func() {}), dts.SaveCheckpoint(ctx, strings.Repeat("x", 100<<10))))
		})
	})
	got := s.run(dts.Submission{Type: "copy", Retry: dts.Retry{Delays: []time.Duration{time.Millisecond}, MaxAttempts: 3}})
	if got.State != dts.StateSucceeded || got.Result != "20" || got.Attempt != 3 {
		t.Errorf("%s at attempt %d with %q: %s", got.State, got.Attempt, got.Result, got.Error)
	}
	if got := s.run(dts.Submission{Type: "unfit"}); !strings.Contains(got.Error, "unsupported type") || !strings.Contains(got.Error, "at most") {
		t.Errorf("unfit checkpoints: %q", got.Error)
	}
	if err := dts.SaveCheckpoint(t.Context(), 1); err == nil {
		t.Error("a checkpoint outside of a handler was accepted")
	}
}

func TestWorker_UseWrapsHandlers(t *testing.T) {
	t.Parallel()
	s := newShop(t, func(w *dts.Worker) {
		note := func(name string) func(dts.Handler) dts.Handler {
			return func(next dts.Handler) dts.Handler {
				return func(ctx context.Context, t *dts.Task) (any, error) {
					dts.Logger(ctx).Info(name + " before")
					defer dts.Logger(ctx).Info(name + " after")
					return next(ctx, t)
				}
			}
		}
		w.Use(note("outer"), note("inner"))
		dts.Handle(w, "a", func(ctx context.Context, _ struct{}) error { dts.Logger(ctx).Info("handler"); return nil })
	})
	s.run(dts.Submission{ID: "x", Type: "a"})
	var got []string
	for _, line := range s.lines("x") {
		_, text, _ := strings.Cut(line, "msg=")
		got = append(got, strings.Trim(text, `"`))
	}
	if want := []string{"outer before", "inner before", "handler", "inner after", "outer after"}; !slices.Equal(want, got) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestHandler_IsToldWhyItIsToStop(t *testing.T) {
	t.Parallel()
	begun := make(chan string, 2)
	s := newShop(t, func(w *dts.Worker) {
		w.Handle("wait", func(ctx context.Context, t *dts.Task) (any, error) {
			begun <- t.ID
			<-ctx.Done()
			dts.Logger(ctx).Info(context.Cause(ctx).Error(), "cancelled", errors.Is(context.Cause(ctx), dts.ErrCancelled),
				"timeout", errors.Is(context.Cause(ctx), dts.ErrTimeout))
			return nil, errors.Join(ctx.Err(), dts.SaveCheckpoint(ctx, "last words"))
		})
	})
	ctx := t.Context()
	once := dts.Retry{MaxAttempts: 1}
	_, err := s.Submit(ctx, dts.Submission{ID: "cancel", Type: "wait", Retry: once})
	testkit.Must(t, err)
	testkit.Receive(t, begun, "it runs")
	_, err = s.Cancel(ctx, "cancel")
	testkit.Must(t, err)
	cancelled, err := s.Wait(ctx, "cancel")
	testkit.Must(t, err)
	if cancelled.State != dts.StateCancelled || !strings.Contains(s.lines("cancel")[0], "cancelled=true") || string(cancelled.Checkpoint) != `"last words"` {
		t.Errorf("%s: %s, log %q", cancelled.State, cancelled.Error, s.lines("cancel"))
	}
	late := s.run(dts.Submission{ID: "late", Type: "wait", Retry: once, Timeout: 100 * time.Millisecond})
	if late.State != dts.StateFailed || !strings.HasPrefix(late.Error, "timeout after 100ms") || !strings.Contains(s.lines("late")[0], "timeout=true") {
		t.Errorf("%s: %s, log %q", late.State, late.Error, s.lines("late"))
	}
}

func TestWorker_IsANodeOfTheFleet(t *testing.T) {
	t.Parallel()
	s := newShop(t, func(w *dts.Worker) {
		dts.Handle(w, "b", func(context.Context, struct{}) error { return nil })
		dts.Handle(w, "a", func(context.Context, struct{}) error { return nil })
	})
	nodes, err := s.Nodes(t.Context())
	testkit.Must(t, err)
	if len(nodes) != 1 || nodes[0].Version != "v1" || !slices.Equal(nodes[0].Types, []string{"a", "b"}) || nodes[0].Queues["critical"] != 6 {
		t.Errorf("nodes: %+v", nodes)
	}
	if n := nodes[0]; n.Name != "shop" || n.Host == "" || n.Labels["zone"] != "eu" || n.Memory == 0 || n.Machine == nil ||
		n.Machine.Memory == nil || n.Machine.Memory.Total < n.Memory || n.Machine.Load == nil {
		t.Errorf("the node tells %+v of itself, and %+v of its machine", n, n.Machine)
	}
}

func TestWorker_WaitsForRedis(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	way := redistest.NewProxy(t, redistest.Start(t).Addr())
	way.Cut()
	failed := make(chan struct{}, 100)
	w := dts.NewWorker(dts.WorkerOptions{Redis: way.URL(), Logger: slog.New(slog.NewTextHandler(signalled(failed), nil))})
	dts.Handle(w, "a", func(context.Context, struct{}) error { return nil })
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	testkit.Receive(t, failed, "a line of the log")
	way.Mend()
	testkit.Receive(t, w.Ready(), "the worker")
	stop()
	testkit.Must(t, testkit.Receive(t, ended, "the end"))
}

// signalled sends to the channel when something is written, unless nobody reads.
type signalled chan struct{}

func (s signalled) Write(p []byte) (int, error) {
	select {
	case s <- struct{}{}:
	default:
	}
	return len(p), nil
}

func TestWorker_RefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	handled := func(o dts.WorkerOptions) *dts.Worker {
		w := dts.NewWorker(o)
		dts.Handle(w, "a", func(context.Context, struct{}) error { return nil })
		return w
	}
	for name, row := range map[string]struct {
		worker *dts.Worker
		code   dts.Code
		text   string
	}{
		"no Redis":    {handled(dts.WorkerOptions{}), dts.CodeInvalid, "redis: is required"},
		"no handlers": {dts.NewWorker(dts.WorkerOptions{Redis: "redis://127.0.0.1:1"}), dts.CodeInvalid, "no handlers"},
		"concurrency": {handled(dts.WorkerOptions{Redis: "redis://127.0.0.1:1", Concurrency: -1}), dts.CodeInvalid, "concurrency: -1"},
		"a queue":     {handled(dts.WorkerOptions{Redis: "redis://127.0.0.1:1", Queues: map[string]int{"a b": 1}}), dts.CodeInvalid, "queues"},
		"a database":  {handled(dts.WorkerOptions{Redis: "redis://" + redistest.Start(t).Addr() + "/99"}), dts.CodeUnavailable, "it has no database of that number"},
	} {
		if err := row.worker.Run(t.Context()); dts.CodeOf(err) != row.code || !strings.Contains(err.Error(), row.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, add := range map[string]func(w *dts.Worker){
		"an invalid type": func(w *dts.Worker) { dts.Handle(w, "a b", func(context.Context, struct{}) error { return nil }) },
		"no handler":      func(w *dts.Worker) { w.Handle("b", nil) },
		"a type twice":    func(w *dts.Worker) { dts.Handle(w, "a", func(context.Context, struct{}) error { return nil }) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s does not panic", name)
				}
			}()
			add(handled(dts.WorkerOptions{}))
		}()
	}
}
