package tasks_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/rollup"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// counted is a Counter that lists what it was told.
type counted []string

func (c *counted) Begun(string, time.Duration) {}

func (c *counted) Ended(e rollup.End) {
	*c = append(*c, fmt.Sprint(e.Queue, " ", e.Outcome, " ", e.To))
}

func (c *counted) Paused() { *c = append(*c, "paused") }

func TestCounter_CountsEachEndOnce(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	var got counted
	w.Tasks.CountWith(&got)
	for id, end := range map[string]func(*tasks.Run) error{
		"good":  func(r *tasks.Run) error { return r.Finish(w.Ctx, task.Succeeded, task.OutcomeSucceeded, "", "") },
		"again": func(r *tasks.Run) error { return r.Reattempt(w.Ctx, time.Hour, task.OutcomeTimeout, "slow") },
		"stop":  func(r *tasks.Run) error { return r.Finish(w.Ctx, task.Cancelled, task.OutcomeCancelled, "", "") },
		"lost": func(r *tasks.Run) error {
			now, err := w.Now(w.Ctx, w.PartitionOf(r.Task.Ref))
			testkit.Must(t, err)
			w.Lapse(r.Task.Ref)
			return w.Leader(r.Task.Ref).Reap(w.Ctx, r.Task, now, time.UnixMilli(1), partition.Loss{})
		},
	} {
		ref := task.Ref{Namespace: "default", ID: id}
		w.Create(task.Definition{Ref: ref, Queue: "of-" + id, Retry: task.Retry{MaxAttempts: 1}})
		run := w.Begin(ref)
		testkit.Must(t, end(run))
		_ = end(run) // a repeat is accepted or refused
	}
	slices.Sort(got)
	want := "[of-again timeout scheduled of-good succeeded succeeded of-lost lost failed of-stop cancelled cancelled]"
	if fmt.Sprint(got) != want {
		t.Errorf("it was told %v, want %v", got, want)
	}
}

func TestLogEnd_WritesOneLineForEachFailure(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	var log testkit.Log
	w.Log = slog.New(slog.NewJSONHandler(&log, nil))
	reap := func(run *tasks.Run) error {
		now, err := w.Now(w.Ctx, w.PartitionOf(run.Task.Ref))
		testkit.Must(t, err)
		w.Lapse(run.Task.Ref)
		loss := partition.Loss{Reason: "node node-a died"}
		return w.Leader(run.Task.Ref).Reap(w.Ctx, run.Task, now, time.UnixMilli(1), loss)
	}
	elsewhere, err := store.Open(w.Ctx, store.Options{DB: w.DB})
	testkit.Must(t, err)
	ends := map[string]func(*tasks.Run) error{
		"unheard": func(r *tasks.Run) error { // Redis had the first report, and its reply was lost
			err := elsewhere.Tasks.RunOf(r.Task).Finish(w.Ctx, task.Failed, task.OutcomeFailed, "", "boom")
			testkit.Must(t, err)
			return r.Finish(w.Ctx, task.Failed, task.OutcomeFailed, "", "boom")
		},
		"failed": func(r *tasks.Run) error {
			return r.Finish(w.Ctx, task.Failed, task.OutcomeFailed, "", strings.Repeat("x", 1000))
		},
		"again": func(r *tasks.Run) error { return r.Reattempt(w.Ctx, time.Hour, task.OutcomeTimeout, "slow") },
		"good":  func(r *tasks.Run) error { return r.Finish(w.Ctx, task.Succeeded, task.OutcomeSucceeded, "", "") },
		"lost":  reap,
	}
	for id, end := range ends {
		w.Create(task.Definition{Ref: task.Ref{Namespace: "default", ID: id}, Retry: task.Retry{MaxAttempts: 2}})
		run := w.Begin(task.Ref{Namespace: "default", ID: id})
		testkit.Must(t, end(run))
		_ = end(run) // a repeat is accepted or refused, and writes nothing
	}
	poison := task.Definition{Ref: task.Ref{Namespace: "default", ID: "poison"}, Retry: task.Retry{MaxAttempts: 1}}
	w.Create(poison)
	testkit.Must(t, reap(w.Begin(poison.Ref)))

	got := make(map[string]string)
	for msg, level := range map[string]string{
		"a task has failed": "WARN", "an attempt did not succeed; there will be another one": "INFO",
		"an attempt was lost; there will be another one": "WARN",
	} {
		for _, e := range log.Find(t, msg) {
			id := e["task"].(string)
			if e["level"] != level || e["type"] != "http" || len(e["error"].(string)) > 500 || got[id] != "" {
				t.Errorf("the line %v, after %q", e, got[id])
			}
			got[id] = fmt.Sprintf("%s %v attempts %v attempt %v on %v",
				level, e["outcome"], e["attempts"], e["attempt"], e["ran_on"])
		}
	}
	want := map[string]string{
		"default:failed":  "WARN failed attempts 1 attempt <nil> on node-a",
		"default:unheard": "WARN failed attempts 1 attempt <nil> on node-a",
		"default:again":   "INFO timeout attempts <nil> attempt 1 on node-a",
		"default:lost":    "WARN lost attempts <nil> attempt 1 on node-a",
		"default:poison":  "WARN lost attempts 1 attempt <nil> on node-a",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the log has %v, want %v", got, want)
	}
}
