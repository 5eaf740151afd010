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
	moved := tasks.Ending{Outcome: task.OutcomeMoved, Reason: "no file yet"}
	asked := moved
	asked.Asked = true
	failed := func(why string) tasks.End {
		return tasks.End{State: task.Failed, Outcome: task.OutcomeFailed, Reason: "no file yet; not " + why}
	}
	twice, once := task.Retry{MaxAttempts: 2}, task.Retry{MaxAttempts: 1}
	for name, c := range map[string]struct {
		policy        task.Retry
		attempt, last int // last: before
		end           tasks.Ending
		want          tasks.End
	}{
		"snoozed":      {twice, 1, 2, off(hour), again(hour, 3)},
		"the last one": {twice, 2, 2, off(hour), again(hour, 3)},
		"the only one": {once, 1, 1, off(hour), again(hour, 2)},
		"for days":     {twice, 1, 2, off(72 * hour), again(72*hour, 3)},
		"for too long": {twice, 1, 2, off(9000 * hour), again(task.BackoffLimit, 3)},
		"for a moment": {twice, 1, 2, off(1), again(time.Second, 3)},
		"too often":    {twice, 1000, 1000, off(hour), failed("put off again: 1000 attempts were made")},
		"beyond max_elapsed": {
			within(once, time.Minute), 1, 1, off(hour), failed("put off again: retry.max_elapsed (1m0s) would be over"),
		},

		"moved":              {twice, 1, 2, moved, again(0, 3)},
		"moved at last":      {twice, 2, 2, moved, again(0, 3)},
		"the only one moves": {once, 1, 1, moved, again(0, 2)},
		"moved too often":    {twice, 1000, 1000, moved, failed("moved again: 1000 attempts were made")},
		"moved too late": {
			within(once, 999*time.Millisecond), 1, 1, moved, failed("moved again: retry.max_elapsed (999ms) would be over"),
		},
		"moved too late, and asked": {within(once, 999*time.Millisecond), 1, 1, asked, again(0, 2)},
		"asked to move too often":   {twice, 1000, 1000, asked, failed("moved again: 1000 attempts were made")},
		"interrupted":               {twice, 2, 2, stop, again(0, 3)},
		"the only one is":           {once, 1, 1, stop, tasks.End{State: task.Failed}},
		"interrupted too often":     {twice, 1000, 1000, stop, tasks.End{State: task.Failed}},
		"interrupted just in time":  {within(twice, time.Second), 2, 2, stop, again(0, 3)},
		"interrupted too late":      {within(twice, time.Second-1), 2, 2, stop, tasks.End{State: task.Failed}},
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

// Nodes of the releases before do not know all outcomes. The layout of the data says whether all know that tasks move.
func TestFinish_WritesOutcomesThatAllNodesKnow(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	for _, c := range []struct {
		older             bool
		layout            string
		ended, recordedAs task.Outcome
	}{
		{true, "3", task.OutcomeInterrupted, task.OutcomeLost},
		{false, "6", task.OutcomeInterrupted, task.OutcomeInterrupted},
		{true, "3", task.OutcomeMoved, task.OutcomeLost},
		{false, "6", task.OutcomeMoved, task.OutcomeInterrupted},
		{false, "7", task.OutcomeMoved, task.OutcomeMoved},
	} {
		older, want := c.older, c.recordedAs
		testkit.Must(t, w.DB.HSet(w.Ctx, "dts:meta", "layout", c.layout).Err())
		ref := task.Ref{Namespace: "default", ID: fmt.Sprintf("%s-%s-%t", c.ended, c.layout, older)}
		w.Create(task.Definition{Ref: ref})
		run := w.Begin(ref)
		s, err := store.Open(t.Context(), store.Options{DB: w.DB, HasOlder: func() bool { return older }})
		testkit.Must(t, err)
		now, err := w.Now(w.Ctx, w.PartitionOf(ref))
		testkit.Must(t, err)
		end := run.End(tasks.Ending{Outcome: c.ended}, now, 0)
		testkit.Must(t, s.Tasks.FinishEach(w.Ctx, []tasks.End{end})[0])
		attempts, err := w.Tasks.Attempts(w.Ctx, ref)
		testkit.Must(t, err)
		if len(attempts) != 1 || attempts[0].Outcome != want {
			t.Errorf("%s: the attempts are %+v", ref, attempts)
		}
		if got := w.Get(ref); got.State != task.Scheduled || got.MaxAttempts != task.DefaultMaxAttempts+1 {
			t.Errorf("%s: the task is %+v", ref, got)
		}
	}
}
