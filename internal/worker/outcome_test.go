package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor"
)

func fails(context.Context, executor.Attempt) (string, error) { return "", errors.New("boom") }

func TestAttempt_SuccessEndsTheTaskWithItsResult(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(func(_ context.Context, a executor.Attempt) (string, error) {
		return a.IdempotencyKey() + string(a.Payload), nil
	})
	ref := w.submit(task.Definition{Ref: task.Ref{ID: "a"}, Payload: []byte(`{"n":1}`)})
	got := w.reaches(ref, task.Succeeded)
	if got.Result != `default:a{"n":1}` || got.Node != node || got.Error != "" {
		t.Errorf("the task is %+v", got)
	}
	w.last(ref, task.OutcomeSucceeded)
	testkit.Eventually(t, "asynq forgets the delivery", func() bool { return w.delivery(ref, 1) == "" })
}

func TestAttempt_FailureIsRepeatedAfterTheDelayOfThePolicy(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	cases := map[string]struct {
		retry  task.Retry
		random float64
		want   []time.Duration
	}{
		"explicit delays, the last one repeated": {
			task.Retry{MaxAttempts: 4, Delays: []time.Duration{time.Minute, time.Hour}}, 0,
			[]time.Duration{time.Minute, time.Hour, time.Hour},
		},
		"backoff drawn from 0 on": {
			task.Retry{}, 0.5, []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second},
		},
		"backoff at the lower end of its jitter": {
			task.Retry{Backoff: task.Backoff{Jitter: new(0.1)}}, 0, []time.Duration{900 * time.Millisecond, 1800 * time.Millisecond, 3600 * time.Millisecond},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.start(fails, func(o *Options) { o.Random = func() float64 { return c.random } })
			ref := w.submit(task.Definition{Retry: c.retry})
			for i, want := range c.want {
				w.reaches(ref, task.Scheduled)
				w.expectDelay(ref, want)
				if i+1 < len(c.want) {
					w.hurry(ref)
				}
			}
		})
	}
}

// expectDelay compares when the task is due with the end of its newest attempt: both are Redis's times.
func (w *world) expectDelay(ref task.Ref, want time.Duration) {
	w.t.Helper()
	a := w.last(ref, task.OutcomeFailed)
	if got := w.get(ref).DueAt.Sub(a.FinishedAt); got != want {
		w.t.Errorf("attempt %d is due %s after attempt %d ended, want %s", a.Number+1, got, a.Number, want)
	}
}

// hurry makes a waiting task due now and hands it over.
func (w *world) hurry(ref task.Ref) {
	w.t.Helper()
	_, err := w.useCases().ChangeTask(w.t.Context(), caller, ref.ID, control.TaskChange{Delay: new(time.Duration)})
	testkit.Must(w.t, err)
	attempt := w.get(ref).Attempt
	w.dispatch()
	testkit.Eventually(w.t, "the next attempt ended", func() bool { return len(w.attempts(ref)) > attempt && w.get(ref).State != task.Running })
}

func TestAttempt_LastFailureMakesADeadLetterInAsynq(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(fails)
	ref := w.submit(task.Definition{Retry: task.Retry{MaxAttempts: 2}})
	w.reaches(ref, task.Scheduled)
	testkit.Eventually(t, "the first delivery is gone", func() bool { return w.delivery(ref, 1) == "" })
	w.hurry(ref)
	if got := w.reaches(ref, task.Failed); got.Error != "boom" || got.Attempt != 2 {
		t.Errorf("the task is %+v, want error boom after 2 attempts", got)
	}
	testkit.Eventually(t, "the last delivery is archived", func() bool { return w.delivery(ref, 2) == "archived" })
}

func TestAttempt_DelaysStartAnewAfterARetryOfTheTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(fails)
	ref := w.submit(task.Definition{Retry: task.Retry{MaxAttempts: 2, Delays: []time.Duration{time.Minute, time.Hour}}})
	w.reaches(ref, task.Scheduled)
	w.hurry(ref)
	w.reaches(ref, task.Failed)
	_, err := w.store.Tasks.Retry(t.Context(), ref)
	testkit.Must(t, err)
	w.dispatch()
	testkit.Eventually(t, "attempt 3 ended", func() bool { return len(w.attempts(ref)) == 3 && w.get(ref).State == task.Scheduled })
	w.expectDelay(ref, time.Minute)
}

func TestAttempt_InvalidPayloadFailsTheTaskAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(func(context.Context, executor.Attempt) (string, error) {
		return "", &executor.InvalidPayloadError{Field: "payload.url", Message: "must be a URL"}
	})
	ref := w.submit(task.Definition{Retry: task.Retry{MaxAttempts: 10}})
	if got := w.reaches(ref, task.Failed); got.Error != "payload.url: must be a URL" || got.Attempt != 1 {
		t.Errorf("the task is %+v, want one attempt and the field named", got)
	}
	testkit.Eventually(t, "the delivery is archived", func() bool { return w.delivery(ref, 1) == "archived" })
}

func TestAttempt_FinalFailureFailsTheTaskAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(func(context.Context, executor.Attempt) (string, error) {
		return "", fmt.Errorf("far away: %w", executor.Permanent(errors.New("gone")))
	})
	ref := w.submit(task.Definition{Retry: task.Retry{MaxAttempts: 10}})
	if got := w.reaches(ref, task.Failed); got.Error != "far away: gone" || got.Attempt != 1 {
		t.Errorf("the task is %+v, want one attempt", got)
	}
	testkit.Eventually(t, "the delivery is archived", func() bool { return w.delivery(ref, 1) == "archived" })
}

func TestAttempt_FailureSaysHowLongTheNextOneWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(func(context.Context, executor.Attempt) (string, error) {
		return "", executor.RetryAfter(errors.New("busy"), time.Hour)
	})
	ref := w.submit(task.Definition{Retry: task.Retry{MaxAttempts: 2}})
	if got := w.reaches(ref, task.Scheduled); got.Error != "busy" {
		t.Errorf("the error is %q", got.Error)
	}
	w.expectDelay(ref, time.Hour+3*time.Minute) // and half of a tenth, as the world draws it
}

func TestAttempt_SnoozedOneIsNotUsedUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(func(context.Context, executor.Attempt) (string, error) {
		return "", executor.Snooze(errors.New("HTTP 429"), time.Hour)
	})
	ref := w.submit(task.Definition{Retry: task.Retry{MaxAttempts: 2}})
	got := w.reaches(ref, task.Scheduled)
	a := w.last(ref, task.OutcomeSnoozed)
	wait := got.DueAt.Sub(a.FinishedAt)
	if got.MaxAttempts != 3 || got.Error != "HTTP 429" || wait != time.Hour+3*time.Minute {
		t.Errorf("the task has %d attempts, and the next one is due after %s; want 3, 1h3m", got.MaxAttempts, wait)
	}
	once := w.submit(task.Definition{Retry: task.Retry{MaxAttempts: 1}})
	if got := w.reaches(once, task.Failed); got.Attempt != 1 {
		t.Errorf("a task that is run at most once made %d attempts", got.Attempt)
	}
}

// The next tick of the schedule leaves no time for another attempt, however its target asks for one.
func TestAttempt_CountsTheOutcomeThatIsRecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(func(context.Context, executor.Attempt) (string, error) {
		return "", executor.Snooze(errors.New("HTTP 429"), time.Hour)
	})
	hourly := schedule.Definition{
		Ref: task.Ref{ID: "hourly"}, Spec: schedule.Spec{Rules: []schedule.Rule{{Every: time.Hour}}},
		Task: task.Definition{Type: "echo"},
	}
	_, err := w.useCases().PutSchedule(t.Context(), caller, hourly, control.PutOptions{})
	testkit.Must(t, err)
	triggered, err := w.useCases().TriggerSchedule(t.Context(), caller, "hourly")
	testkit.Must(t, err)
	w.dispatch()
	got := w.reaches(caller.Ref("hourly@"+triggered.Name), task.Failed)
	if !strings.Contains(got.Error, "next tick") {
		t.Errorf("the error is %q", got.Error)
	}
	counted := func(o task.Outcome) float64 {
		return testkit.Metric(t, w.metrics.Attempts.WithLabelValues("echo", string(o)))
	}
	testkit.Eventually(t, "the failed attempt is counted", func() bool { return counted(task.OutcomeFailed) == 1 })
	if n := counted(task.OutcomeSnoozed); n != 0 {
		t.Errorf("%v snoozed ones are counted", n)
	}
}

// The first delivery says its type, so the worker passes over it. The second one says another, as it is of an older task of that name,
// until a leader looks after it.
func TestWorker_GivesBackWhatItDoesNotRun(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	w.start(fails)
	left := w.submit(task.Definition{Type: "mystery"})
	given := w.create(task.Definition{Type: "mystery"})
	own := w.claim()
	older := own[0]
	older.Type, older.ClaimedAt = "echo", older.ClaimedAt.Add(-time.Minute)
	testkit.Must(t, w.queues.HandOver(t.Context(), []task.Delivery{older}, nil).Failure())
	testkit.Eventually(t, "it was taken", func() bool { return w.delivery(given, 1) == "active" })
	testkit.Must(t, w.queues.Pause(t.Context(), "default", "", "")) // so that it is not taken again at once
	testkit.Eventually(t, "it was given back", func() bool { return w.delivery(given, 1) == "pending" })
	for _, ref := range []task.Ref{left, given} {
		if got := w.get(ref); got.State != task.Queued || len(w.attempts(ref)) != 0 {
			t.Errorf("%s is %s, after %d attempts", ref, got.State, len(w.attempts(ref)))
		}
	}
	do, _ := echo()
	w.start(do, func(o *Options) {
		o.Executors = executor.Registry{"mystery": do}
	})
	testkit.Must(t, w.queues.HandOver(t.Context(), own, nil).Failure()) // which replaces the delivery
	testkit.Must(t, w.queues.Resume(t.Context(), "default", ""))
	for _, ref := range []task.Ref{left, given} {
		if got := w.reaches(ref, task.Succeeded); got.Attempt != 1 {
			t.Errorf("%s succeeded in attempt %d", ref, got.Attempt)
		}
	}
}

