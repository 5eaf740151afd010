package dtstest_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts"
	"github.com/dts-sched/dts/dtstest"
	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestDTS_RunsWhatIsDueAndNothingElse(t *testing.T) {
	var ran []string
	dtstest.Run(t, func(w *dts.Worker) {
		w.Handle("note", func(_ context.Context, t *dts.Task) (any, error) { ran = append(ran, t.ID); return nil, nil })
	}, func(t *testing.T, d *dtstest.DTS) {
		start := time.Now()
		for id, delay := range map[string]time.Duration{"now": 0, "soon": time.Minute, "later": time.Hour} {
			_, err := d.Submit(t.Context(), dts.Submission{ID: id, Type: "note", Delay: delay})
			testkit.Must(t, err)
		}
		d.Settle()
		if len(ran) != 1 || ran[0] != "now" || time.Since(start) > time.Second {
			t.Errorf("ran %q after %s", ran, time.Since(start))
		}
		d.Advance(time.Hour)
		if len(ran) != 3 || ran[1] != "soon" || ran[2] != "later" {
			t.Errorf("after an hour: %q", ran)
		}
		if tasks := d.Tasks("note"); len(tasks) != 3 || tasks[1].StartedAt.Sub(tasks[1].RunAt) > 10*time.Millisecond {
			t.Errorf("tasks: %+v", tasks)
		}
	})
}

func TestDTS_TravelsThroughRetriesAndSchedules(t *testing.T) {
	var ticks []time.Time
	dtstest.Run(t, func(w *dts.Worker) {
		w.Handle("flaky", func(_ context.Context, t *dts.Task) (any, error) {
			if t.Attempt < 3 {
				return nil, errors.New("not yet")
			}
			return t.Attempt, nil
		})
		w.Handle("tick", func(_ context.Context, t *dts.Task) (any, error) { ticks = append(ticks, t.Tick); return nil, nil })
	}, func(t *testing.T, d *dtstest.DTS) {
		_, err := d.Submit(t.Context(), dts.Submission{ID: "f", Type: "flaky", Retry: dts.Retry{Delays: []time.Duration{time.Hour}, MaxAttempts: 3}})
		testkit.Must(t, err)
		d.Settle()
		if got, err := d.Get(t.Context(), "f"); err != nil || got.State != dts.StateScheduled || got.Attempt != 1 {
			t.Errorf("after the first attempt: %+v, %v", got, err)
		}
		_, err = d.PutSchedule(t.Context(), "daily", dts.ScheduleDefinition{Cron: "0 3 * * *", Task: dts.TaskTemplate{Type: "tick"}})
		testkit.Must(t, err)
		d.Advance(2 * time.Hour)
		if got, err := d.Get(t.Context(), "f"); err != nil || got.State != dts.StateSucceeded || got.Result != "3" {
			t.Errorf("after two hours: %+v, %v", got, err)
		}
		d.Advance(46 * time.Hour)
		if len(ticks) != 2 || ticks[0].Hour() != 3 || ticks[1].Sub(ticks[0]) != 24*time.Hour {
			t.Errorf("ticks %s", ticks)
		}
	})
}

func TestDTS_RunsWorkflows(t *testing.T) {
	down := true
	dtstest.Run(t, func(w *dts.Worker) {
		dts.HandleResult(w, "load", func(context.Context, struct{}) (int, error) {
			if down {
				return 0, errors.New("the shop is down")
			}
			return 7, nil
		})
		dts.HandleResult(w, "report", func(_ context.Context, in struct{ Rows int }) (string, error) {
			return strings.Repeat("#", in.Rows), nil
		})
	}, func(t *testing.T, d *dtstest.DTS) {
		load := dts.Step{ID: "load", Type: "load", Retry: dts.Retry{Delays: []time.Duration{time.Hour}}}
		report := dts.Step{ID: "report", Type: "report", Set: map[string]string{"rows": dts.Output("load")}}
		run, err := d.Run(t.Context(), dts.Workflow{Steps: dts.Chain(load, report)}, nil)
		testkit.Must(t, err)
		begun := time.Now()
		d.Settle()
		got, err := d.GetRun(t.Context(), run.ID)
		testkit.Must(t, err)
		if load := got.Step("load"); load.State != dts.StepActive || load.Attempt != 1 || time.Since(begun) > time.Second {
			t.Errorf("after the first attempt, and %s, it is %+v", time.Since(begun), load)
		}
		down = false
		d.Advance(time.Hour)
		if text, err := dts.OutputOf[string](t.Context(), d.Client, run.ID, "report"); err != nil || text != "#######" {
			t.Errorf("an hour later, the report is %q: %v", text, err)
		}
		if runs := d.Tasks(dts.TypeWorkflow); len(runs) != 1 || runs[0].State != dts.StateSucceeded {
			t.Errorf("the runs are %+v", runs)
		}
	})
}

