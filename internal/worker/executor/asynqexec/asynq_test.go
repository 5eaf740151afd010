package asynqexec

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/spf13/pflag"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor"
)

func TestExecutor_HandsTypePayloadAndHeadersToAsynqAndReturnsWhatItsHandlerWrites(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.serve(func(_ context.Context, t *asynq.Task) error {
		_, err := fmt.Fprintf(t.ResultWriter(), "%s %s %s", t.Type(), t.Payload(), t.Headers()["tenant"])
		return err
	})
	a := attempt(`{"type": "email:send", "queue": "mails", "payload": {"to": "ada"}, "headers": {"tenant": "acme"}}`)
	got := testkit.Receive(t, start(t.Context(), f.executor(), a.Attempt), "the end")
	if got.err != nil || got.result != `email:send {"to": "ada"} acme` {
		t.Errorf("got %q, %v", got.result, got.err)
	}
	if lines := a.Lines["stdout"]; len(lines) != 1 || lines[0] != `asynq task `+asynqID+` in queue "mails": enqueued` {
		t.Errorf("it logs %q", lines)
	}
}

func TestExecutor_HandsBytesThatAreNotJSONOver(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.serve(func(_ context.Context, t *asynq.Task) error {
		_, err := fmt.Fprintf(t.ResultWriter(), "%x", t.Payload())
		return err
	})
	a := attempt(`{"type": "email:send", "queue": "mails", "payload_base64": "/wAB"}`)
	if got := testkit.Receive(t, start(t.Context(), f.executor(), a.Attempt), "the end"); got.err != nil || got.result != "ff0001" {
		t.Errorf("got %q, %v", got.result, got.err)
	}
}

func TestExecutor_BoundsAResult(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.serve(func(_ context.Context, t *asynq.Task) error {
		_, err := t.ResultWriter().Write([]byte("\xff" + strings.Repeat("x", 2*task.ResultLimit)))
		return err
	})
	got := testkit.Receive(t, start(t.Context(), f.executor(), attempt(mail).Attempt), "the end")
	if got.err != nil || len(got.result) > task.ResultLimit || !strings.HasPrefix(got.result, "\uFFFDxxx") {
		t.Errorf("got %d bytes, %v", len(got.result), got.err)
	}
}

