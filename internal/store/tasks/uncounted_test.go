package tasks_test

import (
	"cmp"
	"fmt"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// A handler says itself that its task runs again later, or its worker shuts down.
func TestEnd_HasAttemptsThatDoNotCount(t *testing.T) {
	t.Parallel()
	const hour = time.Hour
	now := time.UnixMilli(1_764_000_000_000)
	off := func(wait time.Duration) tasks.Ending {
		return tasks.Ending{Outcome: task.OutcomeSnoozed, Reason: "no file yet", Wait: wait}
	}
	stop := tasks.Ending{Outcome: task.OutcomeInterrupted, Reason: "the node shut down"}
	again := func(delay time.Duration, last int) tasks.End {
		return tasks.End{State: task.Scheduled, Delay: delay, Last: last}
	}
	failed := func(why string) tasks.End {
		return tasks.End{State: task.Failed, Outcome: task.OutcomeFailed, Reason: "no file yet; not put off again: " + why}
	}
	twice, once := task.Retry{MaxAttempts: 2}, task.Retry{MaxAttempts: 1}
	for name, c := range map[string]struct {
		policy        task.Retry
		attempt, last int // last: before
		end           tasks.Ending
		want          tasks.End
	}{
		"snoozed":            {twice, 1, 2, off(hour), again(hour, 3)},
		"the last one":       {twice, 2, 2, off(hour), again(hour, 3)},
		"the only one":       {once, 1, 1, off(hour), again(hour, 2)},
		"for days":           {twice, 1, 2, off(72 * hour), again(72*hour, 3)},
		"for too long":       {twice, 1, 2, off(9000 * hour), again(task.BackoffLimit, 3)},
		"for a moment":       {twice, 1, 2, off(1), again(time.Second, 3)},
		"too often":          {twice, 1000, 1000, off(hour), failed("1000 attempts were made")},
		"beyond max_elapsed": {within(once, time.Minute), 1, 1, off(hour), failed("retry.max_elapsed (1m0s) would be over")},

		"interrupted":              {twice, 2, 2, stop, again(0, 3)},
		"the only one is":          {once, 1, 1, stop, tasks.End{State: task.Failed}},
		"interrupted too often":    {twice, 1000, 1000, stop, tasks.End{State: task.Failed}},
		"interrupted just in time": {within(twice, time.Second), 2, 2, stop, again(0, 3)},
		"interrupted too late":     {within(twice, time.Second-1), 2, 2, stop, tasks.End{State: task.Failed}},
	} {
		d := task.Definition{Ref: task.Ref{ID: "hourly@20261125T020000Z"}, Type: "noop", Retry: c.policy}
		due := now.Add(-time.Second)
		run := &tasks.Run{Task: task.Task{
			Definition: d, Attempt: c.attempt, MaxAttempts: c.last, DueAt: due, FirstDueAt: due,
		}}
		c.want.Run, c.want.Outcome = run, cmp.Or(c.want.Outcome, c.end.Outcome)
		c.want.Reason = cmp.Or(c.want.Reason, c.end.Reason)
		if got := run.End(c.end, now, 0.5); got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

func within(r task.Retry, elapsed time.Duration) task.Retry {
	r.MaxElapsed = elapsed
	return r
}

// Nodes of the release before do not know the outcome.
func TestFinish_WritesInterruptedIfAllNodesKnowIt(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	for older, want := range map[bool]task.Outcome{true: task.OutcomeLost, false: task.OutcomeInterrupted} {
		ref := task.Ref{Namespace: "default", ID: fmt.Sprint(older)}
		w.Create(task.Definition{Ref: ref})
		run := w.Begin(ref)
		s, err := store.Open(t.Context(), store.Options{DB: w.DB, HasOlder: func() bool { return older }})
		testkit.Must(t, err)
		now, err := w.Now(w.Ctx, w.PartitionOf(ref))
		testkit.Must(t, err)
		end := run.End(tasks.Ending{Outcome: task.OutcomeInterrupted}, now, 0)
		testkit.Must(t, s.Tasks.FinishEach(w.Ctx, []tasks.End{end})[0])
		attempts, err := w.Tasks.Attempts(w.Ctx, ref)
		testkit.Must(t, err)
		if len(attempts) != 1 || attempts[0].Outcome != want {
			t.Errorf("older nodes: %v; the attempts are %+v", older, attempts)
		}
		if got := w.Get(ref); got.State != task.Scheduled || got.MaxAttempts != task.DefaultMaxAttempts+1 {
			t.Errorf("older nodes: %v; the task is %+v", older, got)
		}
	}
}
