package control

import (
	"context"
	"errors"
	"testing"

	"github.com/dts-sched/dts/internal/task"
)

func TestMemoryGuard_RefusesNewWorkAboveTheLimit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		used, limit int64
		err         error
		refuses     bool
	}{
		{used: 90, limit: 100},
		{used: 91, limit: 100, refuses: true},
		{used: 1 << 40, limit: 0},
		{used: 91, limit: 100, err: errors.New("no connection")},
	} {
		reads := 0
		g := memoryGuard{read: func(context.Context) (int64, int64, error) { reads++; return c.used, c.limit, c.err }}
		for range 3 {
			if err := g.check(t.Context()); (task.CodeOf(err) == task.CodeUnavailable && err != nil) != c.refuses {
				t.Errorf("%+v: %v", c, err)
			}
		}
		if reads != 1 {
			t.Errorf("%+v: the memory was read %d times within its lifetime", c, reads)
		}
	}
}

// Everything that creates work is refused; everything else goes on.
func TestNewWork_IsRefusedWhileRedisIsNearlyFull(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(daily(nil))
	w.server.FillMemory()
	c := w.open(w.db) // which has not read the memory yet
	for name, do := range map[string]func() error{
		"submit":   func() error { _, err := c.Submit(w.ctx, me, task.Definition{Type: "http"}); return err },
		"batch":    func() error { _, err := c.SubmitEach(w.ctx, me, nil); return err },
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
