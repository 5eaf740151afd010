package control

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestDeleteSchedule_EndsTheTasksItIsToldTo(t *testing.T) {
	t.Parallel()
	for which, want := range map[DeleteTasks]struct {
		answer  map[string]TaskFate // of the waiting task and of the running one
		waiting task.State
		running bool // asked to stop
	}{
		DeleteWaiting: {map[string]TaskFate{"waiting": TaskCancelled, "running": TaskLeft}, task.Cancelled, false},
		DeleteAll:     {map[string]TaskFate{"waiting": TaskCancelled, "running": TaskStopping}, task.Cancelled, true},
		DeleteNone:    {map[string]TaskFate{"waiting": TaskLeft, "running": TaskLeft}, task.Scheduled, false},
	} {
		t.Run(string(which), func(t *testing.T) {
			w := newWorld(t)
			ticks := w.hourly(2, func(d *schedule.Definition) { d.Overlap = schedule.OverlapAllow })
			w.fire(nightly)
			run := w.begun(task.Ref{Namespace: "default", ID: "nightly@" + ticks[0]})
			w.db.Del(w.ctx, w.key(nightly, "live")) // those of a backfill are not in it either
			answer := foretold(w, func() (Deleted, error) { return w.PreviewDelete(w.ctx, me, nightly.ID, which) },
				func() (Deleted, error) { return w.DeleteSchedule(w.ctx, me, nightly.ID, which) })
			fates, counts := map[string]TaskFate{}, map[TaskFate]int{}
			for i, name := range []string{"running", "waiting"} {
				id := "nightly@" + ticks[i]
				at := slices.IndexFunc(answer.Examples, func(e DeletedTask) bool { return e.ID == id })
				fates[name] = answer.Examples[at].Fate
				counts[fates[name]]++
			}
			if diff := cmp.Diff(want.answer, fates); diff != "" {
				t.Errorf("fates (-want +got):\n%s", diff)
			}
			got := map[TaskFate]int{TaskCancelled: answer.Cancelled, TaskStopping: answer.Stopping, TaskLeft: answer.Left}
			maps.DeleteFunc(got, func(_ TaskFate, n int) bool { return n == 0 })
			if diff := cmp.Diff(counts, got); diff != "" {
				t.Errorf("counts (-want +got):\n%s", diff)
			}
			if state := w.tasksOf(nightly)["nightly@"+ticks[1]]; state != want.waiting {
				t.Errorf("the waiting one is %s, want %s", state, want.waiting)
			}
			running, err := w.store.Tasks.Get(w.ctx, run.Task.Ref)
			testkit.Must(t, err)
			if stop := !running.CancelRequested.IsZero(); stop != want.running {
				t.Errorf("the running one was asked to stop: %v", stop)
			}
			for key := range redistest.Dump(t, w.db) {
				if strings.Contains(key, "default:nightly") && !strings.Contains(key, "@") {
					t.Errorf("%s is left", key)
				}
			}
			if _, err := w.GetSchedule(w.ctx, me, nightly.ID); task.CodeOf(err) != schedule.CodeNotFound {
				t.Errorf("it is there still: %v", err)
			}
			if err := run.Finish(w.ctx, task.Failed, task.OutcomeFailed, "", ""); err != nil && !errors.Is(err, tasks.ErrCancelled) {
				t.Errorf("the running one could not end: %v", err)
			}
		})
	}
}

// A delivery of a cancelled task that stays in asynq misleads whoever looks at the queue.
func TestDeleteSchedule_RemovesTheDeliveriesOfCancelledTasks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(daily(func(d *schedule.Definition) { d.Overlap = schedule.OverlapAllow }))
	var ids []string
	for range 2 {
		e, err := w.TriggerSchedule(w.ctx, me, nightly.ID)
		testkit.Must(t, err)
		ids = append(ids, e.TaskID(nightly.ID))
	}
	w.claim(me.Ref(ids[0]))
	if got := w.pending(task.DefaultQueue); got != 2 { // claim takes whatever is due
		t.Fatalf("%d deliveries are in asynq", got)
	}
	deleted, err := w.DeleteSchedule(w.ctx, me, nightly.ID, DeleteWaiting)
	if err != nil || deleted.Cancelled != 2 {
		t.Fatalf("%+v, %v", deleted, err)
	}
	if got := w.pending(task.DefaultQueue); got != 0 {
		t.Errorf("%d deliveries are left in asynq", got)
	}
}
