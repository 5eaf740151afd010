package tasks_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// replicated returns a World on a Redis with a replica, and the tasks of a node that waits so long for that.
func replicated(t *testing.T, timeout time.Duration) (*redistest.Pair, *storetest.World, *tasks.Tasks) {
	t.Helper()
	pair := redistest.StartPair(t)
	w := storetest.On(t, redistest.Open(t, pair.URL()))
	return pair, w, tasks.New(w.Layout, 0, config.Durability{Replicas: 1, Timeout: timeout})
}

// beginOnce begins the only attempt of a task.
func beginOnce(t *testing.T, w *storetest.World, s *tasks.Tasks) *tasks.Run {
	t.Helper()
	ref := task.Ref{Namespace: "default", ID: "once"}
	w.Create(task.Definition{Ref: ref, Retry: task.Retry{MaxAttempts: 1}})
	w.Claim(ref)
	run, err := s.Begin(w.Ctx, ref, 1, "node-a#1")
	testkit.Must(t, err)
	return run
}

// The begin has happened, whatever has become of the caller's time: to call it unconfirmed would leave an attempt that nobody runs.
func TestConfirmBegin_DoesNotRunUnderTheContextOfItsCaller(t *testing.T) {
	t.Parallel()
	_, w, s := replicated(t, 2*time.Second)
	run := beginOnce(t, w, s)
	ended, cancel := context.WithCancel(w.Ctx)
	cancel()
	if err := s.ConfirmBegin(ended, run); err != nil {
		t.Errorf("the replica has it, and the answer is %v", err)
	}
}

func TestConfirm_FailsUnlessTheReplicaHasIt(t *testing.T) {
	t.Parallel()
	pair, w, s := replicated(t, 50*time.Millisecond)
	run := beginOnce(t, w, s)
	pair.Detach()
	if err := s.ConfirmBegin(w.Ctx, run); task.CodeOf(err) != task.CodeNotReplicated {
		t.Errorf("begin: %v, want CodeNotReplicated", err)
	}
	var defs []task.Definition // of all partitions
	for p := range w.Partitions.Count() {
		defs = append(defs, task.Definition{Ref: inPartition(w.Layout, p), Type: "http"})
	}
	for i, created := range s.Create(w.Ctx, defs) {
		if task.CodeOf(created.Err) != task.CodeNotReplicated {
			t.Errorf("creation in partition %d: %v, want CodeNotReplicated", i, created.Err)
		}
	}
}

// beforeWait is a hook that calls do once, before the first pipeline that waits for replicas.
type beforeWait struct{ do func() }

func (beforeWait) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (beforeWait) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (b beforeWait) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if slices.ContainsFunc(cmds, func(c redis.Cmder) bool { return c.Name() == "wait" }) {
			b.do()
		}
		return next(ctx, cmds)
	}
}

// The replicas of another primary can only confirm what that one has: whether it has the write is found out together with the wait.
func TestConfirm_FailsIfAnotherPrimaryLacksTheWrite(t *testing.T) {
	t.Parallel()
	failing := func(t *testing.T) (*storetest.World, *tasks.Tasks) {
		pair, w, s := replicated(t, time.Second)
		w.DB.AddHook(beforeWait{do: sync.OnceFunc(func() {
			pair.FailOver()
			pair.AddReplica()
		})})
		pair.Detach() // what is written from now on, the failover loses
		return w, s
	}
	t.Run("creation", func(t *testing.T) {
		t.Parallel()
		w, s := failing(t)
		def := task.Definition{Ref: task.Ref{Namespace: "default", ID: "a"}, Type: "http"}
		if created := s.Create(w.Ctx, []task.Definition{def})[0]; task.CodeOf(created.Err) != task.CodeNotReplicated {
			t.Errorf("the creation was lost: %v, want CodeNotReplicated", created.Err)
		}
		created := s.Create(w.Ctx, []task.Definition{def})[0] // the request is repeated
		if created.Err != nil || created.Existed {
			t.Errorf("created again: %+v, want a new task", created)
		}
	})
	t.Run("begin", func(t *testing.T) {
		t.Parallel()
		w, s := failing(t)
		run := beginOnce(t, w, s)
		if err := s.ConfirmBegin(w.Ctx, run); task.CodeOf(err) != task.CodeNotReplicated {
			t.Errorf("the begin was lost: %v, want CodeNotReplicated", err)
		}
	})
}

// A task that is not kept may be gone before its creation is confirmed. Its name is remembered.
func TestConfirm_KnowsTasksThatHaveEndedAndWereDeleted(t *testing.T) {
	t.Parallel()
	_, w, s := replicated(t, 2*time.Second)
	def := task.Definition{Ref: task.Ref{Namespace: "default", ID: "short"}, Type: "http"}
	w.DB.AddHook(beforeWait{do: sync.OnceFunc(func() {
		testkit.Must(t, w.Begin(def.Ref).Finish(w.Ctx, task.Succeeded, task.OutcomeSucceeded, "", ""))
		swept, err := w.Leader(def.Ref).Sweep(w.Ctx, partition.Keep{Remember: time.Hour, Names: 10}, 10)
		if err != nil || swept.Deleted != 1 {
			t.Errorf("deleted %d tasks, %v, want 1", swept.Deleted, err)
		}
	})})
	testkit.Must(t, s.Create(w.Ctx, []task.Definition{def})[0].Err)
}

// What was accepted runs to its end while Redis is full, as begin does.
func TestConfirmBegin_WorksWhileRedisIsFull(t *testing.T) {
	t.Parallel()
	pair, w, s := replicated(t, 2*time.Second)
	run := beginOnce(t, w, s)
	testkit.Must(t, pair.Primary.DB(t).ConfigSet(w.Ctx, "maxmemory", "1").Err())
	testkit.Must(t, s.ConfirmBegin(w.Ctx, run))
}

// inPartition returns the name of a task in a partition.
func inPartition(l *layout.Layout, p int) task.Ref {
	for id := 'a'; ; id++ {
		if ref := (task.Ref{Namespace: "default", ID: string(id)}); l.PartitionOf(ref) == p {
			return ref
		}
	}
}
