// Package storetest is for tests of the store: it drives tasks and schedules on a Redis of their own by hand, as leaders
// and workers do.
package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/handover"
	"github.com/dts-sched/dts/internal/lease/leasetest"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// Fence is the fence of the leases that a World has on all partitions.
const Fence = "1:tester"

// Quotas allow many tasks of every queue.
var Quotas = handover.Grant{Default: 1000}

// partitions is the number of partitions of a World.
const partitions = 2

// World is a store, with leases on all of its partitions. Its methods fail the test on any error that they do not return.
type World struct {
	*store.Store
	Ctx context.Context // ends with the test
	t   testing.TB
}

// New returns a World on a Redis of its own.
func New(t testing.TB) *World {
	t.Helper()
	return On(t, redistest.Start(t).DB(t))
}

// On returns a World on that Redis.
func On(t testing.TB, db *redisx.DB) *World {
	t.Helper()
	s, err := store.Open(t.Context(), store.Options{DB: db, Partitions: partitions})
	testkit.Must(t, err)
	for p := range s.Partitions.Count() {
		leasetest.Grant(t, db, s.Partitions.LeaseKey(p), Fence, 0)
	}
	return &World{Store: s, Ctx: t.Context(), t: t}
}

// NameIn returns a name of a partition, whose id begins with that text.
func (w *World) NameIn(partition int, namespace, id string) task.Ref {
	for i := 0; ; i++ {
		if ref := (task.Ref{Namespace: namespace, ID: fmt.Sprintf("%s-%d", id, i)}); w.PartitionOf(ref) == partition {
			return ref
		}
	}
}

// Create creates a task; its type is http unless d has one.
func (w *World) Create(d task.Definition) task.Task {
	w.t.Helper()
	if d.Type == "" {
		d.Type = "http"
	}
	created := w.Tasks.Create(w.Ctx, []task.Definition{d})[0]
	testkit.Must(w.t, created.Err)
	return created.Task
}

// Get reads a task; the zero task if it does not exist.
func (w *World) Get(ref task.Ref) task.Task {
	w.t.Helper()
	t, err := w.Tasks.Get(w.Ctx, ref)
	if task.CodeOf(err) == task.CodeTaskNotFound {
		return task.Task{}
	}
	testkit.Must(w.t, err)
	return t
}

// Leader returns the leader of the partition of a task or schedule.
func (w *World) Leader(ref task.Ref) *partition.Leader {
	return w.Partitions.At(w.PartitionOf(ref)).Lead(Fence)
}

// Claim claims the due tasks of a task's partition, up to 100.
func (w *World) Claim(ref task.Ref) []task.Delivery {
	w.t.Helper()
	claimed, err := w.Leader(ref).Claim(w.Ctx, 100, Quotas, time.Second)
	testkit.Must(w.t, err)
	return claimed.Deliveries
}

// Begin claims a task and begins its attempt on node-a with the run token node-a#1.
func (w *World) Begin(ref task.Ref) *tasks.Run {
	w.t.Helper()
	w.Claim(ref)
	run, err := w.Tasks.Begin(w.Ctx, ref, w.Get(ref).Attempt, "node-a#1")
	testkit.Must(w.t, err)
	return run
}

// Lapse ends the lease of a task's run, as if its worker had died long ago.
func (w *World) Lapse(ref task.Ref) {
	w.t.Helper()
	testkit.Must(w.t, w.DB.ZAdd(w.Ctx, string(w.KeysOf(ref).Held()), redis.Z{Score: 1, Member: ref.String()}).Err())
}

// Bring creates a task of that id in the namespace default, with two attempts, and brings it into a state. For task.None
// it only returns the name.
func (w *World) Bring(id string, state task.State) task.Ref {
	w.t.Helper()
	ref := task.Ref{Namespace: "default", ID: id}
	if state == task.None {
		return ref
	}
	w.Create(task.Definition{Ref: ref, Retry: task.Retry{MaxAttempts: 2}})
	switch state {
	case task.Queued:
		w.Claim(ref)
	case task.Running:
		w.Begin(ref)
	case task.Succeeded:
		testkit.Must(w.t, w.Begin(ref).Finish(w.Ctx, task.Succeeded, task.OutcomeSucceeded, "done", ""))
	case task.Failed:
		testkit.Must(w.t, w.Begin(ref).Finish(w.Ctx, task.Failed, task.OutcomeFailed, "", "boom"))
	case task.Cancelled:
		_, err := w.Tasks.Cancel(w.Ctx, ref, "")
		testkit.Must(w.t, err)
	}
	return ref
}

// Requeue moves a task with that definition to another queue, and returns the error of the change.
func (w *World) Requeue(before task.Definition, queue string, recalled int) error {
	after := before
	after.Queue = queue
	_, err := w.Tasks.Change(w.Ctx, before, after, tasks.NewDue{}, recalled)
	return err
}