func TestExecutor_KeepsTheOutcomeUntilItIsRecorded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		payload string
		stays   bool
	}{
		"without a retention": {mail, false},
		"with one":            {`{"type": "email:send", "queue": "mails", "retention": "1h"}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			f.serve(func(context.Context, *asynq.Task) error { return nil })
			e, err := New(Options{Redis: f.redis.URL()})
			testkit.Must(t, err)
			a := attempt(c.payload).Attempt
			if got := testkit.Receive(t, start(t.Context(), e, a), "the end"); got.err != nil || f.state() != "completed" {
				t.Fatalf("got %v, and the asynq task is %q", got.err, f.state())
			}
			e.Recorded(a)
			testkit.Must(t, e.Close())
			if got := f.state() == "completed"; got != c.stays {
				t.Errorf("afterwards it is %q", f.state())
			}
		})
	}
}

func TestExecutor_RunsAnArchivedTaskAgainInTheNextAttempt(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	ran := make(chan string, 10)
	f.serve(func(_ context.Context, t *asynq.Task) error {
		ran <- t.ResultWriter().TaskID()
		if len(ran) == 1 {
			return errors.New("no paper")
		}
		return nil
	})
	e := f.executor()
	got := testkit.Receive(t, start(t.Context(), e, attempt(mail).Attempt), "the end of the first attempt")
	if got.err == nil || got.err.Error() != "asynq archived the task after 0 retries: no paper" || executor.IsPermanent(got.err) {
		t.Errorf("the first attempt ends with %v", got.err)
	}
	second := attempt(mail)
	if got := testkit.Receive(t, start(t.Context(), e, second.Attempt), "the end of the second attempt"); got.err != nil {
		t.Errorf("the second attempt ends with %v", got.err)
	}
	if a, b := <-ran, <-ran; a != asynqID || b != asynqID || len(ran) > 0 {
		t.Errorf("asynq ran %s and %s, and %d more", a, b, len(ran))
	}
	if line := second.Lines["stdout"][0]; !strings.HasSuffix(line, "found archived, and run again") {
		t.Errorf("it logs %q", line)
	}
}

func TestExecutor_MakesNoOtherAttemptAfterAnArchivedTaskIfThePayloadSaysSo(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.serve(func(context.Context, *asynq.Task) error { return errors.New("no paper") })
	a := attempt(`{"type": "email:send", "queue": "mails", "archived_is_final": true}`)
	if got := testkit.Receive(t, start(t.Context(), f.executor(), a.Attempt), "the end"); !executor.IsPermanent(got.err) {
		t.Errorf("it ends with %v", got.err)
	}
}

func TestExecutor_FollowsTheRetriesOfAsynq(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	runs := 0
	f.serve(func(context.Context, *asynq.Task) error {
		if runs++; runs < 3 {
			return fmt.Errorf("failure\n%d", runs)
		}
		return nil
	})
	a := attempt(`{"type": "email:send", "queue": "mails", "max_retry": 2}`)
	if got := testkit.Receive(t, start(t.Context(), f.executor(), a.Attempt), "the end"); got.err != nil {
		t.Errorf("it ends with %v", got.err)
	}
	if runs != 3 {
		t.Errorf("asynq ran it %d times", runs)
	}
}

func TestExecutor_LogsWhyAsynqTriesAgain(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.serveWith(time.Hour, func(context.Context, *asynq.Task) error { return errors.New("no\npaper") })
	ctx, cancel := context.WithCancelCause(t.Context())
	a := attempt(`{"type": "email:send", "queue": "mails", "max_retry": 2}`)
	done := start(ctx, f.executor(), a.Attempt)
	a.WaitForLine(t) // enqueued
	if got := a.WaitForLine(t); got != "asynq tries again (1 of 2): no paper" {
		t.Errorf("it logs %q", got)
	}
	cancel(errCancelled)
	if got := testkit.Receive(t, done, "the end"); !errors.Is(got.err, errCancelled) || f.state() != "" {
		t.Errorf("it ends with %v, and the asynq task is %q", got.err, f.state())
	}
}

var errCancelled = errors.New("cancelled")

func TestExecutor_DeletesAPendingTaskWhenItIsCancelled(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	done := start(ctx, f.executor(), attempt(mail).Attempt)
	f.reaches("pending")
	cancel(errCancelled)
	got := testkit.Receive(t, done, "the end")
	if !errors.Is(got.err, errCancelled) || f.state() != "" {
		t.Errorf("it ends with %v, and the asynq task is %q", got.err, f.state())
	}
}

func TestExecutor_SaysThatNoServerServesTheQueueOfATaskThatTimesOut(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	e := f.executor()
	done := start(ctx, e, attempt(mail).Attempt)
	testkit.Eventually(t, "the executor sees it wait", func() bool {
		e.poller.mu.Lock()
		defer e.poller.mu.Unlock()
		for at := range e.poller.followed {
			return at.state == asynq.TaskStatePending.String() && len(at.changes) == 0
		}
		return false
	})
	cancel(context.DeadlineExceeded)
	got := testkit.Receive(t, done, "the end")
	if !errors.Is(got.err, context.DeadlineExceeded) || !strings.Contains(got.err.Error(), `no living server of asynq serves its queue "mails"`) {
		t.Errorf("it ends with %v", got.err)
	}
}

func TestExecutor_StopsAnActiveTaskForGoodWhenItIsCancelled(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	handler, begun, _ := untilTold()
	f.serveWith(time.Minute, handler)
	ctx, cancel := context.WithCancelCause(t.Context())
	done := start(ctx, f.executor(), attempt(`{"type": "email:send", "queue": "mails", "max_retry": 5}`).Attempt)
	testkit.Receive(t, begun, "the handler")
	cancel(errCancelled)
	got := testkit.Receive(t, done, "the end")
	if !errors.Is(got.err, errCancelled) || f.state() != "" || len(begun) > 0 {
		t.Errorf("it ends with %v, the asynq task is %q, and %d more runs have begun", got.err, f.state(), len(begun))
	}
}

func TestExecutor_FailsForGoodWhenSomebodyDeletesTheTask(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	done := start(t.Context(), f.executor(), attempt(mail).Attempt)
	f.reaches("pending")
	testkit.Must(t, f.inspector.DeleteTask("mails", asynqID))
	if got := testkit.Receive(t, done, "the end"); !errors.Is(got.err, errGone) || !executor.IsPermanent(got.err) {
		t.Errorf("it ends with %v", got.err)
	}
}

func TestExecutor_FailsForGoodWhenTheHandlerRevokesTheTask(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.serve(func(context.Context, *asynq.Task) error { return asynq.RevokeTask })
	if got := testkit.Receive(t, start(t.Context(), f.executor(), attempt(mail).Attempt), "the end"); !errors.Is(got.err, errGone) {
		t.Errorf("it ends with %v", got.err)
	}
}

// A worker that dies leaves the asynq task behind, as one that shuts down or loses its lease.
func TestExecutor_FollowsTheTaskOfAnotherWorkerThatIsGone(t *testing.T) {
	t.Parallel()
	for name, cause := range map[string]error{"shut down": executor.ErrShutdown, "without a lease": executor.ErrNoGrace} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			handler, begun, tell := untilTold()
			f.serve(handler)
			ctx, cancel := context.WithCancelCause(t.Context())
			first := start(ctx, f.executor(), attempt(mail).Attempt)
			testkit.Receive(t, begun, "the handler")
			cancel(cause)
			if got := testkit.Receive(t, first, "the end of the first attempt"); !errors.Is(got.err, cause) {
				t.Errorf("the first attempt ends with %v", got.err)
			}
			a := attempt(mail)
			second := start(t.Context(), f.executor(), a.Attempt)
			if got := a.WaitForLine(t); !strings.HasSuffix(got, "found, and active") {
				t.Errorf("it logs %q", got)
			}
			tell <- nil
			if got := testkit.Receive(t, second, "the end of the second attempt"); got.err != nil || len(begun) > 0 {
				t.Errorf("the second attempt ends with %v, and %d more runs have begun", got.err, len(begun))
			}
		})
	}
}

// The worker died between the end of the asynq task and its report.
func TestExecutor_FindsTheOutcomeOfATaskThatEndedMeanwhile(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	runs := make(chan bool, 10)
	f.serve(func(_ context.Context, t *asynq.Task) error {
		runs <- true
		_, err := t.ResultWriter().Write([]byte("sent"))
		return err
	})
	for range 2 {
		if got := testkit.Receive(t, start(t.Context(), f.executor(), attempt(mail).Attempt), "the end"); got.err != nil || got.result != "sent" {
			t.Errorf("it ends with %q, %v", got.result, got.err)
		}
	}
	if len(runs) != 1 {
		t.Errorf("asynq ran it %d times", len(runs))
	}
}

// A client had the ended task run again: that is more work, not more of the same.
func TestExecutor_EnqueuesAnewForALaterFirstAttempt(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	runs := make(chan bool, 10)
	f.serve(func(context.Context, *asynq.Task) error { runs <- true; return nil })
	e, a := f.executor(), attempt(mail)
	for range 2 {
		if got := testkit.Receive(t, start(t.Context(), e, a.Attempt), "the end"); got.err != nil {
			t.Error(got.err)
		}
		a.Task.FirstDueAt = a.Task.FirstDueAt.Add(time.Millisecond)
	}
	if len(runs) != 2 {
		t.Errorf("asynq ran it %d times", len(runs))
	}
}

func TestExecutor_GoesOnFollowingWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	handler, begun, tell := untilTold()
	f.serve(handler)
	done := start(t.Context(), f.executor(), attempt(mail).Attempt)
	testkit.Receive(t, begun, "the handler")
	f.redis.Pause()
	select {
	case got := <-done:
		t.Errorf("it ends with %v", got.err)
	case <-time.After(200 * time.Millisecond):
	}
	f.redis.Continue()
	tell <- nil
	if got := testkit.Receive(t, done, "the end"); got.err != nil {
		t.Errorf("it ends with %v", got.err)
	}
}

func TestExecutor_RefusesAQueueFromWhichWorkersOfDTSTake(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.consume("mails")
	got := testkit.Receive(t, start(t.Context(), f.executor(), attempt(mail).Attempt), "the end")
	if got.err == nil || !executor.IsPermanent(got.err) || !strings.Contains(got.err.Error(), `"mails"`) || f.state() != "" {
		t.Errorf("it ends with %v, and the asynq task is %q", got.err, f.state())
	}
}

func TestExecutor_TellsInstallationsApart(t *testing.T) {
	t.Parallel()
	e, err := New(Options{Redis: "redis://127.0.0.1:1", Prefix: "other"})
	testkit.Must(t, err)
	defer func() { testkit.Must(t, e.Close()) }()
	o, err := parseOrder([]byte(mail))
	testkit.Must(t, err)
	if got := e.locate(o, attempt(mail).Attempt); got.id != strings.Replace(asynqID, "dts:", "other:", 1) {
		t.Errorf("the id is %s", got.id)
	}
}

// Tasks of other types do not call the Redis of the fleet, also before the executor has connected to it.
func TestExecutor_SaysWhereItsRedisListens(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	f := newFleet(t)
	replica := redistest.Start(t)
	replica.Follow(f.redis)
	executors := executor.Registry{"asynq": f.executor()}
	executors.Discover(t.Context())
	for _, server := range []*redistest.Server{f.redis, replica} {
		says := func(e executor.Endpoint) bool {
			return e.Part == "the Redis of the asynq fleet" && e.Address == server.Addr() && e.Machine
		}
		if got := executors.Endpoints(); !slices.ContainsFunc(got, says) {
			t.Errorf("got %+v, want one at %s", got, server.Addr())
		}
	}
}

func TestDescribe_SaysThatTheRedisOfTheFleetIsAway(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	f, log := newFleet(t), &testkit.Log{}
	f.redis.Kill()
	d := Describe()
	flags := pflag.NewFlagSet("dtsd", pflag.ContinueOnError)
	d.Settings.Declare(flags)
	testkit.Must(t, flags.Parse([]string{"--asynq-redis", f.redis.URL()}))
	made, err := d.New(executor.Options{Redis: "redis://127.0.0.1:1", Log: slog.New(slog.NewTextHandler(log, nil))})
	testkit.Must(t, err)
	e := made.(*Executor)
	t.Cleanup(func() { testkit.Must(t, e.Close()) })
	testkit.Eventually(t, "a warning", func() bool {
		return log.Has("level=WARN msg=\"the Redis of the asynq fleet does not answer") && log.Has("connection refused")
	})
	f.redis.Restart()
	testkit.Eventually(t, "the end of that", func() bool { return log.Has("msg=\"the Redis of the asynq fleet answers\"") })
	if log.Count("level=WARN") != 1 {
		t.Error("it warns more than once")
	}
	quiet := &testkit.Log{}
	if e.meet(t.Context(), slog.New(slog.NewTextHandler(quiet, nil))); quiet.Has("msg=") {
		t.Error("it logs that all is well")
	}
}
