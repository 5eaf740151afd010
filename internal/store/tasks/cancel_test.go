package tasks_test

import (
	"testing"

	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// Who asked a running task to stop is its error once it has stopped, and not if it succeeded all the same.
func TestCancel_KeepsWhoAskedARunningTaskToStop(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	for id, c := range map[string]struct {
		state   task.State
		outcome task.Outcome
		reason  string
		want    string
	}{
		"with-reason": {task.Cancelled, task.OutcomeCancelled, "told to stop", "asked to stop by ann: told to stop"},
		"silently":    {task.Cancelled, task.OutcomeCancelled, "", "asked to stop by ann"},
		"too-late":    {task.Succeeded, task.OutcomeSucceeded, "", ""},
	} {
		run := w.Tasks.RunOf(w.Get(w.Bring(id, task.Running)))
		_, err := w.Tasks.Cancel(w.Ctx, run.Task.Ref, "ann")
		testkit.Must(t, err)
		testkit.Must(t, run.Finish(w.Ctx, c.state, c.outcome, "", c.reason))
		got, err := w.Tasks.Get(w.Ctx, run.Task.Ref)
		testkit.Must(t, err)
		if got.State != c.state || got.Error != c.want {
			t.Errorf("%s with %q: it is %s, with the error %q, want %q", c.outcome, c.reason, got.State, got.Error, c.want)
		}
	}
}
