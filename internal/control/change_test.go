package control

import (
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestChangeTask_ChangesWhatIsGiven(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made := w.submit([]task.Definition{{Ref: task.Ref{ID: "a"}, Type: "http", Queue: "low", Delay: time.Hour}})[0].Task
	due := time.Now().Add(time.Minute).UTC().Truncate(time.Millisecond)
	got, err := w.ChangeTask(w.ctx, me, "a", TaskChange{RunAt: &due, Payload: json.RawMessage(`{ "n": 1 }`)})
	if err != nil || !got.DueAt.Equal(due) || got.Queue != "low" || string(got.Payload) != `{"n":1}` || got.CreatedAt != made.CreatedAt {
		t.Errorf("%+v, %v", got, err)
	}
	got, err = w.ChangeTask(w.ctx, me, "a", TaskChange{Queue: new("high")})
	if err != nil || !got.DueAt.Equal(due) || got.Queue != "high" {
		t.Errorf("only the queue: %+v, %v", got, err)
	}
}

func TestChangeTask_TakesAQueuedTaskBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made := w.submit([]task.Definition{{Ref: task.Ref{ID: "a"}, Type: "http", Queue: "low"}})[0].Task
	w.claim(made.Ref)
	got, err := w.ChangeTask(w.ctx, me, "a", TaskChange{Queue: new("high"), Delay: new(time.Hour)})
	if err != nil || got.State != task.Scheduled || got.Attempt != 0 || got.Queue != "high" || time.Until(got.DueAt) < time.Minute {
		t.Fatalf("%+v, %v", got, err)
	}
	if n := w.pending("low"); n != 0 {
		t.Errorf("%d deliveries are left in the old queue", n)
	}
	w.claim(made.Ref)
	now, err := w.GetTask(w.ctx, me, "a")
	testkit.Must(t, err)
	if n := w.pending("high"); n != 1 || now.State != task.Queued || now.Attempt != 1 {
		t.Errorf("afterwards there are %d deliveries, and it is %s for attempt %d", n, now.State, now.Attempt)
	}
}

// The worker has the delivery and is about to begin the attempt. It may not, as it would run what was changed.
func TestChangeTask_OfATaskWhoseDeliveryIsTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made := w.submit([]task.Definition{{Ref: task.Ref{ID: "a"}, Type: "http"}})[0].Task
	w.claim(made.Ref)
	worker := queue.NewConsumer(queue.ConsumerOptions{
		DB: w.db, Name: "test", Concurrency: 1, Queues: map[string]int{task.DefaultQueue: 1}, Log: slog.New(slog.DiscardHandler),
	})
	taken := worker.Take(w.ctx, 1)
	if len(taken) != 1 || taken[0].Queue != task.DefaultQueue {
		t.Fatalf("the worker took %v, want one delivery of the queue default", taken)
	}
	got, err := w.ChangeTask(w.ctx, me, "a", TaskChange{Queue: new("high")})
	if err != nil || got.State != task.Scheduled || got.Queue != "high" {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, err := w.store.Tasks.Begin(w.ctx, made.Ref, 1, "node#1"); !errors.Is(err, tasks.ErrLeftover) {
		t.Errorf("the worker begins it: %v, want %v", err, tasks.ErrLeftover)
	}
	w.claim(made.Ref) // for the same attempt, in the queue high
	begin := func(queue, run string) error {
		return w.store.Tasks.BeginEach(w.ctx, tasks.Runner{Node: "node"}, []tasks.Start{{Ref: made.Ref, Attempt: 1, Run: run, Queue: queue}})[0].Err
	}
	if err := begin(taken[0].Queue, "node#2"); !errors.Is(err, tasks.ErrLeftover) || !strings.Contains(err.Error(), "MOVED") {
		t.Errorf("a worker of the old queue begins it: %v, want %v", err, tasks.ErrLeftover)
	}
	testkit.Must(t, begin("high", "node#3"))
}

func TestChangeTask_Refuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.submit([]task.Definition{{Ref: task.Ref{ID: "waits"}, Type: "http", Delay: time.Hour}, {Ref: task.Ref{ID: "runs"}, Type: "http"}})
	w.begun(me.Ref("runs"))
	for id, c := range map[string]struct {
		change TaskChange
		want   task.Code
	}{
		"nobody": {TaskChange{Delay: new(time.Second)}, task.CodeTaskNotFound},
		"runs":   {TaskChange{Delay: new(time.Second)}, task.CodeNotWaiting},
		"waits":  {TaskChange{Delay: new(time.Second), RunAt: new(time.Now())}, task.CodeInvalid},
	} {
		if _, err := w.ChangeTask(w.ctx, me, id, c.change); task.CodeOf(err) != c.want {
			t.Errorf("%s: %v, want %s", id, err, c.want)
		}
	}
}
