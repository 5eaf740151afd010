package tasks_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

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
