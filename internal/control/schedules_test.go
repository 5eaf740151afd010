package control

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
)

func TestTriggerSchedule_ObeysTheOverlapPolicy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(daily(nil))
	if _, err := w.PauseSchedule(w.ctx, me, nightly.ID, ""); err != nil {
		t.Fatal(err)
	}
	e, err := w.TriggerSchedule(w.ctx, me, nightly.ID)
	if err != nil || e.Outcome != schedule.Triggered {
		t.Fatalf("%+v, %v", e, err)
	}
	if diff := cmp.Diff(map[string]task.State{e.TaskID("nightly"): task.Scheduled}, w.tasksOf(nightly)); diff != "" {
		t.Errorf("tasks (-want +got):\n%s", diff)
	}
	if _, err := w.TriggerSchedule(w.ctx, me, nightly.ID); task.CodeOf(err) != schedule.CodeBusy {
		t.Errorf("while the first had not ended: %v", err)
	}
	w.end(nightly, e.Name, task.Succeeded)
	if _, err := w.TriggerSchedule(w.ctx, me, nightly.ID); err != nil {
		t.Errorf("after it had ended: %v", err)
	}
	if _, err := w.TriggerSchedule(w.ctx, me, "nobody"); task.CodeOf(err) != schedule.CodeNotFound {
		t.Errorf("of nothing: %v", err)
	}
}
