package control

import (
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestLimitQueue_RefusesWhatWouldWaitBeyondIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.hourly(3, func(d *schedule.Definition) { d.Task.Queue = "small" })
	decided := w.schedule(nightly).Cursor
	testkit.Must(t, w.LimitQueue(w.ctx, me, "small", 2))
	queues, err := w.ListQueues(w.ctx, me)
	if err != nil || len(queues) != 1 || queues[0].Name != "small" || queues[0].Limit != 2 {
		t.Errorf("queues %+v, %v", queues, err)
	}
	small := task.Definition{Type: "http", Queue: "small"}
	later := small
	later.Delay = time.Hour
	answers := w.submit([]task.Definition{small, small, small, later, {Type: "http"}})
	for i, want := range []task.Code{"", "", task.CodeQueueFull, "", ""} {
		if answers[i].Err == nil && want != "" || answers[i].Err != nil && task.CodeOf(answers[i].Err) != want {
			t.Errorf("task %d: %v, want %q", i, answers[i].Err, want)
		}
	}
	for name, do := range map[string]func() error{
		"submit":  func() error { _, err := w.Submit(w.ctx, me, small); return err },
		"preview": func() error { a, _ := w.PreviewEach(w.ctx, me, []task.Definition{small}); return a[0].Err },
		"trigger": func() error { _, err := w.TriggerSchedule(w.ctx, me, nightly.ID); return err },
		"backfill": func() error {
			_, err := w.BackfillSchedule(w.ctx, me, nightly.ID, BackfillRange{From: decided.Add(-time.Hour), Until: decided})
			return err
		},
	} {
		if err := do(); task.CodeOf(err) != task.CodeQueueFull {
			t.Errorf("%s: %v", name, err)
		}
	}
	testkit.Must(t, w.LimitQueue(w.ctx, me, "small", 0))
	if _, err := w.Submit(w.ctx, me, small); err != nil {
		t.Errorf("without a limit: %v", err)
	}
}

// A dry run takes no place.
func TestPreviewEach_LeavesTheRoomOfAQueueAsItIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	testkit.Must(t, w.LimitQueue(w.ctx, me, "default", 1))
	for range 3 {
		if a, err := w.PreviewEach(w.ctx, me, []task.Definition{{Type: "http"}}); err != nil || a[0].Err != nil {
			t.Fatalf("%v, %+v", err, a)
		}
	}
	if _, err := w.Submit(w.ctx, me, task.Definition{Type: "http"}); err != nil {
		t.Error(err)
	}
}
