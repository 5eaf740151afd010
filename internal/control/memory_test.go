package control

import (
	"testing"

	"github.com/dts-sched/dts/internal/task"
)

// Everything that creates work is refused; everything else goes on.
func TestNewWork_IsRefusedWhileRedisIsNearlyFull(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(daily(nil))
	w.server.FillMemory()
	c := w.open(w.db)
	for name, do := range map[string]func() error{
		"submit": func() error { _, err := c.Submit(w.ctx, me, task.Definition{Type: "http"}); return err },
		"batch": func() error {
			_, err := c.SubmitEach(w.ctx, me, []task.Definition{{Type: "http"}, {Type: "noop"}})
			return err
		},
		"put":      func() error { _, err := c.PutSchedule(w.ctx, me, daily(nil), PutOptions{}); return err },
		"dry run":  func() error { _, err := c.PutSchedule(w.ctx, me, daily(nil), PutOptions{DryRun: true}); return err },
		"trigger":  func() error { _, err := c.TriggerSchedule(w.ctx, me, nightly.ID); return err },
		"backfill": func() error { _, err := c.BackfillSchedule(w.ctx, me, nightly.ID, BackfillRange{}); return err },
	} {
		if err := do(); err == nil || task.CodeOf(err) != task.CodeUnavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := c.PauseSchedule(w.ctx, me, nightly.ID, ""); err != nil {
		t.Errorf("pause: %v", err)
	}
	if _, err := c.DeleteSchedule(w.ctx, me, nightly.ID, DeleteWaiting); err != nil {
		t.Errorf("delete: %v", err)
	}
}