func TestAttempt_IsStoppedAtItsTimeout(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	do, _, ended := untilStopped()
	w.start(do)
	ref := w.submit(task.Definition{Timeout: 50 * time.Millisecond})
	w.reaches(ref, task.Scheduled)
	if cause := testkit.Receive(t, ended, "the executor's end"); !errors.Is(cause, errTimeout) || errors.Is(cause, executor.ErrNoGrace) {
		t.Errorf("the executor was stopped because of %v, want a timeout, with grace", cause)
	}
	if a := w.last(ref, task.OutcomeTimeout); !strings.Contains(a.Error, "50ms") {
		t.Errorf("the error is %q, want the timeout named", a.Error)
	}
}

func TestAttempt_SuccessAfterItsTimeoutCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(func(ctx context.Context, _ executor.Attempt) (string, error) {
		<-ctx.Done()
		return "late", nil
	})
	ref := w.submit(task.Definition{Timeout: 50 * time.Millisecond})
	if got := w.reaches(ref, task.Succeeded); got.Result != "late" {
		t.Errorf("the result is %q", got.Result)
	}
}

func TestAttempt_PanicFailsItWithABoundedError(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(func(context.Context, executor.Attempt) (string, error) {
		panic("the sky fell \xff " + strings.Repeat("x", 1<<20))
	})
	ref := w.submit(task.Definition{Retry: task.Retry{MaxAttempts: 1}})
	got := w.reaches(ref, task.Failed)
	if !strings.HasPrefix(got.Error, "panic: the sky fell") || len(got.Error) > task.ErrorLimit {
		t.Errorf("the error has %d bytes: %.100s", len(got.Error), got.Error)
	}
	testkit.Eventually(t, "the delivery is archived", func() bool { return w.delivery(ref, 1) == "archived" })
	kept, err := w.db.HGet(t.Context(), "asynq:{default}:t:"+ref.String()+":1", "msg").Result()
	testkit.Must(t, err)
	if len(kept) > 2*task.ErrorLimit {
		t.Errorf("asynq keeps %d bytes of it", len(kept))
	}
	w.last(ref, task.OutcomeFailed)
}

func TestAttempt_ResultIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(func(context.Context, executor.Attempt) (string, error) { return strings.Repeat("x", 1<<20), nil })
	ref := w.submit(task.Definition{})
	if got := w.reaches(ref, task.Succeeded); len(got.Result) > task.ResultLimit {
		t.Errorf("the result has %d bytes", len(got.Result))
	}
}

func TestProgress_IsSeenWhileTheAttemptRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seen := make(chan struct{})
	w.start(func(_ context.Context, a executor.Attempt) (string, error) {
		a.Progress(40, "")
		a.Progress(140, "") // out of range: no reason to fail
		<-seen
		return "", nil
	})
	ref := w.submit(task.Definition{})
	testkit.Eventually(t, "the progress is 40", func() bool { return w.get(ref).Progress == 40 })
	close(seen)
	w.reaches(ref, task.Succeeded)
}

// A task that reports its progress all the time costs Redis no more than one that does so now and then.
func TestProgress_BoundsAFloodAndKeepsTheNewest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(func(_ context.Context, a executor.Attempt) (string, error) {
		for i := range 100_000 {
			a.Progress(i%90, "")
		}
		a.Progress(95, "last")
		return "", nil
	})
	events := listen(t, w.store)
	ref := w.submit(task.Definition{})
	w.reaches(ref, task.Succeeded)
	if got := w.get(ref); got.Progress != 95 || got.ProgressNote != "last" {
		t.Errorf("the progress is %d %%, %q, want 95, last", got.Progress, got.ProgressNote)
	}
	reports := 0
	for e := range events {
		if e.State == task.Succeeded {
			break
		}
		if e.Type == "task.progress" {
			reports++
		}
	}
	if reports == 0 || reports > 20 {
		t.Errorf("%d reports went to Redis", reports)
	}
}
