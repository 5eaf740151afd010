package worker

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor"
)

// foreign enqueues a task in the queue default with asynq's own client.
func (w *world) foreign(payload string) (id string) {
	w.t.Helper()
	info, err := asynq.NewClientFromRedisClient(w.db.UniversalClient).EnqueueContext(w.t.Context(), asynq.NewTask("foreign", []byte(payload)))
	testkit.Must(w.t, err)
	return info.ID
}

// echo is an executor that answers with the payload of the task, and a list of the tasks that it ran.
func echo() (_ work, ran chan task.Ref) {
	ran = make(chan task.Ref, 10)
	return func(_ context.Context, a executor.Attempt) (string, error) {
		ran <- a.Ref
		return string(a.Payload), nil
	}, ran
}

// info is what the queue default says of itself.
func (w *world) info() queue.Info {
	w.t.Helper()
	all, err := w.queues.List(w.t.Context())
	testkit.Must(w.t, err)
	return all[0]
}

func TestForeignClient_StartsAnAttemptWithAReference(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	do, ran := echo()
	w.start(do)
	ref := w.create(task.Definition{Payload: []byte(`{"order":4711}`)})
	own := w.claim()
	w.foreign(fmt.Sprintf(`{"namespace":%q,"task":%q,"attempt":1}`, ref.Namespace, ref.ID))
	if got := w.reaches(ref, task.Succeeded); got.Result != `{"order":4711}` || got.Node != node {
		t.Errorf("it has the result %q of node %s", got.Result, got.Node)
	}
	testkit.Must(t, w.queues.HandOver(t.Context(), own, nil).Failure()) // the leader's delivery of the same attempt comes later
	testkit.Eventually(t, "both deliveries are settled", func() bool { i := w.info(); return i.Size == 0 && i.Processed == 2 })
	if n := len(ran); n != 1 {
		t.Errorf("it ran %d times", n)
	}
	if n := count(t, w.metrics.Leftovers); n != 1 {
		t.Errorf("%v deliveries were dropped, want the second one", n)
	}
}

// What is no reference becomes a dead letter with the reason, and what refers to no queued attempt is dropped: each of them once, and
// holding up nothing.
func TestForeignClient_RunsNothingButAReferenceToAQueuedAttempt(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	do, ran := echo()
	w.start(do)
	for id, d := range map[string]task.Definition{"ended": {}, "later": {Delay: time.Hour}, "elsewhere": {Queue: "low"}} {
		d.Ref = task.Ref{Namespace: task.DefaultNamespace, ID: id}
		w.create(d)
	}
	for _, d := range w.claim() {
		if d.Queue == task.DefaultQueue {
			testkit.Must(t, w.queues.HandOver(t.Context(), []task.Delivery{d}, nil).Failure())
		}
	}
	testkit.Receive(t, ran, "the task that has ended")
	testkit.Eventually(t, "its delivery is settled", func() bool { return w.info().Processed == 1 })
	archived := []string{"vanilla", `{"order":4711}`, `{"namespace":"default","task":"elsewhere"}`}
	dropped := []string{
		`{"namespace":"default","task":"gone","attempt":1}`, `{"namespace":"default","task":"ended","attempt":1}`,
		`{"namespace":"default","task":"ended","attempt":2}`, `{"namespace":"default","task":"later","attempt":1}`,
		`{"namespace":"default","task":"elsewhere","attempt":1}`, `{"namespace":"team","task":"elsewhere","attempt":1}`,
	}
	all := len(archived) + len(dropped)
	for _, payload := range dropped {
		w.foreign(payload)
	}
	var letters []string
	for _, payload := range archived {
		letters = append(letters, w.foreign(payload))
	}
	testkit.Eventually(t, "all are settled", func() bool { return w.info().Processed == 1+all })
	w.reaches(w.submit(task.Definition{}), task.Succeeded)
	testkit.Eventually(t, "a later task is settled", func() bool { return w.info().Processed == 2+all })
	if i := w.info(); i.Size != len(archived) || i.Archived != len(archived) || i.Failed != len(archived) || len(ran) != 1 {
		t.Errorf("the queue is %+v, and %d tasks ran, want %d dead letters, and the later task alone", i, len(ran), len(archived))
	}
	for _, id := range letters {
		if letter := w.db.HGet(t.Context(), "asynq:{default}:t:"+id, "msg").Val(); !strings.Contains(letter, "not a reference to an attempt") {
			t.Errorf("the dead letter does not say why: %q", letter)
		}
	}
	if n := count(t, w.metrics.Leftovers); n != float64(len(dropped)) || !w.said.contain("archiving a task of another asynq client") {
		t.Errorf("%v deliveries were counted as dropped, want %d; or the log does not say what was archived", n, len(dropped))
	}
}
