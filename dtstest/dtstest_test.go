package dtstest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dts-sched/dts"
	"github.com/dts-sched/dts/dtstest"
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
