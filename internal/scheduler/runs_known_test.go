package scheduler

import (
	"log/slog"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/handover"
	"github.com/dts-sched/dts/internal/lease/leasetest"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/workflow"
)

// A run that is planned often, as there is much to do, does not have all its active steps read each time: that is done
// every ten minutes, for an end that nobody has told.
func TestCarryOn_ReadsAllActiveStepsEveryTenMinutes(t *testing.T) {
	t.Parallel()
	w := newAdvanced(t)
	run := w.create(task.Definition{Type: task.WorkflowType, Queue: task.WorkflowQueue, Payload: []byte(`{"definition": {
		"steps": [{"id": "a", "task": {"type": "echo"}}, {"id": "b", "needs": ["a"], "task": {"type": "echo"}}]}}`)})
	p := w.store.PartitionOf(run)
	leasetest.Grant(t, w.db, w.store.KeysOf(run).Lease(), "1:a", 0)
	lead := &term{
		s: &Scheduler{o: Options{Store: w.store, Log: slog.New(slog.DiscardHandler)}}, partition: p,
		leader: w.store.Partitions.At(p).Lead("1:a"),
	}
	lead.runs.max = defaultCache
	claim := func(node handover.Grant) {
		t.Helper()
		_, err := lead.leader.Claim(t.Context(), 100, node, time.Second)
		testkit.Must(t, err)
	}
	claim(handover.Grant{Default: 10})
	now := w.now()
	plan := func(at time.Time, claimed map[task.Ref]bool, want string) {
		t.Helper()
		var touched map[task.Ref]partition.Touched
		if claimed == nil {
			touched = map[task.Ref]partition.Touched{run: {Look: true}}
		}
		_, err := lead.carryOn(t.Context(), at, touched, claimed)
		testkit.Must(t, err)
		reads, err := lead.leader.ReadRuns(t.Context(), partition.ReadRun{Ref: run})
		testkit.Must(t, err)
		r, err := workflow.DecodeRun(reads[0].Text, 2)
		testkit.Must(t, err)
		if got := string(r.Steps[0].State); got != want {
			t.Errorf("after %s, step a is %s, want %s", at.Sub(now), got, want)
		}
	}
	plan(now, map[task.Ref]bool{run: true}, "active")
	plan(now.Add(time.Second), nil, "active") // reads the step

	claim(handover.Grant{Default: 10})
	begun, err := w.store.Tasks.Begin(t.Context(), run.Step("a"), 1, "n#1")
	testkit.Must(t, err)
	testkit.Must(t, begun.Finish(t.Context(), task.Succeeded, task.OutcomeSucceeded, "", ""))
	testkit.Must(t, w.db.Del(t.Context(), string(w.store.KeysOf(run).Outbox())).Err()) // as if Redis had lost the entry
	plan(now.Add(9*time.Minute), nil, "active")
	plan(now.Add(11*time.Minute), nil, "succeeded")
}
