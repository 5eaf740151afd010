package control

import (
	"reflect"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/handover"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// No worker has ever served the queue, so asynq does not know it; but tasks wait for it.
func TestPauseQueue_BeforeItsFirstWorkerComes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if err := w.PauseQueue(w.ctx, me, "new", ""); task.CodeOf(err) != queue.CodeNotFound {
		t.Errorf("pausing a queue without tasks: %v, want %s", err, queue.CodeNotFound)
	}
	made := w.submit([]task.Definition{{Ref: task.Ref{ID: "a"}, Type: "http", Queue: "new"}})[0].Task
	leader := w.store.Partitions.At(w.store.PartitionOf(made.Ref)).Lead(fence)
	_, err := leader.Claim(w.ctx, 10, handover.Grant{}, time.Second)
	testkit.Must(t, err)
	testkit.Must(t, w.PauseQueue(w.ctx, me, "new", ""))
	queues, err := w.ListQueues(w.ctx, me)
	if err != nil || len(queues) != 1 || queues[0].Name != "new" || !queues[0].Paused || queues[0].Waiting != 1 {
		t.Errorf("%+v, %v", queues, err)
	}
	testkit.Must(t, w.ResumeQueue(w.ctx, me, "new"))
}

func TestGetQueue_IsAsTheListHasIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	testkit.Must(t, w.queues.Add(w.ctx, "mails"))
	testkit.Must(t, w.SetQueueCapacity(w.ctx, me, "later", 5))
	made := w.submit([]task.Definition{{Ref: task.Ref{ID: "a"}, Type: "http", Queue: "new"}})[0].Task
	leader := w.store.Partitions.At(w.store.PartitionOf(made.Ref)).Lead(fence)
	_, err := leader.Claim(w.ctx, 10, handover.Grant{}, time.Second)
	testkit.Must(t, err)
	queues, err := w.ListQueues(w.ctx, me)
	if err != nil || len(queues) != 3 {
		t.Fatalf("%+v, %v", queues, err)
	}
	for _, want := range queues {
		got, known, err := w.GetQueue(w.ctx, me, want.Name)
		got.Oldest = want.Oldest // it grows
		if err != nil || !known || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %v, %v, want %+v", got, known, err, want)
		}
	}
	if got, known, err := w.GetQueue(w.ctx, me, "nobody"); err != nil || known || got.Name != "nobody" {
		t.Errorf("%+v, %v, %v", got, known, err)
	}
	if _, _, err := w.GetQueue(w.ctx, me, "no name"); task.CodeOf(err) != task.CodeInvalid {
		t.Errorf("of what is no name: %v", err)
	}
}
