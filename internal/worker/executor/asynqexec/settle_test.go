package asynqexec

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
)

// closeLimit is what Close may take while Redis does not answer, with leave for a busy machine.
const closeLimit = 4 * time.Second

func TestExecutor_ClosesInTimeThoughSettledTasksCannotBeDeleted(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	f := newFleet(t)
	f.serve(func(context.Context, *asynq.Task) error { return nil })
	e, err := New(Options{Redis: f.redis.URL()})
	testkit.Must(t, err)
	a := attempt(mail).Attempt
	if got := testkit.Receive(t, start(t.Context(), e, a), "the end"); got.err != nil {
		t.Fatal(got.err)
	}
	f.redis.Pause()
	defer f.redis.Continue()
	for range 20 {
		e.Recorded(a)
	}
	closed := make(chan error, 1)
	go func() { closed <- e.Close() }()
	select {
	case err := <-closed:
		testkit.Must(t, err)
	case <-time.After(closeLimit):
		t.Errorf("it is not closed after %s", closeLimit)
	}
}

func TestExecutor_DeletesSettledTasksOnceRedisIsBack(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	f := newFleet(t)
	f.serve(func(context.Context, *asynq.Task) error { return nil })
	proxy := redistest.NewProxy(t, f.redis.Addr())
	e, err := New(Options{Redis: proxy.URL()})
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, e.Close()) })
	a := attempt(mail).Attempt
	if got := testkit.Receive(t, start(t.Context(), e, a), "the end"); got.err != nil {
		t.Fatal(got.err)
	}
	proxy.Cut()
	failed := make(chan int, 100)
	e.stop()
	e.ended.Wait()
	ctx, stop := context.WithCancel(t.Context())
	e.stop = stop
	e.ended.Go(func() {
		e.poller.run(ctx, func(ctx context.Context, settled []location) []location {
			rest := e.remove(ctx, settled)
			failed <- len(rest)
			return rest
		})
	})
	e.Recorded(a)
	if rest := testkit.Receive(t, failed, "the first deletion"); rest != 1 || f.state() != "completed" {
		t.Errorf("it keeps %d tasks, and the asynq task is %q", rest, f.state())
	}
	proxy.Mend()
	f.reaches("")
}

func TestExecutor_StopsDeletingWhenRedisDoesNotAnswer(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	f := newFleet(t)
	e := f.executor()
	settled := make([]location, 100)
	for i := range settled {
		settled[i] = location{"mails", strconv.Itoa(i)}
	}
	f.redis.Pause()
	defer f.redis.Continue()
	rest := make(chan int, 1)
	go func() { rest <- len(e.remove(t.Context(), settled)) }()
	select {
	case n := <-rest:
		if n != len(settled) {
			t.Errorf("it keeps %d tasks, want %d", n, len(settled))
		}
	case <-time.After(closeLimit):
		t.Errorf("it has not given up after %s", closeLimit)
	}
}

func TestExecutor_DropsWhatCannotBeDeletedThoughRedisAnswers(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	handler, begun, tell := untilTold()
	f.serve(handler)
	e := f.executor()
	done := start(t.Context(), e, attempt(mail).Attempt)
	testkit.Receive(t, begun, "the handler")
	if rest := e.remove(t.Context(), []location{{"mails", asynqID}, {"mails", "none"}, {"none", asynqID}}); len(rest) > 0 {
		t.Errorf("it keeps %v", rest)
	}
	tell <- nil
	if got := testkit.Receive(t, done, "the end"); got.err != nil {
		t.Error(got.err)
	}
}
