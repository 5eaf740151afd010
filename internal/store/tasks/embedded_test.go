package tasks_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// The Lua interpreter of the embedded Redis keeps a table with a large number as key as an array of that length.
func TestFinish_TakesLittleMemoryOnTheEmbeddedRedis(t *testing.T) { //nolint:paralleltest // counts allocations
	travelling(t, func(t *testing.T, w *storetest.World, _ *outage) {
		for _, retention := range []time.Duration{time.Minute, time.Hour, 18 * time.Hour} {
			ref := task.Ref{Namespace: "default", ID: retention.String()}
			w.Create(task.Definition{Ref: ref, Retry: task.Retry{MaxAttempts: 1}, Retention: retention})
			w.Claim(ref)
			run := w.Begin(ref)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			testkit.Must(t, run.Finish(w.Ctx, task.Succeeded, task.OutcomeSucceeded, "", ""))
			runtime.ReadMemStats(&after)
			if kept := w.Get(ref).Retention; kept != retention {
				t.Fatalf("the task is kept for %v, not %v", kept, retention)
			}
			if mib := (after.TotalAlloc - before.TotalAlloc) >> 20; mib > 8 {
				t.Errorf("with a retention of %v, a finish allocates %d MiB, want at most 8", retention, mib)
			}
		}
	})
}