// A run that waits for somebody is no work, and one that waits for a time goes on by the clock.
func TestDTS_RunsStepsThatWait(t *testing.T) {
	dtstest.Run(t, nil, func(t *testing.T, d *dtstest.DTS) {
		run, err := d.Run(t.Context(), dts.Workflow{Steps: dts.Chain(
			dts.Step{ID: "nap", Wait: &dts.Wait{For: time.Hour}},
			dts.Step{ID: "paid", Wait: &dts.Wait{Signal: "paid", Timeout: time.Hour, OnTimeout: dts.TimeoutContinue}},
			dts.Step{ID: "ok", Wait: &dts.Wait{Approval: &dts.Approval{}}},
		)}, nil)
		testkit.Must(t, err)
		d.Settle()
		for _, want := range []string{"nap", "paid", "ok"} {
			got, err := d.GetRun(t.Context(), run.ID)
			testkit.Must(t, err)
			if got.Step(want).State != dts.StepWaiting {
				t.Fatalf("%s does not wait: %+v", want, got.Steps)
			}
			d.Advance(time.Hour)
		}
		ended, err := d.ApproveStep(t.Context(), run.ID, "ok", "", nil)
		testkit.Must(t, err)
		if ended.State != dts.StateSucceeded || !ended.Step("ok").Answer.Approved {
			t.Errorf("it is %+v", ended)
		}
	})
}

