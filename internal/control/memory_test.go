package control

import (
	"fmt"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// Everything that creates work is refused; everything else goes on.
func TestNewWork_IsRefusedWhileRedisIsNearlyFull(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(daily(nil))
	w.put(daily(func(d *schedule.Definition) { d.Description = "again" }))
	ended := w.submit([]task.Definition{{Type: "http", Delay: time.Hour}})[0].Task.ID
	_, err := w.CancelTask(w.ctx, me, ended, "")
	testkit.Must(t, err)
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
		"rollback": func() error { _, err := c.RollbackSchedule(w.ctx, me, nightly.ID, 1, 0); return err },
		"retry":    func() error { _, err := c.RetryTask(w.ctx, me, ended, time.Time{}); return err },
		"trigger":  func() error { _, err := c.TriggerSchedule(w.ctx, me, nightly.ID); return err },
		"preview":  func() error { _, err := c.PreviewTrigger(w.ctx, me, nightly.ID); return err },
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

// A server of a cluster may be full alone.
func TestNewWork_IsRefusedByTheMemoryOfTheServerThatWouldHoldIt(t *testing.T) {
	t.Parallel()
	servers := redistest.StartCluster(t)
	db := redistest.Open(t, servers.URL())
	data, err := store.Open(t.Context(), store.Options{DB: db})
	testkit.Must(t, err)
	full := servers.Servers[1]
	testkit.Must(t, full.Admin().ConfigSet(t.Context(), "maxmemory", "1").Err())
	defs := make([]task.Definition, 50)
	for i := range defs {
		defs[i] = task.Definition{Ref: task.Ref{Namespace: me.Namespace, ID: fmt.Sprint(i)}, Type: "http"}
	}
	answers, err := New(Options{Store: data}).PreviewEach(t.Context(), me, defs) // which Redis itself refuses nowhere
	testkit.Must(t, err)
	refused := make(map[bool]int)
	for i, answer := range answers {
		isFull := servers.Primary(string(data.KeysOf(defs[i].Ref).States())) == full
		if (answer.Err != nil) != isFull || isFull && task.CodeOf(answer.Err) != task.CodeUnavailable {
			t.Errorf("task %d, on the full server: %v, got %v", i, isFull, answer.Err)
		}
		refused[isFull]++
	}
	if refused[true] == 0 || refused[false] == 0 {
		t.Errorf("of the tasks, %d are on the full server, and %d elsewhere", refused[true], refused[false])
	}
}
