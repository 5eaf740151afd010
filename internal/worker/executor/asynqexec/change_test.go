package asynqexec

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor"
)

// leave has an attempt hand a task over, brings the asynq task into a state, and has the worker shut down.
func (f *fleet) leave(payload, state string) {
	f.t.Helper()
	ctx, cancel := context.WithCancelCause(f.t.Context())
	done := start(ctx, f.executor(), attempt(payload).Attempt)
	if state == "archived" {
		f.reaches("pending")
		testkit.Must(f.t, f.inspector.ArchiveTask("mails", asynqID))
	}
	f.reaches(state)
	cancel(executor.ErrShutdown)
	testkit.Receive(f.t, done, "the end of the first attempt")
}

// described is what the asynq task was enqueued with.
func (f *fleet) described() string {
	f.t.Helper()
	info, err := f.inspector.GetTaskInfo("mails", asynqID)
	testkit.Must(f.t, err)
	return fmt.Sprintln(info.Type, string(info.Payload), info.Headers, info.MaxRetry, info.Timeout, info.Retention)
}

func TestExecutor_ReplacesAnAsynqTaskOfWhichThePayloadHasChanged(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	for name, c := range map[string]struct{ before, after, want string }{
		"type":         {`"type": "a"`, `"type": "b"`, "b  map[] 0 10m0s 24h0m0s\n"},
		"payload":      {`"type": "a", "payload": {"n": 1}`, `"type": "a", "payload": {"n": 2}`, "a {\"n\": 2} map[] 0 10m0s 24h0m0s\n"},
		"no payload":   {`"type": "a", "payload": {"n": 1}`, `"type": "a"`, "a  map[] 0 10m0s 24h0m0s\n"},
		"headers":      {`"type": "a"`, `"type": "a", "headers": {"tenant": "acme"}`, "a  map[tenant:acme] 0 10m0s 24h0m0s\n"},
		"max_retry":    {`"type": "a"`, `"type": "a", "max_retry": 3`, "a  map[] 3 10m0s 24h0m0s\n"},
		"timeout":      {`"type": "a", "timeout": "30s"`, `"type": "a", "timeout": "31s"`, "a  map[] 0 31s 24h0m0s\n"},
		"less timeout": {`"type": "a"`, `"type": "a", "timeout": "599s"`, "a  map[] 0 9m59s 24h0m0s\n"},
		"no timeout":   {`"type": "a", "timeout": "30s"`, `"type": "a"`, "a  map[] 0 10m0s 24h0m0s\n"},
		"retention":    {`"type": "a"`, `"type": "a", "retention": "1h"`, "a  map[] 0 10m0s 1h0m0s\n"},
	} {
		for _, state := range []string{"archived", "pending"} {
			t.Run(name+" of one that is "+state, func(t *testing.T) {
				t.Parallel()
				f := newFleet(t)
				f.leave(`{"queue": "mails", `+c.before+`}`, state)
				a := attempt(`{"queue": "mails", ` + c.after + `}`)
				ctx, cancel := context.WithCancelCause(t.Context())
				done := start(ctx, f.executor(), a.Attempt)
				if got := a.WaitForLine(t); !strings.HasSuffix(got, "found "+state+", and replaced because the task was changed") {
					t.Errorf("it logs %q", got)
				}
				if got := f.described(); f.state() != "pending" || got != c.want {
					t.Errorf("the asynq task is %s: %s, want %s", f.state(), got, c.want)
				}
				cancel(executor.ErrShutdown)
				testkit.Receive(t, done, "the end of the second attempt")
			})
		}
	}
}

func TestExecutor_ReplacesAChangedTaskThatAsynqIsAboutToTryAgain(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.serveWith(time.Hour, func(_ context.Context, t *asynq.Task) error {
		if t.Type() == "email:send" {
			return errors.New("no paper")
		}
		return nil
	})
	f.leave(`{"type": "email:send", "queue": "mails", "max_retry": 5}`, "retry")
	a := attempt(`{"type": "email:print", "queue": "mails", "max_retry": 5}`)
	if got := testkit.Receive(t, start(t.Context(), f.executor(), a.Attempt), "the end"); got.err != nil {
		t.Errorf("the second attempt ends with %v", got.err)
	}
}

func TestExecutor_LeavesAWaitingTaskInItsPlaceIfNothingHasChanged(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.leave(mail, "pending")
	a := attempt(mail)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute-time.Second) // it hands over a second later than the one before
	defer cancel()
	done := start(ctx, f.executor(), a.Attempt)
	if got := a.WaitForLine(t); !strings.HasSuffix(got, ": found, and pending") {
		t.Errorf("it logs %q", got)
	}
	cancel()
	testkit.Receive(t, done, "the end of the second attempt")
}

func TestExecutor_FollowsAnActiveTaskAndSaysThatItIsFromBeforeTheChange(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	handler, begun, tell := untilTold()
	f.serve(handler)
	f.leave(mail, "active")
	a := attempt(`{"type": "email:print", "queue": "mails"}`)
	done := start(t.Context(), f.executor(), a.Attempt)
	if got := a.WaitForLine(t); !strings.HasSuffix(got, ": found, and active with what was there before the task was changed") {
		t.Errorf("it logs %q", got)
	}
	tell <- nil
	if got := testkit.Receive(t, done, "the end"); got.err != nil {
		t.Errorf("the second attempt ends with %v", got.err)
	}
	if first := <-begun; first != "email:send" || len(begun) > 0 {
		t.Errorf("asynq ran %s, and %d more", first, len(begun))
	}
}

// A worker that was away for a while may have the older order.
func TestExecutor_ReplacesNothingOnceItsAttemptHasEnded(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.leave(mail, "pending")
	was := f.described()
	e, a := f.executor(), attempt(`{"type": "email:print", "queue": "mails"}`)
	o, err := parseOrder(a.Payload)
	testkit.Must(t, err)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(executor.ErrNoGrace)
	if _, err := e.handOver(ctx, o, e.locate(o, a.Attempt)); !errors.Is(err, executor.ErrNoGrace) || f.described() != was {
		t.Errorf("it ends with %v, and the asynq task is %s", err, f.described())
	}
}
