package control

import (
	"errors"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestDeleteSchedule_EndsTheTasksItIsToldTo(t *testing.T) {
	t.Parallel()
	for which, want := range map[DeleteTasks]struct {
		answer  Deleted
		waiting task.State
		running bool // asked to stop
	}{
		DeleteWaiting: {Deleted{Cancelled: 1, Left: 1}, task.Cancelled, false},
		DeleteAll:     {Deleted{Cancelled: 1, Stopping: 1}, task.Cancelled, true},
		DeleteNone:    {Deleted{Left: 2}, task.Scheduled, false},
	} {
		t.Run(string(which), func(t *testing.T) {
			w := newWorld(t)
			ticks := w.hourly(2, func(d *schedule.Definition) { d.Overlap = schedule.OverlapAllow })
			w.fire(nightly)
			run := w.begun(task.Ref{Namespace: "default", ID: "nightly@" + ticks[0]})
			w.db.Del(w.ctx, w.key(nightly, "live")) // those of a backfill are not in it either
			got, err := w.DeleteSchedule(w.ctx, me, nightly.ID, which)
			if err != nil || got != want.answer {
				t.Errorf("%+v, %v, want %+v", got, err, want.answer)
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