func TestDTS_ClockStandsWhileNothingIsDue(t *testing.T) {
	dtstest.Run(t, func(w *dts.Worker) {
		dts.Handle(w, "slow", func(ctx context.Context, _ struct{}) error {
			select {
			case <-time.After(10 * time.Minute):
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
	}, func(t *testing.T, d *dtstest.DTS) {
		if !time.Now().Before(dtstest.Start.Add(time.Second)) {
			t.Errorf("it is %s at the start", time.Now())
		}
		_, err := d.Submit(t.Context(), dts.Submission{ID: "a", Type: "slow", Timeout: time.Hour})
		testkit.Must(t, err)
		d.Settle()
		if took := time.Since(dtstest.Start); took < 10*time.Minute || took > 10*time.Minute+time.Second {
			t.Errorf("a task of 10 minutes took %s", took)
		}
		_, err = d.Submit(t.Context(), dts.Submission{ID: "b", Type: "slow", Timeout: time.Minute, Retry: dts.Retry{MaxAttempts: 1}})
		testkit.Must(t, err)
		ended, err := d.Wait(t.Context(), "b")
		testkit.Must(t, err)
		if ended.State != dts.StateFailed || ended.FinishedAt.Sub(ended.StartedAt).Round(time.Second) != time.Minute {
			t.Errorf("a task that exceeds its timeout: %+v", ended)
		}
		_, err = d.Submit(t.Context(), dts.Submission{ID: "c", Type: "slow", Timeout: time.Hour})
		testkit.Must(t, err)
	}) // which stops what still runs
}

func TestDTS_TasksOfTypesWithoutAHandlerWait(t *testing.T) {
	dtstest.Run(t, nil, func(t *testing.T, d *dtstest.DTS) {
		task, err := d.Submit(t.Context(), dts.Submission{Type: "email.send"})
		testkit.Must(t, err)
		d.Settle()
		d.Advance(time.Hour)
		if got := d.Tasks("email.send"); len(got) != 1 || got[0].ID != task.ID || got[0].State.Final() || len(got[0].Warnings) != 1 {
			t.Errorf("tasks: %+v, warnings %q", got, task.Warnings)
		}
	})
}

func TestDTS_ServesTheQueuesThatAreNamed(t *testing.T) {
	noop := func(w *dts.Worker) { dts.Handle(w, "noop", func(context.Context, struct{}) error { return nil }) }
	dtstest.Run(t, noop, func(t *testing.T, d *dtstest.DTS) {
		for id, queue := range map[string]string{"served": "mail", "other": "nobody", "paused": "low"} {
			_, err := d.Submit(t.Context(), dts.Submission{ID: id, Type: "noop", Queue: queue, Delay: time.Second})
			testkit.Must(t, err)
		}
		testkit.Must(t, d.PauseQueue(t.Context(), "low"))
		d.Advance(time.Minute)
		for _, task := range d.Tasks("") {
			if ended := task.ID == "served"; task.State.Final() != ended {
				t.Errorf("%s is %s: %q", task.ID, task.State, task.Warnings)
			}
		}
	}, "mail")
}

func TestDTS_RunsItsExample(t *testing.T) { testSignUp(t) }

func TestDTS_SettlesAllNamespaces(t *testing.T) {
	dtstest.Run(t, func(w *dts.Worker) {
		dts.Handle(w, "slow", func(ctx context.Context, _ struct{}) error { return clock.Sleep(ctx, time.Second) })
	}, func(t *testing.T, d *dtstest.DTS) {
		for _, namespace := range []string{"b", "default", "a"} {
			_, err := d.In(namespace).Submit(t.Context(), dts.Submission{Type: "slow"})
			testkit.Must(t, err)
			testkit.Must(t, clock.Sleep(t.Context(), time.Millisecond))
		}
		_, err := d.In("c").PutSchedule(t.Context(), "hourly", dts.ScheduleDefinition{Cron: "0 * * * *", Task: dts.TaskTemplate{Type: "slow"}})
		testkit.Must(t, err)
		d.Settle()
		d.Advance(time.Hour)
		var namespaces []string
		for _, task := range d.Tasks("slow") {
			namespaces = append(namespaces, task.Namespace)
			if task.State != dts.StateSucceeded {
				t.Errorf("%s is %s", task.Namespace, task.State)
			}
		}
		if got := strings.Join(namespaces, " "); got != "b default a c" {
			t.Errorf("tasks of the namespaces %s", got)
		}
	})
}

// What takes time is counted in allocations, which do not depend on the machine: a timer is one.
func TestDTS_DoesNextToNothingWhileNothingIsDue(t *testing.T) {
	dtstest.Run(t, func(w *dts.Worker) {
		dts.Handle(w, "slow", func(ctx context.Context, _ struct{}) error { return clock.Sleep(ctx, 6*24*time.Hour) })
	}, func(t *testing.T, d *dtstest.DTS) {
		perDay := func(days int) int {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			d.Advance(time.Duration(days) * 24 * time.Hour)
			runtime.ReadMemStats(&after)
			return int(after.Mallocs-before.Mallocs) / days
		}
		idle := perDay(50)
		_, err := d.Submit(t.Context(), dts.Submission{Type: "slow", Timeout: 7 * 24 * time.Hour})
		testkit.Must(t, err)
		busy := perDay(6)
		if t.Logf("allocations a day: %d idle, %d while a handler waits", idle, busy); idle > 20_000 || busy > 500_000 {
			t.Error("too much goes on while nothing is due")
		}
	})
}

// childVariable has a test run what is meant to fail.
const childVariable = "DTSTEST_CHILD"

// failing returns what go test prints about the test, which fails in a process of its own.
func failing(t *testing.T) string {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=1m") //nolint:gosec // the test itself
	child.Env = append(os.Environ(), childVariable+"=1")
	out, err := child.CombinedOutput()
	if err == nil {
		t.Errorf("the test passed:\n%s", out)
	}
	return string(out)
}

func runOne(t *testing.T, handle dts.Handler, test func(d *dtstest.DTS)) {
	t.Helper()
	dtstest.Run(t, func(w *dts.Worker) { w.Handle("one", handle) }, func(t *testing.T, d *dtstest.DTS) {
		_, err := d.Submit(t.Context(), dts.Submission{ID: "a", Type: "one", Timeout: time.Minute, Retry: dts.Retry{MaxAttempts: 1}})
		testkit.Must(t, err)
		test(d)
	})
}

func TestDTS_HandlerThatNeverReturnsFailsTheTest(t *testing.T) {
	if os.Getenv(childVariable) != "" {
		runOne(t, func(context.Context, *dts.Task) (any, error) { <-make(chan int); return nil, nil }, (*dtstest.DTS).Settle)
		return
	}
	t.Parallel()
	out := failing(t)
	for _, want := range []string{
		"--- FAIL: " + t.Name(), "task a of type one has not ended in time: it is running, attempt 1",
		"the handler of task a of type one has not returned although its context has ended",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
	if strings.Contains(out, "panic: ") {
		t.Errorf("it panicked:\n%s", out)
	}
}

func TestDTS_HandlerMayUseTheTestsT(t *testing.T) {
	if os.Getenv(childVariable) != "" {
		runOne(t, func(_ context.Context, task *dts.Task) (any, error) {
			t.Logf("a log line about task %s", task.ID)
			t.Fatal("this is why")
			return nil, nil
		}, func(d *dtstest.DTS) {
			d.Settle()
			t.Logf("the task has %s: %s", d.Tasks("")[0].State, d.Tasks("")[0].Error)
		})
		return
	}
	t.Parallel()
	out := failing(t)
	for _, want := range []string{"a log line about task a", "this is why", "the task has failed: the handler ended its goroutine (runtime.Goexit)"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
}
