package control

import (
	"fmt"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/store/limits"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestSetQueueCapacity_RefusesWhatWouldWaitBeyondIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.hourly(3, func(d *schedule.Definition) { d.Task.Queue = "small" })
	decided := w.schedule(nightly).Cursor
	ended := w.submit([]task.Definition{{Type: "http", Queue: "small", Delay: time.Hour}})[0].Task.ID
	_, err := w.CancelTask(w.ctx, me, ended, "")
	testkit.Must(t, err)
	testkit.Must(t, w.SetQueueCapacity(w.ctx, me, "small", 2))
	queues, err := w.ListQueues(w.ctx, me)
	if err != nil || len(queues) != 1 || queues[0].Name != "small" || queues[0].Capacity != 2 {
		t.Errorf("queues %+v, %v", queues, err)
	}
	small := task.Definition{Type: "http", Queue: "small"}
	later := small
	later.Delay = time.Hour
	answers := w.submit([]task.Definition{small, small, small, later, {Type: "http"}})
	for i, want := range []task.Code{"", "", limits.CodeFull, "", ""} {
		if answers[i].Err == nil && want != "" || answers[i].Err != nil && task.CodeOf(answers[i].Err) != want {
			t.Errorf("task %d: %v, want %q", i, answers[i].Err, want)
		}
	}
	for name, do := range map[string]func() error{
		"submit":  func() error { _, err := w.Submit(w.ctx, me, small); return err },
		"preview": func() error { a, _ := w.PreviewEach(w.ctx, me, []task.Definition{small}); return a[0].Err },
		"retry":   func() error { _, err := w.RetryTask(w.ctx, me, ended, time.Time{}); return err },
		"trigger": func() error { _, err := w.TriggerSchedule(w.ctx, me, nightly.ID); return err },
		"preview of a trigger": func() error {
			_, err := w.PreviewTrigger(w.ctx, me, nightly.ID)
			return err
		},
		"preview of a backfill": func() error {
			_, err := w.PreviewBackfill(w.ctx, me, nightly.ID, BackfillRange{From: decided.Add(-time.Hour), Until: decided})
			return err
		},
		"backfill": func() error {
			_, err := w.BackfillSchedule(w.ctx, me, nightly.ID, BackfillRange{From: decided.Add(-time.Hour), Until: decided})
			return err
		},
	} {
		if err := do(); task.CodeOf(err) != limits.CodeFull {
			t.Errorf("%s: %v", name, err)
		}
	}
	testkit.Must(t, w.SetQueueCapacity(w.ctx, me, "small", 0))
	if _, err := w.Submit(w.ctx, me, small); err != nil {
		t.Errorf("without a limit: %v", err)
	}
	if _, err := w.RetryTask(w.ctx, me, ended, time.Time{}); err != nil {
		t.Errorf("a retry without a limit: %v", err)
	}
}

// The clock of a node may be wrong.
func TestSetQueueCapacity_AsksTheClockOfRedisWhetherATaskIsDue(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.MovableClock(t))
	db := server.DB(t)
	data, err := store.Open(t.Context(), store.Options{DB: db})
	testkit.Must(t, err)
	for _, ahead := range []time.Duration{time.Hour, -time.Hour} {
		server.MoveClock(ahead)
		c := New(Options{
			Store: data, Queues: queue.New(queue.Options{DB: db}), Nodes: cluster.NewObserver(cluster.Options{DB: db, Key: data.Keys.Nodes()}),
		})
		due := time.Now().Add(ahead / 2) // passed by one clock only
		small := task.Definition{Type: "http", Queue: fmt.Sprint("small-", ahead)}
		timed := small
		timed.RunAt = due
		testkit.Must(t, c.SetQueueCapacity(t.Context(), me, small.Queue, 1))
		_, err := c.Submit(t.Context(), me, small)
		testkit.Must(t, err)
		if _, err := c.Submit(t.Context(), me, timed); (task.CodeOf(err) == limits.CodeFull) != (ahead > 0) {
			t.Errorf("the clock of Redis is ahead by %s: a task for %s later than by this node's is answered with %v", ahead, ahead/2, err)
		}
		timed.Queue, timed.RunAt = "default", due.Add(task.HorizonLimit)
		if _, err := c.Submit(t.Context(), me, timed); (err == nil) != (ahead > 0) {
			t.Errorf("the clock of Redis is ahead by %s: a task for about the latest time is answered with %v", ahead, err)
		}
	}
}

// A dry run takes no place.
func TestPreviewEach_LeavesTheRoomOfAQueueAsItIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	testkit.Must(t, w.SetQueueCapacity(w.ctx, me, "default", 1))
	for range 3 {
		if a, err := w.PreviewEach(w.ctx, me, []task.Definition{{Type: "http"}}); err != nil || a[0].Err != nil {
			t.Fatalf("%v, %+v", err, a)
		}
	}
	if _, err := w.Submit(w.ctx, me, task.Definition{Type: "http"}); err != nil {
		t.Error(err)
	}
}
